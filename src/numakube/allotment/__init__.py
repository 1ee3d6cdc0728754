"""What our scheduler gives a pod on a node whose kubelet aligns nothing.

The counterpart of `numakube.kubelet`: there the kubelet decides and we foresee it; here the
scheduler decides, writes the decision on the pod, and an agent on the node enforces it. A wish
(`wishes`) meets a node (`facts`) under a rule (`rules`); `admission` turns them and the ledger of
what others hold into an allotment or a refusal. All of it is pure, and none of it is state: a
ledger follows from the pods on a node.
"""
