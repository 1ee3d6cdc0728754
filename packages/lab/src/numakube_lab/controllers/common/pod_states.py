"""What controllers ask of a pod: whether it counts, whether it is ready, and where it may run."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from numakube.api.affinity_and_taints import (
    NAME_FIELD,
    allows_node,
    required_affinity,
    tolerates,
)
from numakube.api.pod import has_ended
from numakube.api.pod_resources import is_sidecar
from numakube.errors import InvalidValue
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.affinity_and_taints import (
        NodeSelectorRequirement,
        Taint,
        Toleration,
    )
    from numakube.api.nodes import Node
    from numakube.api.pod import Pod, PodCondition, PodSpec


def phase_of(pod: Pod) -> str:
    """Return the phase of *pod*; one without a report is pending."""
    return (pod.status.phase if pod.status else "") or "Pending"


def is_terminating(pod: Pod) -> bool:
    """Tell whether *pod* is being deleted."""
    return pod.metadata.deletion_timestamp is not None


def is_active(pod: Pod) -> bool:
    """Tell whether *pod* counts as a replica: it runs or will."""
    return not has_ended(pod) and not is_terminating(pod)


def condition_of(pod: Pod, kind: str) -> PodCondition | None:
    """Return a condition of *pod*."""
    conditions = pod.status.conditions if pod.status else ()
    return next((one for one in conditions if one.type == kind), None)


def is_ready(pod: Pod) -> bool:
    """Tell whether *pod* can serve."""
    ready = condition_of(pod, "Ready")
    return ready is not None and ready.status == "True"


def ready_since(pod: Pod) -> datetime | None:
    """Return since when *pod* is ready, if it is and says so."""
    ready = condition_of(pod, "Ready")
    if ready is None or ready.status != "True":
        return None
    return time_of(ready.last_transition_time)


def seconds_to_available(pod: Pod, min_ready_seconds: int, now: datetime) -> float | None:
    """Return in how many seconds *pod* is available if it stays ready: 0 if it is, None if never.

    A pod is available once it has been ready for a while.
    """
    if not is_ready(pod):
        return None
    if min_ready_seconds == 0:
        return 0.0
    since = ready_since(pod)
    if since is None:
        return None
    return max(0.0, (since + timedelta(seconds=min_ready_seconds) - now).total_seconds())


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Tell whether *pod* has been ready for long enough."""
    return seconds_to_available(pod, min_ready_seconds, now) == 0.0


def most_restarts(pod: Pod) -> tuple[int, int]:
    """Return the most restarts of any container, and of any sidecar."""
    if pod.status is None:
        return 0, 0
    sidecars = {one.name for one in pod.spec.init_containers if is_sidecar(one)}
    containers = (one.restart_count for one in pod.status.container_statuses)
    inits = (
        one.restart_count for one in pod.status.init_container_statuses if one.name in sidecars
    )
    return max(containers, default=0), max(inits, default=0)


def time_of(text: str | None) -> datetime | None:
    """Return the time that a field of an object says; None if it says none that can be read."""
    if text is None:
        return None
    try:
        return parse_time(text)
    except InvalidValue:
        return None


NO_SCHEDULE: Final = "NoSchedule"
NO_EXECUTE: Final = "NoExecute"


def untolerated(
    taints: Iterable[Taint],
    tolerations: Sequence[Toleration],
    effects: Sequence[str] = (NO_SCHEDULE, NO_EXECUTE),
) -> Taint | None:
    """Return the first taint of one of *effects* that no toleration matches."""
    for taint in taints:
        if taint.effect in effects and not any(tolerates(one, taint) for one in tolerations):
            return taint
    return None


def is_wanted_node(spec: PodSpec, node: Node) -> bool:
    """Tell whether the pod's node selector and required node affinity select *node*."""
    return allows_node(spec, node.metadata.labels, node.metadata.name)


def named_nodes(spec: PodSpec) -> frozenset[str] | None:
    """Return the only nodes that the pod's affinity can select, if it names them; None if not.

    A pod of a daemon set names its node so.
    """
    required = required_affinity(spec)
    if required is None or not required.node_selector_terms:
        return None
    names: set[str] = set()
    for term in required.node_selector_terms:
        fields = [one for one in term.match_fields if _is_name_list(one)]
        if not fields:
            return None
        names |= set.intersection(*(set(one.values) for one in fields))
    return frozenset(names)


def _is_name_list(requirement: NodeSelectorRequirement) -> bool:
    return requirement.key == NAME_FIELD and requirement.operator == "In"
