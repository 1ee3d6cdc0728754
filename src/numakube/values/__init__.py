"""Values with exact arithmetic: quantities, CPU sets, NUMA masks, resource names. Pure."""
