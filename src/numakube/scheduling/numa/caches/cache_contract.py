"""What every cache can do, and what it tells about it.

A cache receives everything that happens, in any order and any number of times, and says each time
which beliefs changed. The process that runs it passes those on:

    changes = cache.set_report(nrt)
    cluster.take(changes, cache)
    events = [ClusterEvent(kind=EventKind.TOPOLOGY_CHANGED, node=node) for node in changes.freed]
    queue.handle(events, now)

After a restart it is enough to tell of all NRTs and all pods once, in any order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.scheduling.numa.caches.mispredictions import Misprediction
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief


class Cause(StrEnum):
    """Why a belief changed."""

    REPORT = "report"
    """A report came."""
    REPORT_GONE = "report-gone"
    """The report was deleted."""
    RESERVED = "reserved"
    """A pod of ours was put on the node."""
    RELEASED = "released"
    """A pod of ours was not bound after all."""
    POD = "pod"
    """A pod was seen on the node, moved on, or ended."""
    POD_GONE = "pod-gone"
    """A pod was deleted."""
    RESYNC = "resync"
    """Doubts about the node were settled."""


@dataclass(frozen=True, slots=True)
class Change:
    """One belief that changed.

    Attributes:
        frees: whether a pod that did not fit the node may fit it now.
    """

    node: str
    cause: Cause
    frees: bool


class FactKind(StrEnum):
    """What a fact is about; the label of a metric."""

    UNUSABLE_REPORT = "unusable-report"
    """An NRT cannot be read; its node counts as one without data."""
    ODD_REPORT = "odd-report"
    """An NRT was read, but parts of it were passed over."""
    NO_EXACT_DATA = "no-exact-data"
    """An NRT has exact data that cannot be used; counts are used instead."""
    OLD_REPORT = "old-report"
    """A report came that is older than the one already known."""
    FOREIGN_POD = "foreign-pod"
    """A pod of another scheduler appeared; the node waits for the report that has it."""
    FINGERPRINT_MISMATCH = "fingerprint-mismatch"
    """A report is of other pods than those known."""
    TAKEN_UNCONFIRMED = "taken-unconfirmed"
    """A report was trusted although its fingerprint matches no known set of pods."""
    EXPORTER_GONE = "exporter-gone"
    """Nobody keeps a report up to date; pods that the API server does not know are forgotten."""
    REJECTION_FORESEEN = "rejection-foreseen"
    """The model says that the kubelet will refuse a pod which is on its way to it."""


@dataclass(frozen=True, slots=True)
class Fact:
    """Something worth a line in a log.

    Attributes:
        pod: ``namespace/name`` of the pod it is about, if it is about one.
    """

    kind: FactKind
    node: str
    text: str
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Changes:
    """What came of one event."""

    changes: tuple[Change, ...] = ()
    mispredictions: tuple[Misprediction, ...] = ()
    facts: tuple[Fact, ...] = ()

    def __bool__(self) -> bool:
        """Tell whether there is anything to tell."""
        return bool(self.changes or self.mispredictions or self.facts)

    def __add__(self, other: Changes) -> Changes:
        """Return both, in this order."""
        if not (self and other):
            return self or other
        return Changes(
            self.changes + other.changes,
            self.mispredictions + other.mispredictions,
            self.facts + other.facts,
        )

    @property
    def nodes(self) -> tuple[str, ...]:
        """The nodes whose belief changed, each once."""
        return tuple(dict.fromkeys(change.node for change in self.changes))

    @property
    def freed(self) -> tuple[str, ...]:
        """The nodes on which a waiting pod may fit now, each once."""
        return tuple(dict.fromkeys(change.node for change in self.changes if change.frees))


NOTHING = Changes()


class NumaCache(Protocol):
    """Keeps a belief for every node. Calls may be repeated; unknown pods and nodes are fine."""

    def set_report(self, nrt: NodeResourceTopology) -> Changes:
        """Take a report of any producer; one that cannot be read is as good as none."""
        ...

    def remove_report(self, node: str) -> Changes:
        """Forget the report of *node*: its NRT was deleted."""
        ...

    def reserve(self, pod: PodInfo, node: str) -> Changes:
        """Book *pod*, which is about to be bound to *node*; it leaves any other node."""
        ...

    def unreserve(self, uid: str, node: str) -> Changes:
        """Undo `reserve`: the pod was not bound. A pod that was seen on the node stays."""
        ...

    def postpone(self, uid: str, node: str) -> Changes:
        """Note that a pod which was reserved for waits, and that others are bound before it."""
        ...

    def resume(self, uid: str, node: str) -> Changes:
        """Note that it is bound after all that are on their way now, before those that wait."""
        ...

    def bound(self, uid: str, node: str) -> Changes:
        """Note that the API server accepted the binding."""
        ...

    def pod_seen(self, pod: PodInfo) -> Changes:
        """Take a version of a pod from the API: ours or not, bound or not, ended or not."""
        ...

    def pod_gone(self, uid: str) -> Changes:
        """Forget a pod that was deleted."""
        ...

    def resync(self, now: float) -> Changes:
        """Settle doubts that no event settled; to be called every few seconds."""
        ...

    def trust(self, node: str) -> Changes:
        """Believe the latest report of *node* as it is: an operator says it is right.

        Pods that the kubelet has acknowledged count as contained in it; those that are still on
        their way do not.
        """
        ...

    def belief(self, node: str) -> NumaBelief | None:
        """Return what is believed of *node*; ``None`` without a usable report."""
        ...
