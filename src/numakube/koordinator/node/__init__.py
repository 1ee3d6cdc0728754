"""What a node has to offer, before any pod is counted."""
