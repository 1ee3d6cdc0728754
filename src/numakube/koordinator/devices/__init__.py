"""Which devices a pod or a container gets, and on which NUMA nodes."""
