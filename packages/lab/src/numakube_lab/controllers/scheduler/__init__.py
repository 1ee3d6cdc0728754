"""The default scheduler of the lab: by resources, selectors, taints and spread. It knows no NUMA.

It stands in for kube-scheduler's default profile where that matters to the lab: which nodes can
take a pod, hard topology spread constraints, spreading by least allocation, the order of
priorities, and what users are told. It does not know pod affinity, soft constraints, volumes,
ports, preemption, nor extenders; a real kube-scheduler can be run against the lab in its place.
"""
