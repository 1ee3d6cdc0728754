"""Changes that would make a pod fit, found by trying, the smallest first.

Each module knows one sort of change and yields those that the bench has found to work.
"""
