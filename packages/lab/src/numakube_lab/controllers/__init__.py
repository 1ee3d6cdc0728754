"""The controllers of a cluster: they make pods of deployments and remove what is not needed.

Each is a loop around a pure function. The function takes what the mirrors of the API server show
of one object and what belongs to it, and returns a `Plan`; the loop performs it, waits until the
mirrors show the outcome, and looks again whenever something changes. They follow
kube-controller-manager and kube-scheduler 1.35.
"""
