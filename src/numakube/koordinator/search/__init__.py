"""The search for NUMA nodes that have what one holder, a pod or a container, must be given."""
