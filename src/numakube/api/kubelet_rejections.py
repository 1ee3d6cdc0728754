"""Which reasons of failed pods mean that a kubelet rejected them.

A kubelet that does not admit a pod which a scheduler has bound to its node makes the pod fail, with
a reason of its own: those of its resource managers, ``OutOf`` with a resource that the node as a
whole lacks, or the name of another rule of pkg/kubelet/lifecycle (Kubernetes 1.31 to 1.37).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube.api.pod import Pod

MANAGER_REJECTIONS: Final = frozenset(
    {
        "TopologyAffinityError",
        "Topology Affinity Error",
        "UnexpectedAdmissionError",
        "SMTAlignmentError",
    }
)
"""Reasons of the resource managers, which NUMA zones may explain; one in an older spelling too."""
_NODE_RULES: Final = frozenset({"NodeAffinity", "NodeName", "NodePorts", "TaintToleration"})
_OUT_OF: Final = "OutOf"


def is_rejected(pod: Pod) -> bool:
    """Tell whether the kubelet of its node refused to run *pod* after it was bound."""
    status = pod.status
    if status is None or status.phase != "Failed" or not pod.spec.node_name:
        return False
    return is_rejection(status.reason)


def is_rejection(reason: str) -> bool:
    """Tell whether a failed pod with this *reason* was rejected by a kubelet."""
    return reason in MANAGER_REJECTIONS or reason.startswith(_OUT_OF) or reason in _NODE_RULES
