"""The lab's controllers: what kube-controller-manager and a NUMA-blind scheduler do.

Each is a loop around a pure function. The function takes what the mirrors of the API server show
of one object and what belongs to it, and returns a `Plan`; the loop performs it, waits until the
mirrors show the outcome, and looks again whenever something changes. They follow
kube-controller-manager and kube-scheduler 1.35.
"""
