"""Placement as Koordinator does it: the scheduler chooses CPUs and devices. Pure.

The counterpart of `numakube.kubelet`: there the kubelet decides and we predict it; here the
scheduler decides, writes the decision in annotations of the pod (Koordinator's; KAI's are read as
well), and an agent on the node enforces it. This is for nodes whose kubelet aligns nothing.

`read_pod` reads what a pod asks for, `read_node` what a node has. `placement_rule` says what holds
for the pod there, `node_ledger` what other pods already hold, and `placement_on_node` turns all of
it into an allotment or a refusal, by means of `numa_search` (NUMA nodes), `cpu_pick` (logical CPUs)
and `device_choice`. Nothing is state: a ledger follows from the pods on a node.
"""
