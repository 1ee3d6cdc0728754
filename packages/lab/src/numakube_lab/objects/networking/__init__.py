"""Services, endpoints, ingresses and network policies."""
