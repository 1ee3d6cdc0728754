"""What a pod asks for: its annotations, labels and requests, read once."""
