"""What a node has for pods, before any of them is there."""
