"""The Memory Manager: from which NUMA nodes a guaranteed container gets memory and hugepages."""
