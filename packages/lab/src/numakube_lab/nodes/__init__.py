"""The lab's nodes: kubelets whose decisions are the model's, behind the Kubernetes API."""
