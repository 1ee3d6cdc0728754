"""Controllers of the cluster: nodes, namespaces, accounts and garbage collection."""
