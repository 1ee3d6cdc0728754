"""The CPU Manager: which exclusive CPUs a container gets."""
