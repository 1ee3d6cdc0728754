"""Brings components onto a cluster and takes them away again, without an operator.

What was deployed carries a label, so that removing it touches nothing else: a namespace or a kind
that was there before stays.
"""
