"""The lab's API server: Kubernetes REST over HTTP, with an in-memory store."""
