"""The way to an API server: where it is, who we are to it, and how requests get there."""
