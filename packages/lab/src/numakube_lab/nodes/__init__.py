"""The lab's nodes: kubelets that decide by the model, behind the Kubernetes API."""
