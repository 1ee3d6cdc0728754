"""Searches for the fewest moves that let one more pod fit.

    search = RoomSearch(WhatIfCluster(engine))
    step = search.open_room(wanted)         # carried out on the engine when it returns

More of the wanted pods fit at the same time then: a place on another node that a move takes away
counts against the one that it opens. So pods keep off places, as far as cordons can bring that
about, and off nodes that the scheduler likes as well and that are not equal.

Room is opened on one node: some of its pods leave and find another node, by the scheduler's own
cycle and the kubelet model, while the node is cordoned so that they do not come back. If one of
them finds no place, room is opened for it first, in the same way, on a further node (a *chain*).

Fewer moves come first, then pods of lower priority. Each number of moves is tried twice. The first
pass puts pods where the scheduler likes them best, and looks for chains only where there is no such
place. The second pass also tries other places, and opens room beforehand for pods that have a place
which another pod needs. Some of its plans are *swaps*: a pod comes to the node before the pods in
its way leave, so that the kubelet gives it the NUMA node that they do not use.

No pod moves twice. Up to `MOST_MOVES` the search is complete for moves that cordons bring about,
unless it takes too long. `LackingAmounts` saves most attempts: it tells which pods cannot make room
by leaving, and says no only where filters and kubelet model would say no as well.
"""

from __future__ import annotations

from contextlib import nullcontext
from itertools import combinations, islice
from typing import TYPE_CHECKING, Final, Protocol

from numakube.insight.explain import Bench
from numakube.insight.how_many_fit import alike
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.snapshot.pod_equivalence import depends_on_pods, scheduling_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy
from numakube_planning.defrag.defrag_plan import MovablePods, Move, MoveStep
from numakube_planning.defrag.what_if_cluster import WantedPods, again

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence
    from contextlib import AbstractContextManager

    from numakube.api.pod import Pod
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.topology import ExactReport
    from numakube.values.resources import Amounts
    from numakube_planning.defrag.what_if_cluster import WhatIfCluster

    Leaving = tuple[NodeInfo, tuple[PodInfo, ...]]
    """Pods that leave a node together."""

MOST_MOVES: Final = 4
"""Moves for one pod that is to fit; each of them restarts a pod."""
_MOST_SETS: Final = 300
"""Sets of pods of one size, none like another, that are considered on one node."""
_MOST_TRIALS: Final = 500
"""Sets of pods that are tried for one pod that is to fit."""
_MOST_LOOKS: Final = 200_000
"""Sets of pods, and nodes, that are looked at for it; that takes seconds."""
_MOST_PLACES: Final = 3
"""Nodes that a pod is tried on when it leaves."""
_MOST_CORDONED: Final = 24
"""Nodes that are cordoned for one move."""
_MOST_ARRIVALS: Final = 1000
"""Moves that are tried in one pass; each is a cycle of the scheduler."""
_MOST_CHAINS: Final = 200
"""Pods that leave and for which room is looked for in turn."""
_GUARANTEED: Final = "Guaranteed"


class RoomSearch:
    """Finds moves, and carries them out on the engine."""

    def __init__(self, what_if: WhatIfCluster) -> None:
        self._what_if = what_if
        self._engine = what_if.engine
        self._movable = MovablePods(self._engine.cluster.objects.disruption_budgets.values())
        self.is_hopeless = False
        """Whether the pod that was looked at last would fit no node, whoever left it."""
        self._priority = 0
        self._trials = self._looks = self._chains = 0
        self._arrivals = 0
        self._thorough = False
        self._homes: dict[object, frozenset[str]] = {}
        self._known: dict[object, list[Leaving]] = {}
        self._holders: dict[object, bool] = {}
        self._wanted = WantedPods(what_if, ())

    def open_room(self, wanted: WantedPods) -> MoveStep | None:
        """Carry out the fewest moves that let one more of *wanted* fit; ``None`` if none do."""
        pod = wanted.next
        if pod is None:
            return None
        self._priority = PodInfo(pod).priority
        self._trials = self._looks = self._chains = 0
        self._homes.clear()
        self._known.clear()
        self._wanted = wanted
        goal = _OneMore(self._bench(pod), wanted)
        self.is_hopeless = not self._may_help(goal)
        if self.is_hopeless:
            return None
        for most in range(1, MOST_MOVES + 1):
            for self._thorough in (False, True):
                self._arrivals = 0
                for found in self._open(goal, most, frozenset()):
                    return found
        return None

    def _may_help(self, goal: _Goal) -> bool:
        """Tell whether it helps on any node if all leave that may."""
        considered, nodes = goal.bench.considered(), self._engine.cluster.nodes()
        if not considered:
            # It is refused before any node is looked at: what the scheduler says is all.
            return True
        with goal.others_placed():
            return any(
                self._may_leave(node, goal.bench) for node in nodes if node.name in considered
            )

    def _bench(self, pod: Pod) -> Bench:
        return Bench(self._engine, self._engine.runtime_for(pod.spec.scheduler_name), pod)

    def _open(self, goal: _Goal, most: int, closed: frozenset[str]) -> Iterator[MoveStep]:
        """Yield ways to reach *goal* by at most *most* moves, on a node not *closed*.

        Each is carried out while it is looked at, as are those of the methods below.
        """
        for node, leaving in self._candidates(goal, most, closed):
            if self._trials >= _MOST_TRIALS:
                return
            self._trials += 1
            if not goal.opens(node.name, leaving):
                continue
            for moves in self._rehouse(leaving, most - len(leaving), closed | {node.name}):
                # A pod that moved before others could have gone to the very node. Pods of a chain
                # were chosen when those that wait for them had not left yet: budgets count all.
                if self._movable.within_budgets(self._what_if.left) and goal.is_reached(
                    node.name, moves
                ):
                    yield MoveStep(node.name, moves)

    def _candidates(self, goal: _Goal, most: int, closed: frozenset[str]) -> list[Leaving]:
        """Return pods that may open room by leaving, those first that cost and take least."""
        bench = goal.bench
        wanted = PodInfo(bench.pod)
        key = scheduling_key(wanted), most, closed, self._what_if.state
        if key not in self._known:
            considered = bench.considered() - closed
            with goal.others_placed():
                found = [
                    (node, leaving)
                    for node in self._nodes(considered)
                    for leaving in self._sets(node, bench, most)
                ]
            self._known[key] = sorted(found, key=_cost)
        return self._known[key]

    def _nodes(self, considered: Collection[str]) -> Iterator[NodeInfo]:
        """Yield the nodes that there is still time to look at."""
        for node in self._engine.cluster.nodes():
            if node.name in considered and self._looks < _MOST_LOOKS:
                self._looks += 1
                yield node

    def _sets(self, node: NodeInfo, bench: Bench, most: int) -> Iterator[tuple[PodInfo, ...]]:
        lacking = LackingAmounts(PodInfo(bench.pod), node, self._movable)
        pods = self._may_leave(node, bench, lacking)
        kinds = {one.uid: self._movable.kind(one, node) for one in pods}
        for size in range(1, most + 1):
            sets = islice(combinations(pods, size), 10 * _MOST_SETS)
            unlike = {tuple(kinds[one.uid] for one in each): each for each in sets}
            for leaving in islice(unlike.values(), _MOST_SETS):
                if self._looks >= _MOST_LOOKS:
                    return
                self._looks += 1
                if lacking.may_be_covered_by(leaving) and self._may_go(leaving, node, most):
                    yield leaving

    def _may_leave(
        self, node: NodeInfo, bench: Bench, lacking: LackingAmounts | None = None
    ) -> list[PodInfo]:
        """Return the pods that may leave *node*; none if that would not help."""
        lacking = lacking or LackingAmounts(PodInfo(bench.pod), node, self._movable)
        pods = self._movable.on(node, priority=self._priority)
        pods = [one for one in pods if one.uid not in self._what_if.arrived]
        helps = lacking.may_be_covered_by(pods) and self._could_hold(node, bench, pods)
        return pods if helps else []

    def _could_hold(self, node: NodeInfo, bench: Bench, pods: Sequence[PodInfo]) -> bool:
        """Tell whether *node* would take the pod without any of its *pods*, which may leave.

        That is asked once: pods that come later leave no more room than there is now.
        """
        wanted = PodInfo(bench.pod)
        key = scheduling_key(wanted), node.name
        if key not in self._holders:
            asks = not depends_on_pods(wanted)
            self._holders[key] = not asks or bench.fits_without(node.name, pods)
        return self._holders[key]

    def _may_go(self, leaving: Sequence[PodInfo], node: NodeInfo, most: int) -> bool:
        """Tell whether budgets allow it, and each has another home if no move is left for one."""
        if not self._movable.within_budgets([*self._what_if.left, *leaving]):
            return False
        return len(leaving) < most or all(self._homes_of(one) - {node.name} for one in leaving)

    def _homes_of(self, pod: PodInfo) -> frozenset[str]:
        what_if = self._what_if
        key = scheduling_key(pod), what_if.state
        if key not in self._homes:
            self._homes[key] = what_if.homes(PodInfo(again(pod)))
        return self._homes[key]

    def _rehouse(
        self, leaving: Sequence[PodInfo], spare: int, closed: frozenset[str]
    ) -> Iterator[tuple[Move, ...]]:
        """Yield ways to find places for all of *leaving*, in whatever order; equals come as one."""
        if not leaving:
            yield ()
        first_of_kind = {self._kind(pod): pod for pod in reversed(leaving)}
        for pod in reversed(first_of_kind.values()):
            others = [other for other in leaving if other is not pod]
            for first in self._move(pod, spare, closed):
                for rest in self._rehouse(others, spare + 1 - len(first), closed):
                    yield (*first, *rest)

    def _kind(self, pod: PodInfo) -> object:
        node = self._engine.cluster.node(pod.node_name)
        return self._movable.kind(pod, node) if node is not None else pod.uid

    def _move(self, pod: PodInfo, spare: int, closed: frozenset[str]) -> Iterator[tuple[Move, ...]]:
        """Yield ways to move *pod*, after others if need be."""
        alone = False
        for move in self._places(pod, closed):
            alone = True
            yield (move,)
        if not spare or self._chains >= _MOST_CHAINS or (alone and not self._thorough):
            return
        self._chains += 1
        for first in self._open(_Fits(self._bench(again(pod))), spare, closed):
            for move in self._places(pod, closed):
                yield (*first.moves, move)

    def _places(self, pod: PodInfo, closed: frozenset[str]) -> Iterator[Move]:
        """Yield moves of *pod* off its node, those first that go to no node that is *closed*."""
        mark, known = self._what_if.mark(), set[str]()
        for nodes in dict.fromkeys((closed, frozenset({pod.node_name}))):
            tries = _MOST_PLACES if self._thorough else 1
            while tries and len(nodes) <= _MOST_CORDONED:
                if self._arrivals >= _MOST_ARRIVALS:
                    return
                self._arrivals += 1
                self._what_if.leave(pod)
                to_node = self._what_if.arrive(again(pod), closed=nodes)
                as_good = self._what_if.as_good if to_node else frozenset()
                costs = bool(to_node) and self._wanted.fewer_fit_on(to_node)
                if as_good:
                    self._what_if.rewind(mark)
                    as_good = self._unlike(to_node, as_good)
                    if as_good and len(nodes | as_good) <= _MOST_CORDONED:
                        nodes |= as_good
                        continue
                    self._what_if.leave(pod)
                    self._what_if.arrive(again(pod), closed=nodes)
                if to_node and to_node not in known and (self._thorough or not costs):
                    yield Move(pod.key, pod.node_name, to_node, tuple(sorted(nodes)))
                self._what_if.rewind(mark)
                if not to_node:
                    break
                known.add(to_node)
                nodes |= {to_node}
                # Where pods should go are nodes that have no place to lose.
                tries -= not costs

    def _unlike(self, name: str, others: Collection[str]) -> frozenset[str]:
        """Return those of *others* that are not equal to the node of that name."""
        nodes = (self._engine.cluster.node(other) for other in (name, *others))
        groups = alike(self._engine, (one for one in nodes if one is not None))
        equal = next(group for group in groups if any(one.name == name for one in group))
        return frozenset(others) - {one.name for one in equal}


def _cost(candidate: Leaving) -> tuple[int, int, str]:
    """Return what comes first: fewer pods leave enough moves for chains, which take long."""
    node, leaving = candidate
    return -len(leaving), sum(one.priority for one in leaving), node.name


class _Goal(Protocol):
    """What moves are to bring about."""

    bench: Bench

    def others_placed(self) -> AbstractContextManager[None]:
        """Have those on the cluster for a while whose places are not to be counted on."""
        ...

    def opens(self, node: str, leaving: Sequence[PodInfo]) -> bool:
        """Tell whether it may be reached on *node* without the pods *leaving*."""
        ...

    def is_reached(self, node: str, moves: Sequence[Move]) -> bool:
        """Tell whether *moves*, which were carried out for *node*, have brought it about."""
        ...


class _Fits:
    """A pod that has to move fits somewhere else."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench

    def others_placed(self) -> AbstractContextManager[None]:
        """Have nobody."""
        return nullcontext()

    def opens(self, node: str, leaving: Sequence[PodInfo]) -> bool:
        """Tell whether it fits there."""
        return self.bench.fits_without(node, leaving)

    def is_reached(self, node: str, moves: Sequence[Move]) -> bool:
        """Tell whether it fits there."""
        del moves
        return self.bench.fits_without(node, ())


class _OneMore:
    """One more of the wanted pods fits, beside those that do."""

    def __init__(self, bench: Bench, wanted: WantedPods) -> None:
        self.bench, self._wanted = bench, wanted

    def others_placed(self) -> AbstractContextManager[None]:
        """Have those that fit."""
        return self._wanted.placed()

    def opens(self, node: str, leaving: Sequence[PodInfo]) -> bool:
        """Tell whether more fit there."""
        if self._wanted.has_place_on(node):
            return self._wanted.more_fit_without(node, leaving)
        return self.bench.fits_without(node, leaving)

    def is_reached(self, node: str, moves: Sequence[Move]) -> bool:
        """Tell whether more fit on the nodes that have changed, all together."""
        changed = {name for move in moves for name in (move.from_node, move.to_node)}
        return self._wanted.more_fit(changed | {node})


class LackingAmounts:
    """What one node, and each of its zones, lacks for one pod."""

    def __init__(self, pod: PodInfo, node: NodeInfo, movable: MovablePods) -> None:
        wanted, node_has = pod.requests, node.allocatable
        free = {name: node_has.get(name, 0) - node.requested.get(name, 0) for name in wanted}
        self._whole = _lacking(wanted, free)
        self._node, self._movable = node, movable
        self._zones: dict[int, Amounts] = {}
        belief = node.numa
        if isinstance(belief, ExactBelief):
            aligned = _aligned(pod, belief.basis.exact)
            pairs = zip(belief.topology.zones, belief.available, strict=True)
            if aligned:
                self._zones = {zone.id: _lacking(aligned, free) for zone, free in pairs}

    def may_be_covered_by(self, leaving: Sequence[PodInfo]) -> bool:
        """Tell whether the pod may fit when those *leaving* are gone."""
        if not _covers(leaving, self._whole):
            return False
        return not self._zones or any(
            _covers([one for one in leaving if zone in self._places_of(one)], lacking)
            for zone, lacking in self._zones.items()
        )

    def _places_of(self, pod: PodInfo) -> frozenset[int]:
        return self._movable.places_of(pod, self._node)


def _lacking(wanted: Amounts, free: Amounts) -> Amounts:
    return {
        name: amount - free.get(name, 0)
        for name, amount in wanted.items()
        if amount > free.get(name, 0)
    }


def _covers(leaving: Sequence[PodInfo], lacking: Amounts) -> bool:
    for name, amount in lacking.items():
        if sum([one.requests.get(name, 0) for one in leaving]) < amount:
            return False
    return True


def _aligned(pod: PodInfo, report: ExactReport) -> Amounts:
    """Return what of *pod* has to be on one NUMA node, as far as that is certain."""
    settings, spec = report.settings, pod.pod.spec
    if settings.topology_policy != TopologyPolicy.SINGLE_NUMA_NODE or spec.init_containers:
        return {}
    if len(spec.containers) > 1 or pod.qos_class != _GUARANTEED:
        return {}
    wanted = pod.requests
    return {name: amount for name, amount in wanted.items() if _is_aligned(name, amount, report)}


def _is_aligned(resource: str, amount: int, report: ExactReport) -> bool:
    settings = report.settings
    if resource == CPU:
        return settings.cpu_policy == "static" and amount % MILLI_PER_CPU == 0
    if resource == MEMORY:
        return settings.memory_policy == "Static"
    table = report.devices.get(resource)
    return table is not None and all(table.numa_nodes)
