"""Spread constraints of a pod: its own, or the defaults with a selector made for the pod."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from numakube.api.affinity_and_taints import TopologySpreadConstraint
from numakube.api.selectors import Selector, exactly, selector_of
from numakube.errors import InvalidValue
from numakube.scheduling.matching.node_terms import required_nodes
from numakube.scheduling.matching.taints import keeps_away, taint_sets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.meta import LabelSelector
    from numakube.scheduling.arrays import Mask, Rows
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

HARD: Final = "DoNotSchedule"
SOFT: Final = "ScheduleAnyway"
HONOR: Final = "Honor"
IGNORE: Final = "Ignore"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"

SYSTEM_DEFAULTS: Final = (
    TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable=SOFT),
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint with everything filled in.

    Attributes:
        min_domains: with fewer domains than this, an empty one is thought of.
        honors_affinity: whether nodes that the pod's affinity rules out are left out.
        honors_taints: whether nodes whose taints rule the pod out are left out.
    """

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honors_affinity: bool
    honors_taints: bool

    def includes(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Tell whether *node* takes part in the spreading of *pod*."""
        if self.honors_affinity and not required_nodes(pod).accepts(node):
            return False
        away = self.honors_taints and keeps_away(node.node.spec.taints, pod.pod.spec.tolerations)
        return not away

    def including(self, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Mask | None:
        """Return which of *rows* take part, or ``None`` if all do."""
        mask: Mask | None = None
        if self.honors_affinity and not required_nodes(pod).is_empty:
            mask = required_nodes(pod).where(snapshot, rows)
        column = taint_sets(snapshot)
        if self.honors_taints and column.values:
            tolerations = pod.pod.spec.tolerations
            ok = column.where(lambda taints: not keeps_away(taints or (), tolerations), rows)
            mask = ok if mask is None else mask & ok
        return mask


def own_constraints(pod: PodInfo, action: str) -> tuple[Constraint, ...]:
    """Return the constraints of *pod* itself.

    Raises:
        InvalidValue: a selector cannot be read.
    """
    return _constraints(pod.pod.spec.topology_spread_constraints, pod.labels, action)


def default_constraints(
    defaults: Iterable[TopologySpreadConstraint],
    pod: PodInfo,
    action: str,
    objects: ClusterObjects,
) -> tuple[Constraint, ...]:
    """Return the *defaults* for *pod*; none if nothing says which pods belong together."""
    constraints = _constraints(defaults, pod.labels, action)
    if not constraints:
        return ()
    selector = siblings(pod, objects)
    if selector.is_empty:
        return ()
    return tuple(replace(one, selector=selector) for one in constraints)


def siblings(pod: PodInfo, objects: ClusterObjects) -> Selector:
    """Return a selector for the pods of the services and the owner of *pod*."""
    merged: dict[str, str] = {}
    for service in objects.services.group(pod.namespace).values():
        chosen = service.spec.selector
        if chosen and chosen.items() <= pod.labels.items():
            merged.update(chosen)
    owner = pod.pod.metadata.controller
    if owner is None:
        return exactly(merged)
    key = f"{pod.namespace}/{owner.name}"
    match (owner.api_version, owner.kind):
        case ("v1", "ReplicationController"):
            controller = objects.replication_controllers.get(key)
            return exactly({**merged, **(controller.spec.selector if controller else {})})
        case ("apps/v1", "ReplicaSet"):
            replica_set = objects.replica_sets.get(key)
            return _also(exactly(merged), replica_set.spec.selector if replica_set else None)
        case ("apps/v1", "StatefulSet"):
            stateful_set = objects.stateful_sets.get(key)
            return _also(exactly(merged), stateful_set.spec.selector if stateful_set else None)
        case _:
            return exactly(merged)


def _constraints(
    constraints: Iterable[TopologySpreadConstraint], labels: Mapping[str, str], action: str
) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(
            max_skew=one.max_skew,
            topology_key=one.topology_key,
            selector=_selector(one, labels),
            min_domains=1 if one.min_domains is None else one.min_domains,
            honors_affinity=(one.node_affinity_policy or HONOR) == HONOR,
            honors_taints=(one.node_taints_policy or IGNORE) == HONOR,
        )
        for one in constraints
        if one.when_unsatisfiable == action
    )


def _selector(constraint: TopologySpreadConstraint, labels: Mapping[str, str]) -> Selector:
    selector = selector_of(constraint.label_selector)
    same = {key: labels[key] for key in constraint.match_label_keys if key in labels}
    return selector.also(exactly(same)) if same else selector


def _also(selector: Selector, owner: LabelSelector | None) -> Selector:
    try:
        return selector.also(selector_of(owner))
    except InvalidValue:
        return selector
