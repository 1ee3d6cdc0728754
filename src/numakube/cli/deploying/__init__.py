"""Commands that bring the stack onto a cluster, look whether it fits there, and take it away."""
