"""What controllers ask of a pod: whether it counts, whether it is ready, and where it may run.

Who manages what: the reference to a controller, and how it takes on and lets go of objects. A
controller manages the objects that name it as their controller. It takes on those without a
controller that its selector selects, and lets go of those that its selector no longer selects.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import msgspec

from numakube.api.affinity_and_taints import NAME_FIELD, allows_node, required_affinity, tolerates
from numakube.api.meta import LabelSelector, OwnerReference
from numakube.api.pod import has_ended
from numakube.api.pod_resources import is_sidecar
from numakube.api.selectors import selects
from numakube.errors import InvalidValue
from numakube.kube import ObjectKey, key_of
from numakube.values.times import parse_time
from numakube_lab.controllers.common.controller_loop import Owned, PlannedChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.affinity_and_taints import NodeSelectorRequirement, Taint, Toleration
    from numakube.api.nodes import Node
    from numakube.api.pod import Pod, PodCondition, PodSpec
    from numakube.kube import Document, Resource


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
    return next((condition for condition in conditions if condition.type == kind), None)


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
    sidecars = {container.name for container in pod.spec.init_containers if is_sidecar(container)}
    containers = (status.restart_count for status in pod.status.container_statuses)
    inits = (
        status.restart_count
        for status in pod.status.init_container_statuses
        if status.name in sidecars
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
        if taint.effect in effects and not any(
            tolerates(toleration, taint) for toleration in tolerations
        ):
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
        fields = [field for field in term.match_fields if _is_name_list(field)]
        if not fields:
            return None
        names |= set.intersection(*(set(field.values) for field in fields))
    return frozenset(names)


def _is_name_list(requirement: NodeSelectorRequirement) -> bool:
    return requirement.key == NAME_FIELD and requirement.operator == "In"


T = TypeVar("T", bound=Owned)


@dataclass(frozen=True, slots=True)
class Claim(Generic[T]):
    """The objects that are a controller's, and the changes that it takes to make it so."""

    objects: tuple[T, ...]
    changes: tuple[PlannedChange, ...] = ()


def owner_reference(resource: Resource[Any], owner: Owned) -> OwnerReference:
    """Return the reference with which objects name *owner* as their controller."""
    return OwnerReference(
        api_version=resource.api_version,
        kind=resource.kind,
        name=owner.metadata.name,
        uid=owner.metadata.uid,
        controller=True,
        block_owner_deletion=True,
    )


def owner_document(resource: Resource[Any], owner: Owned) -> Document:
    """Return the same as plain JSON."""
    document: Document = msgspec.to_builtins(owner_reference(resource, owner))
    return document


def owner_key(obj: Owned, kind: str) -> tuple[ObjectKey, ...]:
    """Return the key of the controller of *obj*, if that is a *kind*; none otherwise."""
    controller = obj.metadata.controller
    if controller is None or controller.kind != kind:
        return ()
    return (ObjectKey(obj.metadata.namespace, controller.name),)


def claim(
    owned_resource: Resource[T],
    *,
    owner: OwnerReference,
    selector: LabelSelector,
    managed: Iterable[T],
    orphans: Iterable[T],
    owner_is_going: bool = False,
) -> Claim[T]:
    """Decide which objects belong to a controller.

    Args:
        owned_resource: what they are.
        owner: the controller.
        selector: which objects it wants.
        managed: those that name it as their controller.
        orphans: those that could be taken on.
        owner_is_going: the controller is being deleted, so it takes on nothing and lets go of
            nothing.
    """
    kept: list[T] = []
    changes: list[PlannedChange] = []
    for obj in managed:
        if _wants(selector, obj) or owner_is_going:
            kept.append(obj)
        elif obj.metadata.deletion_timestamp is None:
            changes.append(_released(owned_resource, obj, owner))
    for obj in () if owner_is_going else orphans:
        if _wants(selector, obj) and obj.metadata.deletion_timestamp is None:
            kept.append(obj)
            changes.append(_adopted(owned_resource, obj, owner))
    return Claim(tuple(kept), tuple(changes))


def _wants(selector: LabelSelector, obj: Owned) -> bool:
    return selector != LabelSelector() and selects(selector, obj.metadata.labels)


def _adopted(resource: Resource[Any], obj: Owned, owner: OwnerReference) -> PlannedChange:
    return _with_owners(resource, obj, (*obj.metadata.owner_references, owner))


def _released(resource: Resource[Any], obj: Owned, owner: OwnerReference) -> PlannedChange:
    others = tuple(
        reference for reference in obj.metadata.owner_references if reference.uid != owner.uid
    )
    return _with_owners(resource, obj, others)


def _with_owners(
    resource: Resource[Any], obj: Owned, owners: tuple[OwnerReference, ...]
) -> PlannedChange:
    # A merge patch replaces lists, so it must be based on the list as it is now.
    metadata = {
        "uid": obj.metadata.uid,
        "resourceVersion": obj.metadata.resource_version,
        "ownerReferences": msgspec.to_builtins(owners) or None,
    }
    return PlannedChange(resource=resource, key=key_of(obj), patch={"metadata": metadata})
