"""The CPU Manager: which CPUs a container gets for itself."""
