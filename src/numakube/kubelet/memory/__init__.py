"""The Memory Manager: which NUMA nodes a guaranteed container gets its memory from."""
