"""The predicates and scores of kube-scheduler's default profile (1.35), one module each."""
