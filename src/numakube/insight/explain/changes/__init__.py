"""What would make the pod fit: found by trying, from the smallest change upwards.

Each module knows one sort of change and yields those that the bench has found to work.
"""
