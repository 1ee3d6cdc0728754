"""The plugin NodeNUMAResource: aligns pods where no kubelet does, and keeps them off where it must.

Koordinator's plugin of the same name, with container scope besides. It decides in the filter, on
what the pods of each node hold by their annotations; in reserve it leaves the decision for the
binding, which writes it to the pod. From then on the pod counts with it, so there is nothing to
remember and nothing to release.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.koordinator import keys
from numakube.api.koordinator.devices import requests_by_type
from numakube.scheduling.framework import EventKind
from numakube.scheduling.framework.cycle_state import ALLOTS, Allotted, StateKey, annotate
from numakube.scheduling.framework.plugins import (
    BOOKED,
    AllottingPlugin,
    Booking,
    PreBind,
    PreFilterResult,
)
from numakube.scheduling.framework.status import SKIP, SUCCESS, Verdicts, unresolvable
from numakube.scheduling.plugins.node_resources_fit import (
    RatedUsage,
    allocation_scorer,
    rated_requests,
)
from numakube.scheduling.snapshot.pod_equivalence import scheduling_key
from numakube.scheduling.snapshot.pods import held_by
from numakube.scheduling.snapshot.zone_belief import NOTHING
from numakube.values.resources import CPU
from numakube_placement.koordinator.allotments import annotations_for
from numakube_placement.koordinator.placement_on_node import places_of
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why
from numakube_placement.koordinator.read_pod import wish_of
from numakube_placement.plugins.device_share import DeviceShare
from numakube_placement.plugins.node_ledgers import NodeAnswer, NodeLedgers, decide
from numakube_placement.plugins.node_numa_resource_args import NodeNUMAResourceArgs, read_args

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from numakube.api.pod import Pod
    from numakube.scheduling.arrays import IntArray, Mask, Rows
    from numakube.scheduling.framework import ClusterEvent
    from numakube.scheduling.framework.cycle_state import Agrees, CycleState
    from numakube.scheduling.framework.registry import Handle, Registry
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges
    from numakube_placement.koordinator.pod_wish import PodWish
    from numakube_placement.plugins.node_ledgers import NodeQuestion

NAME: Final = "NodeNUMAResource"

_DOMAIN: Final = "koordinator.sh"
_SKIPPED: Final = PreFilterResult(SKIP)
_REMEMBERED_OUTCOMES: Final = 1 << 15
"""Of all pods together; each takes about a kilobyte."""


@dataclass(frozen=True, slots=True)
class _CycleWish:
    """What a cycle is about.

    Attributes:
        special: whether the pod itself wishes something; if not, only some nodes matter.
        known: outcomes by kind of node, shared by all pods like this one.
        agreed: outcomes by node that devices of the pod's claims go with.
    """

    wish: PodWish
    special: bool
    known: dict[Hashable, NodeAnswer]
    agreed: dict[str, NodeAnswer] = field(default_factory=dict)


_WANTED: Final = StateKey[_CycleWish](NAME)


class NodeNUMAResource(AllottingPlugin, PreBind):
    """Gives pods NUMA nodes, CPUs and devices."""

    name = NAME
    wakes_on = (
        EventKind.POD_DELETED
        | EventKind.POD_UPDATED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
        | EventKind.TOPOLOGY_CHANGED
    )
    insists_on = frozenset({"preFilter", "filter", "reserve"})

    def __init__(self, cluster: Cluster, args: NodeNUMAResourceArgs | None = None) -> None:
        self.args = args or NodeNUMAResourceArgs()
        self.ledgers = NodeLedgers(cluster)
        self._cluster = cluster
        self._scorer = allocation_scorer(self.args.scoring_strategy)
        self._known: OrderedDict[bytes, dict[Hashable, NodeAnswer]] = OrderedDict()

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> NodeNUMAResource:
        """Make the plugin from its arguments."""
        return cls(handle.cluster, read_args(args))

    def wish_of(self, pod: PodInfo) -> PodWish:
        """Return what *pod* wishes, read once."""
        policy, ignored = self.args.bind_policy, self.args.ignored_resources

        def read(pod: Pod) -> PodWish:
            return wish_of(pod, default_bind=policy, ignored_resources=ignored)

        return pod.memo((NAME, policy, ignored), read)

    def outcome(self, pod: PodInfo, node: NodeInfo) -> NodeAnswer:
        """Return what *node* says to *pod*, decided afresh; for explanations."""
        return self.decided(self.ledgers.case(node), self.wish_of(pod))

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Read the wish; skip ordinary pods in a cluster without settings."""
        special = not _is_ordinary(pod)
        if snapshot.objects.devices:
            special = special or bool(requests_by_type(pod.requests))
        if not special and not self._any_marked(snapshot):
            return _SKIPPED
        wish = self.wish_of(pod)
        if wish.problems:
            refusal = PlacementRefusal(why=Why.BAD_WISH, detail="; ".join(wish.problems))
            return PreFilterResult(unresolvable(*wish.problems, detail=refusal))
        wanted = _CycleWish(wish, special, self._known_of(pod))
        state.write(_WANTED, wanted)
        state.write(ALLOTS, _Allotter(self, wanted))
        return PreFilterResult()

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Let *added* hold something of *node*, a copy, if it is nominated and not there yet."""
        if added.node_name or held_by(added) is not None:
            return
        outcome = self.outcome(added, node)
        if outcome.allotment is not None:
            node.add_pod(added.annotated(self._annotations(added, outcome, node)))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can give *pod* what it wishes."""
        wanted = state.read(_WANTED)
        return SUCCESS if wanted is None else self._outcome(wanted, self.ledgers.case(node)).status

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Tell which of *rows* can, asking once for all nodes that are alike."""
        wanted = state.read(_WANTED)
        if wanted is None:
            return None
        concerned = self._concerned(wanted, snapshot, rows)
        outcomes, which = self._outcomes(wanted, snapshot, rows[concerned])
        if all(outcome.refusal is None for outcome in outcomes):
            return None
        statuses, choice_of = _grouped(outcomes)
        choice = np.zeros(len(rows), dtype=np.int32)
        choice[concerned] = choice_of[which]
        return Verdicts(choice, statuses)

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Rate only what there is to rate.

        An ordinary pod must not be drawn to or from the few nodes that have settings, and where
        no node gives anything the other plugins rate how full nodes are.
        """
        wanted = state.read(_WANTED)
        if wanted is None or not self._concerned(wanted, snapshot, rows).all():
            return SKIP
        outcomes, _ = self._outcomes(wanted, snapshot, rows)
        return SUCCESS if any(outcome.allotment is not None for outcome in outcomes) else SKIP

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node* by what *pod* gets there, or by how full it is if it gets nothing."""
        wanted = state.read(_WANTED)
        if wanted is not None:
            outcome = self._outcome(wanted, self.ledgers.case(node))
            if outcome.allotment is not None:
                return outcome.score
        return self._scorer.score([usage.of_node(node) for usage in self._usages(pod)])

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate the nodes at *rows*."""
        table = snapshot.resources
        usages = [usage.of_all(table, rows) for usage in self._usages(pod)]
        scores = self._scorer.score_all(usages, len(rows))
        wanted = state.read(_WANTED)
        if wanted is None:
            return scores
        concerned = self._concerned(wanted, snapshot, rows)
        outcomes, which = self._outcomes(wanted, snapshot, rows[concerned])
        given = np.array([outcome.allotment is not None for outcome in outcomes], dtype=np.bool_)
        rated = np.array([outcome.score for outcome in outcomes], dtype=np.int64)
        if given.any():
            scores = scores.copy()
            scores[concerned] = np.where(given[which], rated[which], scores[concerned])
        return scores

    def reserve(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Booking:
        """Leave for the binding what *pod* gets on *node*."""
        wanted = state.read(_WANTED)
        if wanted is None:
            return BOOKED
        outcome = wanted.agreed.get(node.name) or self.plain_outcome(wanted, node)
        if outcome.refusal is not None:
            return Booking(outcome.status)
        annotations = self._annotations(pod, outcome, node)
        if annotations:
            annotate(state, annotations)
        return BOOKED

    def unreserve(self, state: CycleState, pod: PodInfo, node: str) -> BeliefChanges:
        """Do nothing: what an assumed pod holds goes with the pod."""
        return NOTHING

    async def pre_bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Do nothing: the binding itself carries the annotations."""
        return SKIP

    def likeness(self, pod: PodInfo) -> None:
        """Only the pod that is gone is looked at."""
        return

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A pod that goes gives room only if it held some, or if its node counts requests too."""
        if event.kind is not EventKind.POD_DELETED or event.pod is None:
            return True
        return held_by(event.pod) is not None or self._counts_requests(event.node)

    def _counts_requests(self, name: str) -> bool:
        node = self._cluster.node(name)
        return node is not None and self.ledgers.of(node).capacity.ratio(CPU) > 1

    def _annotations(self, pod: PodInfo, outcome: NodeAnswer, node: NodeInfo) -> Mapping[str, str]:
        """Return what is to be written to *pod*; results that it brought along do not hold."""
        own = pod.pod.metadata.annotations
        stale = {
            key: keys.NO_ALLOTMENT
            for key in keys.ALLOTMENT
            if own.get(key, keys.NO_ALLOTMENT) != keys.NO_ALLOTMENT
        }
        if outcome.allotment is None or outcome.rule is None:
            return stale
        wish, facts = self.wish_of(pod), self.ledgers.facts(node)
        given = annotations_for(pod.pod, wish, outcome.rule, outcome.allotment, facts)
        return {**stale, **given}

    def plain_outcome(self, wanted: _CycleWish, node: NodeInfo) -> NodeAnswer:
        """Return what *node* says, whatever devices the pod claims."""
        return self._outcome(wanted, self.ledgers.case(node))

    def decided(
        self, case: NodeQuestion, wish: PodWish, agrees: Agrees | None = None
    ) -> NodeAnswer:
        """Return what a node says to *wish*, with the defaults of the profile."""
        args = self.args
        return decide(case, wish, strategy=args.strategy, scope=args.scope, agrees=agrees)

    def _outcome(self, wanted: _CycleWish, case: NodeQuestion) -> NodeAnswer:
        key = case.key
        outcome = wanted.known.get(key)
        if outcome is None:
            outcome = self.decided(case, wanted.wish)
            if len(wanted.known) >= _REMEMBERED_OUTCOMES // 2:
                wanted.known.clear()
            wanted.known[key] = outcome
        return outcome

    def _outcomes(
        self, wanted: _CycleWish, snapshot: Snapshot, rows: Rows
    ) -> tuple[list[NodeAnswer], Rows]:
        """Return the outcome for each kind of node among *rows*, and which kind each row is."""
        codes = self.ledgers.codes(snapshot, rows)
        _, first, which = np.unique(codes, return_index=True, return_inverse=True)
        outcomes = [
            self._outcome(wanted, self.ledgers.case(snapshot.at(int(row)))) for row in rows[first]
        ]
        return outcomes, which.reshape(-1)

    def _concerned(self, wanted: _CycleWish, snapshot: Snapshot, rows: Rows) -> Mask:
        """Return which of *rows* must be asked: all of them if the pod wishes something."""
        if wanted.special:
            return np.ones(len(rows), dtype=np.bool_)
        return self.ledgers.marks(snapshot).present(rows)

    def _any_marked(self, snapshot: Snapshot) -> bool:
        marks = self.ledgers.marks(snapshot)
        return bool(marks.values) and bool(marks.present(snapshot.rows).any())

    def _known_of(self, pod: PodInfo) -> dict[Hashable, NodeAnswer]:
        shape = scheduling_key(pod)
        known = self._known.setdefault(shape, {})
        self._known.move_to_end(shape)
        while len(self._known) > 1 and self._outcomes_known() > _REMEMBERED_OUTCOMES:
            self._known.popitem(last=False)
        return known

    def _outcomes_known(self) -> int:
        """Return how many outcomes are remembered; a shape without any counts too."""
        return sum(map(len, self._known.values())) + 64 * len(self._known)

    def _usages(self, pod: PodInfo) -> list[RatedUsage]:
        asked = rated_requests(pod)
        return [RatedUsage(name, asked.get(name, 0), little=True) for name in self.args.weights]


@dataclass(frozen=True, slots=True)
class _Allotter:
    """Chooses CPUs for one pod together with who chooses the devices of its claims."""

    plugin: NodeNUMAResource
    wanted: _CycleWish

    def allot(self, node: NodeInfo, agrees: Agrees) -> Allotted | None:
        """Decide on NUMA nodes that have both, if there are any; see `Allots`."""
        plain = self.plugin.plain_outcome(self.wanted, node)
        if plain.rule is None or plain.allotment is None:
            return None
        case = self.plugin.ledgers.case(node)
        outcome = self.plugin.decided(case, self.wanted.wish, agrees)
        if outcome.allotment is None:
            outcome = plain
        self.wanted.agreed[node.name] = outcome
        places = places_of(outcome.allotment or plain.allotment, case.ledger.capacity)
        return Allotted(places, strict=plain.rule.policy.insists)


def _is_ordinary(pod: PodInfo) -> bool:
    """Tell whether *pod* wishes nothing of its own beyond devices.

    Nearly all pods are, and must cost nothing, so only the names of annotations are looked at.
    """
    if keys.QOS_CLASS in pod.labels:
        return False
    annotations = pod.pod.metadata.annotations
    return not annotations or not any(
        _DOMAIN in key or key == keys.VOLCANO_POLICY for key in annotations
    )


def _grouped(outcomes: list[NodeAnswer]) -> tuple[tuple[Status, ...], np.ndarray]:
    """Return the distinct statuses, success first, and which of them each outcome has."""
    statuses: list[Status] = [SUCCESS]
    known: dict[object, int] = {(SUCCESS.code, ()): 0}
    choice = np.zeros(len(outcomes), dtype=np.int32)
    for index, outcome in enumerate(outcomes):
        status = outcome.status
        key = (status.code, status.reasons)
        if key not in known:
            known[key] = len(statuses)
            statuses.append(status)
        choice[index] = known[key]
    return tuple(statuses), choice


REGISTRY: Final[Registry] = {
    NodeNUMAResource.name: NodeNUMAResource.make,
    DeviceShare.name: DeviceShare.make,
}
"""How the plugins of this package are made."""
