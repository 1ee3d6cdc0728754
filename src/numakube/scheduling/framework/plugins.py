"""The extension points: what a plugin may be; and the pods for which room is being made.

A plugin derives from `Plugin` and from every point that it takes part in. Points up to `Reserve`
are plain functions of the snapshot; `PreBind`, `Bind` and `PostBind` may await.

A filter or a score comes in two forms. `Filter.filter` judges one node, and is also what preemption
asks about what-if copies of nodes without some of their pods; `VectorFilter.filter_all` judges all
rows at once. A plugin with both must give equal answers (tests hold ours to that); one with only
the vectorised form is asked about a snapshot of one node where a single node is in question.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.status import SUCCESS, Status
from numakube.scheduling.snapshot.zone_belief import NOTHING, BeliefChanges

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numakube.scheduling.arrays import IntArray, Ratings, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.status import Verdicts
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


MAX_NODE_SCORE = 100
"""Scores of a plugin lie between 0 and this after normalisation."""


class Plugin(ABC):
    """Base of all plugins."""

    name: ClassVar[str]
    """As it stands in a KubeSchedulerConfiguration."""
    wakes_on: ClassVar[EventKind] = EventKind.every()
    """Events that may make a pod fit which this plugin refused."""
    insists_on: frozenset[str] = frozenset()
    """Points at which it takes part even where a profile leaves it out, by their names in files.

    For what must go together, and for points that files for kube-scheduler cannot name.
    """
    judges_nodes_alone: ClassVar[bool] = False
    """Whether its filter looks at the pod and the node alone, without what a pre-filter prepared.

    A pod that such plugins refused is left alone by an event on a node that they still refuse.
    """

    notes: tuple[str, ...] = ()
    """What the process should log about its arguments."""

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Tell whether *event* may make *pod*, refused by this plugin, fit. When in doubt: yes."""
        return True

    def depends_on_order(self, pod: PodInfo) -> bool:
        """Tell whether it may accept *pod*, which it refuses or doubts, after others have come.

        Such members of a gang go first, and are tried again after each that follows.
        """
        del pod
        return False

    def likeness(self, pod: PodInfo) -> Hashable:
        """Return all of *pod* that decides whether an event wakes it: pods of one are asked once.

        That is what `wakes` and `looks_beyond` look at, and the filter if it judges nodes alone. A
        plugin that does not say is asked about each pod.
        """
        return pod.uid

    def looks_beyond(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """Tell whether *event* may help *pod* by more than what has become of the event's node."""
        return not self.judges_nodes_alone


class PreEnqueue(Plugin):
    """Keeps a pod out of the active queue."""

    @abstractmethod
    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return a refusal if *pod* must not be tried yet."""

    def opened_by(self, pod: PodInfo) -> Iterable[Hashable]:
        """Return all that can turn a refusal of *pod* into a yes, other than the pod itself.

        Whoever changes one of these tells the queue, which asks again about the pods that it keeps
        back. A plugin that depends on the passing of time names nothing: it is asked with all.
        """
        return ()


class QueueSort(Plugin):
    """Orders the active queue."""

    @abstractmethod
    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[object, ...]:
        """Return what pods are ordered by, smallest first; *queued_at* is when it entered."""


@dataclass(frozen=True, slots=True)
class PreFilterResult:
    """What a pre-filter found.

    Attributes:
        status: `Status.skipped` takes the plugin's filter out of this cycle.
        nodes: the only nodes that can fit, or ``None`` for all.
    """

    status: Status = SUCCESS
    nodes: frozenset[str] | None = None


class PreFilter(Plugin):
    """Prepares for the filter, and may refuse the pod everywhere."""

    @abstractmethod
    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Compute what the filter needs and keep it in *state*."""

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Take into account that *added* now runs on *node*; only while trying things out."""

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take into account that *removed* no longer runs on *node*."""


class Filter(Plugin):
    """Says whether a node can take the pod."""

    @abstractmethod
    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Judge *node*."""


class VectorFilter(Plugin):
    """Says for many nodes at once whether they can take the pod."""

    @abstractmethod
    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Judge the nodes at *rows*; ``None`` if all of them pass."""


@dataclass(frozen=True, slots=True)
class Nomination:
    """What a post-filter achieved: the node on which room is being made."""

    node: str
    victims: tuple[PodInfo, ...] = ()


class PostFilter(Plugin):
    """Tries to make room after no node could take the pod."""

    @abstractmethod
    def post_filter(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, refusals: Mapping[str, Status]
    ) -> tuple[Nomination | None, Status]:
        """Return where the pod will fit once the victims are gone; nothing is evicted here.

        The detail of a refusal may be a set of the plugins that would refuse the pod all the same.
        """


class PreScore(Plugin):
    """Prepares for the score."""

    @abstractmethod
    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Compute what the score needs of the feasible *rows*; `Code.SKIP` drops the score."""


class NormalizesScores(Plugin):
    """A score whose raw values are not between 0 and `MAX_NODE_SCORE`."""

    @abstractmethod
    def normalize(self, state: CycleState, pod: PodInfo, scores: IntArray) -> IntArray:
        """Return the raw *scores* of all feasible nodes brought to the common scale."""


class Score(Plugin):
    """Says how good a node is for the pod."""

    @abstractmethod
    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node*; larger is better."""


class VectorScore(Plugin):
    """Says for many nodes at once how good they are."""

    @abstractmethod
    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate the nodes at *rows*; larger is better."""


class Confirm(Plugin):
    """Checks the best nodes once more, by means too costly for every node; a point of our own.

    Nodes are confirmed from the best score downwards until one passes. Preemption confirms the node
    that it would make room on, so that nothing is evicted in vain. A success that has reasons is of
    a node that would do: if one of the next few has none, that one is taken.
    """

    @abstractmethod
    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Judge *node*, which has passed every filter."""


@dataclass(frozen=True, slots=True)
class Booking:
    """The answer to a reservation.

    Attributes:
        status: success, or why the pod must not go to the node after all.
        changes: beliefs about zones that are other ones now; the caller takes them over.
    """

    status: Status = SUCCESS
    changes: BeliefChanges = NOTHING

    @property
    def ok(self) -> bool:
        """Whether the pod is booked."""
        return self.status.ok


BOOKED: Final = Booking()
"""The pod is booked, and no belief is another one."""


class Reserve(Plugin):
    """Books what the pod will use, before it is bound.

    A plugin changes only what it keeps itself. Beliefs of the NUMA cache that are other ones
    afterwards are returned, for the caller to take over.
    """

    @abstractmethod
    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Booking:
        """Book; a refusal undoes all bookings and the pod is tried again."""

    @abstractmethod
    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Undo a booking; called too for plugins that have not booked, and must not fail."""

    def postpone(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Learn that *pod* waits for others, and that pods which come later are bound before it."""
        del state, pod, node
        return NOTHING

    def resume(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Learn that *pod* waits no longer, and is bound after all that are on their way now."""
        del state, pod, node
        return NOTHING

    def still_holds(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Tell whether a booking is of use yet, right before *pod* is bound."""
        del state, pod, node
        return SUCCESS


class Permit(Plugin):
    """May hold the pod back before it is bound."""

    @abstractmethod
    def permit(self, state: CycleState, pod: PodInfo, node: str) -> tuple[Status, float]:
        """Return success, a refusal, or `Code.WAIT` with the seconds to wait at most."""


class PreBind(Plugin):
    """Does what must be done before the pod is bound, such as binding volumes."""

    def waits_for_others(self, state: CycleState, pod: PodInfo, node: str) -> bool:
        """Tell whether `pre_bind` will wait until a driver or a provisioner has done its part.

        Then others learn before it where the pod will go, and overtake it on its node. If not, all
        that come later to the node wait for `pre_bind`.
        """
        del state, pod, node
        return False

    @abstractmethod
    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Act; a refusal undoes the bookings."""


class Bind(Plugin):
    """Binds the pod."""

    @abstractmethod
    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Bind, or return `Code.SKIP` to leave it to the next plugin."""


class PostBind(Plugin):
    """Learns that the pod was bound."""

    @abstractmethod
    def post_bind(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Tidy up; return which beliefs are other ones now, as `Reserve` does."""


class AllottingPlugin(PreFilter, Filter, VectorFilter, PreScore, Score, VectorScore, Reserve):
    """Gives pods NUMA nodes, CPUs and devices itself, on nodes whose kubelet aligns nothing."""


# ------------------------------------------------------------------------------------------------
# Pods for which room is being made on a node.
#
# A nominated pod is not placed yet, but pods of lower priority must not take the room that was
# made for it: they are tried on that node as if it were there already.

_REMEMBERED: Final = 100_000


class Nominations:
    """Who is nominated where."""

    def __init__(self) -> None:
        self.generation = 0
        """Changes with every nomination."""
        self._verdicts: dict[tuple[bytes, str], tuple[object, Status]] = {}
        self._by_node: dict[str, dict[str, PodInfo]] = {}
        self._node_of: dict[str, str] = {}
        self._leaving: dict[str, frozenset[str]] = {}

    def __len__(self) -> int:
        return len(self._node_of)

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Keep room for *pod* on *node*, and nowhere else."""
        self.drop(pod.uid)
        self._by_node.setdefault(node, {})[pod.uid] = pod
        self._node_of[pod.uid] = node
        self.generation += 1

    def drop(self, uid: str) -> str | None:
        """Keep no room for a pod any more; return the node where it was kept."""
        node = self._node_of.pop(uid, None)
        self._leaving.pop(uid, None)
        if node is not None:
            self.generation += 1
            del self._by_node[node][uid]
            if not self._by_node[node]:
                del self._by_node[node]
        return node

    def node_of(self, uid: str) -> str | None:
        """Return the node on which room is being made for a pod."""
        return self._node_of.get(uid)

    def expect_to_leave(self, uid: str, victims: frozenset[str]) -> None:
        """Note who is being evicted for a nominated pod, as long as it is nominated."""
        if victims and uid in self._node_of:
            self._leaving[uid] = victims
        else:
            self._leaving.pop(uid, None)

    def leaving(self, uid: str) -> frozenset[str]:
        """Return the uids of pods that were evicted for a pod, or are about to be."""
        return self._leaving.get(uid, frozenset())

    def nodes(self) -> frozenset[str]:
        """Return the nodes with nominated pods."""
        return frozenset(self._by_node)

    def before(self, pod: PodInfo, node: str) -> list[PodInfo]:
        """Return the pods nominated to *node* that *pod* must leave room for."""
        there = self._by_node.get(node, {})
        return [
            other
            for other in there.values()
            if other.priority >= pod.priority and other.uid != pod.uid
        ]

    def verdict(self, kind: bytes, node: str, state: object) -> Status | None:
        """Return what was said of a *kind* of pods on *node* with the pods nominated there.

        That is good for one *state* of the node, and of those pods.
        """
        known = self._verdicts.get((kind, node))
        return known[1] if known is not None and known[0] == state else None

    def remember(self, kind: bytes, node: str, state: object, verdict: Status) -> None:
        """Keep a *verdict* for pods of the same kind."""
        if len(self._verdicts) >= _REMEMBERED:
            self._verdicts.clear()
        self._verdicts[kind, node] = state, verdict

    def below(self, priority: int, node: str) -> list[PodInfo]:
        """Return the pods nominated to *node* with a lower priority: they lose their claim."""
        return [pod for pod in self._by_node.get(node, {}).values() if pod.priority < priority]
