"""Deploys components onto a cluster without an operator, and removes them.

What was deployed carries a label, so that removing it touches nothing else: a namespace or a kind
that was there before stays.
"""
