"""Dynamic Resource Allocation: which devices claims get, exactly as in kube-scheduler. Pure."""
