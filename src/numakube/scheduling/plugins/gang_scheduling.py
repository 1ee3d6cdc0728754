"""GangScheduling: pods of a group wait until there are enough of them, and share a domain.

What makes a gang all or nothing is `numakube.apps.scheduler.gang_step`, which plans its members
together. The plugin keeps single members out of the queue before that, and keeps a plan within the
domain (a rack, a block, an NVLink domain) that is being tried.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np

from numakube.api.codec import Wire
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import Filter, PreEnqueue, VectorFilter
from numakube.scheduling.framework.registry import Service
from numakube.scheduling.framework.status import SUCCESS, Status, Verdicts, unresolvable
from numakube.scheduling.plugins.plugin_arguments import read_args
from numakube.scheduling.plugins.pod_gangs import (
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    Gang,
    MissingGang,
    gang_key,
    gang_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from numakube.api.nodes import Node
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# The members of every gang: who waits, who runs, and who is done.

Key: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class Members:
    """The members of one gang; those that are being deleted do not count any more.

    Attributes:
        waiting: pods without a node, by uid.
        placed: pods on a node that have not ended.
        done: uids of pods that have succeeded: they have had their turn.
        incomplete_since: when fewer than the gang needs were seen to run first.
        whole_at: the minimum at which it was seen whole last.
        is_inherited: whether members ran already when this scheduler first looked.
    """

    waiting: dict[str, PodInfo] = field(default_factory=dict)
    placed: dict[str, PodInfo] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    incomplete_since: float | None = None
    whole_at: int | None = None
    is_inherited: bool = False

    @property
    def running(self) -> int:
        """How many have had their turn."""
        return len(self.placed) + len(self.done)

    @property
    def known(self) -> int:
        """How many there are."""
        return self.running + len(self.waiting)

    def has_lost_some_of(self, gang: Gang) -> bool:
        """Tell whether fewer run than *gang* needs because members are gone, or never came.

        A minimum that is raised asks for more members, and takes none away from those that run.
        Of a group that was changed before this scheduler came, it is not known whether that was so:
        members that ran by then are left alone.
        """
        if self.running >= gang.min_count:
            self.whole_at = gang.min_count
        elif self.whole_at is None and self.is_inherited and gang.changed:
            self.whole_at = self.running
        needed = gang.min_count if self.whole_at is None else min(gang.min_count, self.whole_at)
        return self.running < needed

    @property
    def nodes(self) -> list[str]:
        """The nodes of those that have one."""
        return [pod.node_name for pod in self.placed.values()]


def grown_to(key: Key, count: int) -> tuple[str, str, str, int]:
    """Return what opens the gates of pods that wait until their gang has *count* members."""
    return (*key, count)


class GangMembers:
    """All gangs; the program that schedules tells it of every pod.

    Attributes:
        on_growth: is told, by `grown_to`, each time that a gang has one member more.
    """

    def __init__(self) -> None:
        self.on_growth: Callable[[Hashable], None] = lambda _: None
        self._gangs: dict[Key, Members] = {}
        self._key_of: dict[str, Key] = {}
        self._has_looked = False

    def __len__(self) -> int:
        return len(self._gangs)

    def __iter__(self) -> Iterator[Members]:
        return iter(list(self._gangs.values()))

    def of(self, pod: PodInfo) -> Members:
        """Return the members of the gang that *pod* belongs to."""
        key = gang_key(pod)
        return Members() if key is None else self.at(key)

    def at(self, key: Key) -> Members:
        """Return the members of a gang."""
        return self._gangs.get(key, Members())

    def waits(self, pod: PodInfo) -> None:
        """Note a pod without a node."""
        with self._member(pod) as members:
            members.waiting[pod.uid] = pod

    def withdrawn(self, pod: PodInfo) -> None:
        """Note that a pod without a node is not to be scheduled any more."""
        self._forget(pod.uid)

    def ended(self, pod: PodInfo) -> None:
        """Do nothing: `gone` has told already of a pod that has ended."""

    def placed(self, pod: PodInfo) -> None:
        """Note a pod that has a node."""
        if pod.is_being_deleted:
            self.gone(pod, deleted=True)
            return
        with self._member(pod) as members:
            members.placed[pod.uid] = pod

    def gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """Note a pod that has ended, or was deleted."""
        status = pod.pod.status
        succeeded = status is not None and status.phase == "Succeeded"
        if succeeded and not deleted and not pod.is_being_deleted:
            with self._member(pod) as members:
                members.done.add(pod.uid)
        else:
            self._forget(pod.uid)

    def incomplete(
        self,
        objects: ClusterObjects,
        now: float,
        default_seconds: float,
        is_under_way: Callable[[str], bool] = lambda _: False,
    ) -> Iterator[tuple[Gang, Members]]:
        """Yield the gangs of which too few have been running for longer than they may.

        While pods that are under way to a node would make a gang whole, it is given that time.
        """
        first, self._has_looked = not self._has_looked, True
        for members in self:
            members.is_inherited |= first and members.running > 0
            some = next(iter(members.placed.values()), None)
            gang = gang_of(some, objects) if some is not None else None
            if not isinstance(gang, Gang) or not members.has_lost_some_of(gang):
                members.incomplete_since = None
                continue
            if members.incomplete_since is None:
                members.incomplete_since = now
            limit = gang.timeout_seconds if gang.timeout_seconds is not None else default_seconds
            missing = gang.min_count - members.running
            is_overdue = limit and now - members.incomplete_since >= limit
            if is_overdue and sum(map(is_under_way, members.waiting)) < missing:
                yield gang, members

    @contextmanager
    def _member(self, pod: PodInfo) -> Iterator[Members]:
        """Yield the gang of *pod*, to note where it is; if it is new there, the gang has grown."""
        key = gang_key(pod)
        known = self._key_of.get(pod.uid)
        if known != key:
            self._forget(pod.uid)
        if key is None:
            yield Members()  # of nobody
            return
        self._key_of[pod.uid] = key
        members = self._gangs.setdefault(key, Members())
        _take_off(members, pod.uid)
        yield members
        if known != key:
            self.on_growth(grown_to(key, members.known))

    def _forget(self, uid: str) -> None:
        key = self._key_of.pop(uid, None)
        if key is not None:
            members = self._gangs[key]
            _take_off(members, uid)
            if not members.known:
                del self._gangs[key]


def _take_off(members: Members, uid: str) -> None:
    members.waiting.pop(uid, None)
    members.placed.pop(uid, None)
    members.done.discard(uid)


GANG_MEMBERS: Final = Service[GangMembers]("gang-members")


# ------------------------------------------------------------------------------------------------
# GangScheduling: pods of a group wait until there are enough of them, and share a topology domain.


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
    return Domain(labels, tuple(known.get(label, "") for label in labels))


@dataclass(frozen=True, slots=True, eq=False)
class GangNodes:
    """Nodes on which members of a gang are being planned.

    Attributes:
        rows: of the snapshot, in order.
        domain: what they have in common, if that is labels.
        name: what they are called; that of the domain unless given.
    """

    rows: Rows
    domain: Domain | None = None
    name: str = ""

    def __str__(self) -> str:
        return self.name or str(self.domain or "")

    def has(self, row: int) -> bool:
        """Tell whether the node at *row* is one of them."""
        position = int(np.searchsorted(self.rows, row))
        return position < len(self.rows) and int(self.rows[position]) == row


GANG_NODES: Final = StateKey[GangNodes]("GangScheduling.nodes")
"""The only nodes on which a member of a gang is being planned."""

_EXCLUSIVE: Final = (
    "alpha.jobset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/exclusive-topology",
    "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology",
)
"""Annotations of leaders whose followers are created, or let in, after the leader has a node."""
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
        told = f"waiting for more pods of gang {gang.name}: there are {known} of {gang.min_count}"
        key = next(filter(pod.pod.metadata.annotations.get, _EXCLUSIVE), "")
        if key:
            told += f"; {key} creates the others only once this one has a node, which never comes:"
            told += f" use {REQUIRED_TOPOLOGY} instead"
        return unresolvable(told)

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
        nodes = state.read(GANG_NODES)
        return SUCCESS if nodes is None or nodes.has(node.row) else _OUTSIDE

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse all nodes outside the domain that is being tried."""
        nodes = state.read(GANG_NODES)
        return None if nodes is None else Verdicts.where(np.isin(rows, nodes.rows), _OUTSIDE)


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
