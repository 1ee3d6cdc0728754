"""The admission webhook: refuses pods whose NUMA annotations nobody could read.

Pods are refused; owners of nodes, and those who write templates of pods, are warned, since what
they change may be something else altogether. It only looks at what it is asked about, so that the
API server may do without it (``failurePolicy: Ignore``): then the scheduler is the one who tells.
"""
