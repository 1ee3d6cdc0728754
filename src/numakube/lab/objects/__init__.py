"""What the API server knows of the built-in kinds: defaults, checks and columns. Pure."""
