"""The async Kubernetes client: configuration, requests, watches, and what is built on them."""
