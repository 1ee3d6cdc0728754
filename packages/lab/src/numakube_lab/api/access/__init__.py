"""Who sends a request, and what they may do."""
