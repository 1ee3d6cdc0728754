"""NUMA alignment: beliefs about each node's zones, and where a pod fits by them."""
