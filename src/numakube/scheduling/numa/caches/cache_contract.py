"""What every cache can do, and what it tells about the beliefs that change.

A cache receives everything that happens, in any order and any number of times, and says each time
which beliefs changed. The process that runs it passes those on:

    changes = cache.set_report(nrt)
    cluster.take(changes, cache)
    events = [ClusterEvent(kind=EventKind.TOPOLOGY_CHANGED, node=node) for node in changes.freed]
    queue.handle(events, now)

After a restart it is enough to tell of all NRTs and all pods once, in any order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.snapshot.zone_belief import (
    NOTHING,
    BeliefChange,
    BeliefChanges,
    ChangeCause,
)
from numakube.topology.report_update import configuration_of
from numakube.values.cpuset import union

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


class NumaCache(Protocol):
    """Keeps a belief for every node. Calls may be repeated; unknown pods and nodes are fine."""

    def set_report(self, nrt: NodeResourceTopology) -> BeliefChanges:
        """Take a report of any producer; one that cannot be read is as good as none."""
        ...

    def remove_report(self, node: str) -> BeliefChanges:
        """Forget the report of *node*: its NRT was deleted."""
        ...

    def reserve(self, pod: PodInfo, node: str) -> BeliefChanges:
        """Book *pod*, which is about to be bound to *node*; it leaves any other node."""
        ...

    def unreserve(self, uid: str, node: str) -> BeliefChanges:
        """Undo `reserve`: the pod was not bound. A pod that was seen on the node stays."""
        ...

    def postpone(self, uid: str, node: str) -> BeliefChanges:
        """Note that a pod which was reserved for waits, and that others are bound before it."""
        ...

    def resume(self, uid: str, node: str) -> BeliefChanges:
        """Note that it is bound after all that are on their way now, before those that wait."""
        ...

    def bound(self, uid: str, node: str) -> BeliefChanges:
        """Note that the API server accepted the binding."""
        ...

    def pod_seen(self, pod: PodInfo) -> BeliefChanges:
        """Take a version of a pod from the API: ours or not, bound or not, ended or not."""
        ...

    def pod_gone(self, uid: str) -> BeliefChanges:
        """Forget a pod that was deleted."""
        ...

    def resync(self, now: float) -> BeliefChanges:
        """Settle doubts that no event settled; to be called every few seconds."""
        ...

    def trust(self, node: str) -> BeliefChanges:
        """Believe the latest report of *node* as it is: an operator says it is right.

        Pods that the kubelet has acknowledged count as contained in it; those that are still on
        their way do not.
        """
        ...

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of *node*; ``None`` without a usable report."""
        ...


# ------------------------------------------------------------------------------------------------
# Whether a new belief differs from the one before, and whether it makes room.


def change_between(
    node: str,
    before: NumaBelief | None,
    after: NumaBelief | None,
    cause: ChangeCause,
    *,
    frees: bool = False,
) -> BeliefChanges:
    """Return what there is to tell of a node's belief that was replaced; *frees* if it is known."""
    if before is None and after is None:
        return NOTHING
    return BeliefChanges((BeliefChange(node, cause, frees=frees or makes_room(before, after)),))


def makes_room(before: NumaBelief | None, after: NumaBelief | None) -> bool:
    """Tell whether a pod that was refused under *before* may be accepted under *after*."""
    if before is None or after is None:
        # A strict pod takes no node without data, another no node whose zones are full.
        return before is not after
    if before.blocked and not after.blocked:
        return True
    if configuration_of(before.topology) != configuration_of(after.topology):
        return True
    return _more_is_free(before, after) or _a_pod_left(before, after) or _cpus_left(before, after)


def _more_is_free(before: NumaBelief, after: NumaBelief) -> bool:
    zones = zip(before.available, after.available, strict=True)
    return any(amount > old.get(name, 0) for old, new in zones for name, amount in new.items())


def _cpus_left(before: NumaBelief, after: NumaBelief) -> bool:
    """Tell whether the report of a kubelet that aligns nothing has CPUs no more that it gave out.

    Whoever places pods there instead gives out what the report leaves, and not what is foreseen: a
    pod that is gone has its CPUs until the report says otherwise.
    """
    old, new = before.topology, after.topology
    if old is None or new is None or old.report is new.report or new.policy.aligns:
        return False
    if old.report is None or new.report is None:
        return False
    held = union(holding.cpus.mask for holding in old.report.pods.values())
    return bool(held & ~union(holding.cpus.mask for holding in new.report.pods.values()))


def _a_pod_left(before: NumaBelief, after: NumaBelief) -> bool:
    """Tell whether a pod holds nothing any more; equal counts may hide other CPUs."""
    if not isinstance(before, ExactBelief) or not isinstance(after, ExactBelief):
        return False
    return bool(before.basis.holders() - after.basis.holders())
