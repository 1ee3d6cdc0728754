"""Which taints of a node a pod tolerates, and which of them keep it away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.affinity_and_taints import Taint, tolerates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.affinity_and_taints import Toleration
    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.api.resource_slices import DeviceTaint
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_columns import Column
    from numakube.scheduling.snapshot.nodes import NodeInfo

NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"
PREFER_NO_SCHEDULE: Final = "PreferNoSchedule"
FORBIDDING: Final = frozenset({NO_SCHEDULE, NO_EXECUTE})


def is_tolerated(taint: Taint, tolerations: Iterable[Toleration]) -> bool:
    """Tell whether any of *tolerations* covers *taint*."""
    return any(tolerates(one, taint) for one in tolerations)


def keeps_away(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Tell whether one of *taints* forbids a pod with *tolerations*."""
    return any(
        taint.effect in FORBIDDING and not is_tolerated(taint, tolerations) for taint in taints
    )


def untolerated(pod: Pod, node: Node) -> tuple[Taint, ...]:
    """Return the taints of *node* that keep *pod* away."""
    return tuple(
        taint
        for taint in node.spec.taints
        if taint.effect in FORBIDDING and not is_tolerated(taint, pod.spec.tolerations)
    )


def taint_text(taint: Taint | DeviceTaint) -> str:
    """Write a taint as kubectl does."""
    value = f"={taint.value}" if taint.value else ""
    return f"{taint.key}{value}:{taint.effect}"


def taint_sets(snapshot: Snapshot) -> Column[tuple[Taint, ...]]:
    """Return the taints of every node; nodes with the same ones share a value."""
    return snapshot.column("taints", _taints)


def _taints(node: NodeInfo) -> tuple[Taint, ...] | None:
    # When a taint was added differs from node to node and does not matter here.
    taints = node.node.spec.taints
    return tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in taints) or None
