"""Kinds that create, scale or protect pods: deployments, jobs, budgets and the like."""
