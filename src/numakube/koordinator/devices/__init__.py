"""Chooses the devices of a pod or container, and their NUMA nodes."""
