"""Which taints a pod puts up with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.placement import Taint
from numakube.api.placement_rules import tolerates

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.placement import Toleration
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.columns import Column
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


def taint_sets(snapshot: Snapshot) -> Column[tuple[Taint, ...]]:
    """Return the taints of every node; nodes with the same ones share a value."""
    return snapshot.column("taints", _taints)


def _taints(node: NodeInfo) -> tuple[Taint, ...] | None:
    # When a taint was added differs from node to node and does not matter here.
    taints = node.node.spec.taints
    return tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in taints) or None
