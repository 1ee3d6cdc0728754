"""Controllers of nodes, namespaces, service accounts and garbage collection."""
