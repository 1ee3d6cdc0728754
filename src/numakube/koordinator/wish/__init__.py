"""What a pod asks for, read from its annotations, labels and requests."""
