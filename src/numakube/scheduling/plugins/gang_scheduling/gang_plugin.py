"""GangScheduling: pods of a group wait until there are enough of them, and share a topology domain.

What makes a gang all or nothing is `numakube.apps.scheduler.gang_cycle`, which plans its members
together. The plugin keeps single members out of the queue before that, and keeps a plan within the
domain (a rack, a block, an NVLink domain) that is being tried.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.codec import Wire
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import Filter, PreEnqueue, VectorFilter
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.plugins.gang_scheduling.gang_members import (
    GANG_MEMBERS,
    GangMembers,
    grown_to,
)
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import (
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    Gang,
    MissingGang,
    gang_key,
    gang_of,
)
from numakube.scheduling.plugins.plugin_arguments import read_args

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numakube.api.nodes import Node
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


@dataclass(frozen=True, slots=True)
class Domain:
    """Nodes that are together in a rack, a block or the like.

    Attributes:
        labels: node labels, from the coarsest level to that of the domain.
        values: what the nodes have in common: one of each; empty for a label that they lack.
    """

    labels: tuple[str, ...]
    values: tuple[str, ...]

    def __str__(self) -> str:
        return "/".join(filter(None, self.values))

    @property
    def selector(self) -> dict[str, str]:
        """What selects the nodes."""
        return {key: one for key, one in zip(self.labels, self.values, strict=True) if one}


def domain_of(node: Node, labels: tuple[str, ...]) -> Domain | None:
    """Return the domain of *node* at the level of the last of *labels*, if it has one."""
    known = node.metadata.labels
    if labels[-1] not in known:
        return None
    return Domain(labels, tuple(known.get(one, "") for one in labels))


GANG_DOMAIN: Final = StateKey[Domain]("GangScheduling.domain")
"""The domain in which the members of a gang are being planned."""

_OF_DOMAINS: Final = EventKind.NODE_ADDED | EventKind.NODE_UPDATED | EventKind.NODE_REMOVED
"""What alters domains, and in which of them members run."""
_OUTSIDE: Final = unresolvable("node(s) outside the topology domain that is tried for the gang")


class GangSchedulingArgs(Wire, frozen=True):
    """Arguments of the plugin.

    Attributes:
        incomplete_seconds: how long a gang may run with fewer than its minimum before its other
            members are evicted, unless the group says so itself; 0 for ever.
        levels: node labels of racks and what they are in, from coarse to fine. Racks of one name in
            two blocks are two racks then, and gangs that prefer a rack prefer its block, too.
    """

    incomplete_seconds: int = 600
    levels: tuple[str, ...] = ()

    def labels_of(self, level: str) -> tuple[str, ...]:
        """Return the labels whose values make a domain of *level*, coarse to fine."""
        if level not in self.levels:
            return (level,)
        return self.levels[: self.levels.index(level) + 1]


class GangScheduling(PreEnqueue, Filter, VectorFilter):
    """See the module."""

    name = "GangScheduling"
    wakes_on = (
        EventKind.POD_GROUP_CHANGED
        | EventKind.POD_ADDED
        | EventKind.POD_DELETED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | _OF_DOMAINS
    )

    def __init__(
        self, args: GangSchedulingArgs, objects: ClusterObjects, members: GangMembers | None
    ) -> None:
        self.args = args
        self._objects = objects
        self._members = members

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> GangScheduling:
        """Make the plugin; without a program that tells of gangs' members it lets pods through."""
        read = read_args(GangSchedulingArgs, args)
        return cls(read, handle.cluster.objects, handle.services.get(GANG_MEMBERS))

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Hold a member back until its group is there, and as many pods as it needs."""
        gang = gang_of(pod, self._objects)
        if isinstance(gang, MissingGang):
            return unresolvable(f"waiting for pod group {gang.name} to be created")
        if gang is None or self._members is None:
            return SUCCESS
        known = self._members.of(pod).known
        if known >= gang.min_count:
            return SUCCESS
        return unresolvable(
            f"waiting for more pods of gang {gang.name}: there are {known} of {gang.min_count}"
        )

    def opened_by(self, pod: PodInfo) -> Iterable[Hashable]:
        """A change of the group, or the last of the members that it needs."""
        key = gang_key(pod)
        if key is not None:
            yield key
            gang = gang_of(pod, self._objects)
            if isinstance(gang, Gang):
                yield grown_to(key, gang.min_count)

    def likeness(self, pod: PodInfo) -> Hashable:
        """Its gang, its priority, and the domain that it asks for where the pods say so."""
        annotations = pod.pod.metadata.annotations
        wishes = annotations.get(REQUIRED_TOPOLOGY), annotations.get(PREFERRED_TOPOLOGY)
        return gang_key(pod), pod.priority, *wishes

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """What happens to the group or its other members helps, or to nodes, if it has a domain."""
        if event.kind in _OF_DOMAINS:
            gang = gang_of(pod, self._objects)
            return isinstance(gang, Gang) and gang.has_topology
        if event.pod_group is not None:
            return event.pod_group == gang_key(pod)
        other = event.pod
        if other is None or gang_key(other) == gang_key(pod):
            return True
        # Victims are chosen member by member: with one more to choose from, they may suffice.
        return event.kind is EventKind.POD_ADDED and other.priority < pod.priority

    def looks_beyond(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A gang that has changed may fit, although the node at hand refuses the pod still."""
        return bool(self.wakes_on & event.kind) and self.wakes(pod, event)

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node outside the domain that is being tried."""
        domain = state.read(GANG_DOMAIN)
        if domain is None or domain_of(node.node, domain.labels) == domain:
            return SUCCESS
        return _OUTSIDE

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse all nodes outside the domain that is being tried."""
        domain = state.read(GANG_DOMAIN)
        if domain is None:
            return None
        inside = domains_of(snapshot, domain.labels).get(domain, np.empty(0, dtype=np.intp))
        return Verdicts.where(np.isin(rows, inside), _OUTSIDE)


def gang_to_plan(pod: PodInfo, objects: ClusterObjects) -> Gang | None:
    """Return the gang of *pod* if its members are to be planned together."""
    gang = gang_of(pod, objects)
    return gang if isinstance(gang, Gang) else None


def domains_of(snapshot: Snapshot, labels: tuple[str, ...]) -> dict[Domain, Rows]:
    """Return the rows of the nodes of each domain at the level of the last of *labels*."""
    return snapshot.derived(("gang-domains", labels), lambda seen: _domains(seen, labels))


def _domains(snapshot: Snapshot, labels: tuple[str, ...]) -> dict[Domain, Rows]:
    found: dict[Domain, list[int]] = {}
    for row in snapshot.rows:
        domain = domain_of(snapshot.at(int(row)).node, labels)
        if domain is not None:
            found.setdefault(domain, []).append(int(row))
    return {domain: np.array(rows, dtype=np.intp) for domain, rows in found.items()}
