"""The contract between scheduling plugins and the code that runs them.

Extension points, their order and the meaning of their results follow kube-scheduler 1.37
(k8s.io/kube-scheduler/framework), so that its documentation holds for our plugins too. Two things
differ. A plugin may judge all nodes at once (`VectorFilter`, `VectorScore`) beside or instead of
one after the other. And a cycle is an ordinary function: nothing changes while it runs.

What `__all__` names is all that a plugin needs, and public; the modules themselves may change.
"""

from numakube.scheduling.arrays import IntArray, Mask, Rows
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import Clonable, CycleState, StateKey, annotate
from numakube.scheduling.framework.plugins import (
    MAX_NODE_SCORE,
    Bind,
    Confirm,
    Filter,
    Nomination,
    NormalizesScores,
    Permit,
    Plugin,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreFilterResult,
    PreScore,
    QueueSort,
    Reserve,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.registry import (
    ENTRY_POINTS,
    Factory,
    Handle,
    Registry,
    Service,
    Services,
)
from numakube.scheduling.framework.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    Verdicts,
    failure,
    unresolvable,
    unschedulable,
)
from numakube.scheduling.snapshot.cluster import Snapshot
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo

__all__ = [
    "ENTRY_POINTS",
    "MAX_NODE_SCORE",
    "SKIP",
    "SUCCESS",
    "Bind",
    "Clonable",
    "ClusterEvent",
    "Code",
    "Confirm",
    "CycleState",
    "EventKind",
    "Factory",
    "Filter",
    "Handle",
    "IntArray",
    "Mask",
    "NodeInfo",
    "Nomination",
    "NormalizesScores",
    "Permit",
    "Plugin",
    "PodInfo",
    "PostBind",
    "PostFilter",
    "PreBind",
    "PreEnqueue",
    "PreFilter",
    "PreFilterResult",
    "PreScore",
    "QueueSort",
    "Registry",
    "Reserve",
    "Rows",
    "Score",
    "Service",
    "Services",
    "Snapshot",
    "StateKey",
    "Status",
    "VectorFilter",
    "VectorScore",
    "Verdicts",
    "annotate",
    "failure",
    "unresolvable",
    "unschedulable",
]
