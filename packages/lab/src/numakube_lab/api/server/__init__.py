"""The server itself: HTTP, routing, start-up, and paths beside the resources."""
