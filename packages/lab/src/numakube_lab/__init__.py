"""The lab: a Kubernetes cluster in one process, whose nodes are the kubelet model."""
