"""Which resources are served, and how objects of each are treated."""
