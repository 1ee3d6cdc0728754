"""GangScheduling: pods of a group wait until there are enough of them, and share a topology domain.

What makes a gang all or nothing is `numakube.apps.scheduler.gang_cycle`, which plans its members
together. The plugin keeps single members out of the queue before that, and keeps a plan within the
domain (a rack, a block, an NVLink domain) that is being tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.wire import Wire
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import Filter, PreEnqueue, VectorFilter
from numakube.scheduling.framework.status import SUCCESS, Status, unresolvable
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.plugins.gang_scheduling.gang_members import GANG_MEMBERS, GangMembers
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import Gang, MissingGang, gang_of
from numakube.scheduling.plugins.plugin_arguments import read_args

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

Domain = tuple[str, str]
"""A node label and its value."""

GANG_DOMAIN: Final = StateKey[Domain]("GangScheduling.domain")
"""The domain in which the members of a gang are being planned."""

_OUTSIDE: Final = unresolvable("node(s) outside the topology domain that is tried for the gang")


class GangSchedulingArgs(Wire, frozen=True):
    """Arguments of the plugin.

    Attributes:
        incomplete_seconds: how long a gang may run with fewer than its minimum before its other
            members are evicted, unless the group says so itself; 0 for ever.
    """

    incomplete_seconds: int = 600


class GangScheduling(PreEnqueue, Filter, VectorFilter):
    """See the module."""

    name = "GangScheduling"
    wakes_on = (
        EventKind.POD_GROUP_CHANGED
        | EventKind.POD_ADDED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
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

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node outside the domain that is being tried."""
        domain = state.read(GANG_DOMAIN)
        if domain is None or node.node.metadata.labels.get(domain[0]) == domain[1]:
            return SUCCESS
        return _OUTSIDE

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse all nodes outside the domain that is being tried."""
        domain = state.read(GANG_DOMAIN)
        if domain is None:
            return None
        inside = domains_of(snapshot, domain[0]).get(domain[1], np.empty(0, dtype=np.intp))
        return Verdicts.where(np.isin(rows, inside), _OUTSIDE)


def gang_to_plan(pod: PodInfo, objects: ClusterObjects) -> Gang | None:
    """Return the gang of *pod* if its members are to be planned together."""
    gang = gang_of(pod, objects)
    return gang if isinstance(gang, Gang) else None


def domains_of(snapshot: Snapshot, key: str) -> dict[str, Rows]:
    """Return the rows of the nodes with each value of label *key*."""
    return snapshot.derived(("gang-domains", key), lambda seen: _domains(seen, key))


def _domains(snapshot: Snapshot, key: str) -> dict[str, Rows]:
    found: dict[str, list[int]] = {}
    for row in snapshot.rows:
        value = snapshot.at(int(row)).node.metadata.labels.get(key)
        if value is not None:
            found.setdefault(value, []).append(int(row))
    return {value: np.array(rows, dtype=np.intp) for value, rows in found.items()}
