"""The DRA driver: offers CPUs and memory by NUMA node, and makes claims for them true."""
