"""The lab: an embedded Kubernetes cluster in one process."""
