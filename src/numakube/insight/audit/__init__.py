"""Which pods want their resources on one NUMA node and do not have them there, and why."""
