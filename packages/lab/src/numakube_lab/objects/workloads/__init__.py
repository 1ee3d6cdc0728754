"""Kinds that make, scale or protect pods: deployments, jobs, budgets and the like."""
