"""Advice on requests and reservations: which small change gives a pod more places."""
