"""Node selectors and taints, matched against one node or all nodes at once."""
