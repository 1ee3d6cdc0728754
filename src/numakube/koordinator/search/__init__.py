"""Searches for NUMA nodes that have what one pod or container must be given."""
