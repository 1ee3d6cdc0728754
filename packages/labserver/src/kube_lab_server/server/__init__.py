"""The server: HTTP, routing, start-up, and paths that serve no resource."""
