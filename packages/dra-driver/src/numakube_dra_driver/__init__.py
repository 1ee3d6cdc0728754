"""The DRA driver: offers a node's CPUs by NUMA node, and makes claims for them true."""
