"""Controllers of workloads: deployments, sets, jobs and disruption budgets."""
