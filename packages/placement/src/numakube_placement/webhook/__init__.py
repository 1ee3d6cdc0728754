"""The admission webhook: rejects pods whose NUMA annotations cannot be read.

Pods are refused; changes of nodes and of templates of pods get a warning, since they may be about
something else. It only looks at what it is asked about, so the API server may do without it
(``failurePolicy: Ignore``): then the scheduler reports the mistake.
"""
