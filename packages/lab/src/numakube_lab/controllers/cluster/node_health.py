"""What follows from the health of a node: its conditions and its taints. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.affinity_and_taints import Taint
from numakube.api.nodes import NodeCondition
from numakube.values.times import format_time

if TYPE_CHECKING:
    from datetime import datetime

    from numakube.api.nodes import Node

_PREFIX: Final = "node.kubernetes.io/"
READY: Final = "Ready"
WATCHED: Final = (READY, "MemoryPressure", "DiskPressure", "PIDPressure")
"""The conditions that a kubelet reports; they are unknown while it is silent."""

_PRESSURES: Final = {
    "MemoryPressure": f"{_PREFIX}memory-pressure",
    "DiskPressure": f"{_PREFIX}disk-pressure",
    "PIDPressure": f"{_PREFIX}pid-pressure",
    "NetworkUnavailable": f"{_PREFIX}network-unavailable",
}
NOT_READY: Final = f"{_PREFIX}not-ready"
UNREACHABLE: Final = f"{_PREFIX}unreachable"
CORDONED: Final = f"{_PREFIX}unschedulable"

_OURS: Final = frozenset(
    {(key, "NoSchedule") for key in (*_PRESSURES.values(), NOT_READY, UNREACHABLE, CORDONED)}
    | {(key, "NoExecute") for key in (NOT_READY, UNREACHABLE)}
)


def condition(node: Node, kind: str) -> NodeCondition | None:
    """Return a condition of *node*."""
    return next((each for each in node.status.conditions if each.type == kind), None)


def ready_status(node: Node) -> str:
    """Return whether *node* is ready: ``True``, ``False`` or ``Unknown``."""
    ready = condition(node, READY)
    return ready.status if ready else "Unknown"


def silenced(node: Node, now: datetime) -> tuple[NodeCondition, ...]:
    """Return the conditions of a node whose kubelet is silent."""
    moment = format_time(now)
    others = [each for each in node.status.conditions if each.type not in WATCHED]
    changed = [_unknown(condition(node, kind), kind, node, moment) for kind in WATCHED]
    return (*others, *changed)


def _unknown(current: NodeCondition | None, kind: str, node: Node, moment: str) -> NodeCondition:
    if current is None:
        return NodeCondition(
            type=kind,
            status="Unknown",
            reason="NodeStatusNeverUpdated",
            message="Kubelet never posted node status.",
            last_heartbeat_time=node.metadata.creation_timestamp,
            last_transition_time=moment,
        )
    if current.status == "Unknown":
        return current
    return msgspec.structs.replace(
        current,
        status="Unknown",
        reason="NodeStatusUnknown",
        message="Kubelet stopped posting node status.",
        last_transition_time=moment,
    )


def wanted_taints(node: Node, now: datetime) -> tuple[Taint, ...]:
    """Return the taints that *node* should have: those of others, and those of its health."""
    wanted = _taints_of_health(node)
    kept = [
        taint
        for taint in node.spec.taints
        if (taint.key, taint.effect) not in _OURS or (taint.key, taint.effect) in wanted
    ]
    have = {(taint.key, taint.effect) for taint in kept}
    added = [
        Taint(
            key=key,
            effect=effect,
            time_added=format_time(now) if effect == "NoExecute" else None,
        )
        for key, effect in wanted
        if (key, effect) not in have
    ]
    return (*kept, *added)


def _taints_of_health(node: Node) -> list[tuple[str, str]]:
    wanted = [
        (key, "NoSchedule")
        for kind, key in _PRESSURES.items()
        if (found := condition(node, kind)) and found.status == "True"
    ]
    ready = ready_status(node)
    if ready != "True":
        key = NOT_READY if ready == "False" else UNREACHABLE
        wanted += [(key, "NoSchedule"), (key, "NoExecute")]
    if node.spec.unschedulable:
        wanted.append((CORDONED, "NoSchedule"))
    return wanted
