"""Searches for the fewest moves that let a pod fit.

    search = RoomSearch(WhatIfCluster(engine))
    step = search.open_room(pod)            # carried out on the engine when it returns

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

from itertools import combinations, islice
from typing import TYPE_CHECKING, Final

from numakube.insight.defrag.defrag_plan import Move, Step
from numakube.insight.defrag.movable_pods import MovablePods
from numakube.insight.defrag.what_if_cluster import again
from numakube.insight.explain.what_if import Bench
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.snapshot.pod_equivalence import scheduling_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.defrag.what_if_cluster import WhatIfCluster
    from numakube.scheduling.snapshot.nodes import NodeInfo

    Leaving = tuple[NodeInfo, tuple[PodInfo, ...]]
    """Pods that leave a node together."""

    from numakube.topology.exact_report import ExactReport
    from numakube.values.resources import Amounts


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
        self._priority = 0
        self._trials = self._looks = self._chains = 0
        self._arrivals = 0
        self._thorough = False
        self._homes: dict[object, frozenset[str]] = {}
        self._known: dict[object, list[Leaving]] = {}

    def open_room(self, pod: Pod) -> Step | None:
        """Carry out the fewest moves that let *pod* fit somewhere; ``None`` if none do."""
        self._priority = PodInfo(pod).priority
        self._trials = self._looks = self._chains = 0
        self._homes.clear()
        self._known.clear()
        for most in range(1, MOST_MOVES + 1):
            for self._thorough in (False, True):
                self._arrivals = 0
                for found in self._open(pod, most, frozenset()):
                    return found
        return None

    def _open(self, pod: Pod, most: int, closed: frozenset[str]) -> Iterator[Step]:
        """Yield ways to open room for *pod* by at most *most* moves, on a node not *closed*.

        Each is carried out while it is looked at, as are those of the methods below.
        """
        bench = Bench(self._engine, self._engine.runtime_for(pod.spec.scheduler_name), pod)
        for node, leaving in self._candidates(bench, most, closed):
            if self._trials >= _MOST_TRIALS:
                return
            self._trials += 1
            if not bench.fits_without(node.name, leaving):
                continue
            for moves in self._rehouse(leaving, most - len(leaving), closed | {node.name}):
                # A pod that moved before others could have gone to the very node.
                if bench.fits_without(node.name, ()):
                    yield Step(node.name, moves)

    def _candidates(self, bench: Bench, most: int, closed: frozenset[str]) -> list[Leaving]:
        """Return pods that may open room by leaving, those first that cost and take least."""
        wanted = PodInfo(bench.pod)
        key = scheduling_key(wanted), most, closed, self._what_if.state
        if key not in self._known:
            found = [
                # Fewer pods leave enough moves for chains, which take long to look for.
                ((-len(leaving), sum(one.priority for one in leaving), node.name), node, leaving)
                for node in self._nodes(bench.considered() - closed)
                for leaving in self._sets(node, LackingAmounts(wanted, node, self._movable), most)
            ]
            self._known[key] = [one[1:] for one in sorted(found, key=lambda one: one[0])]
        return self._known[key]

    def _nodes(self, considered: Collection[str]) -> Iterator[NodeInfo]:
        """Yield the nodes that there is still time to look at."""
        for node in self._engine.cluster.nodes():
            if node.name in considered and self._looks < _MOST_LOOKS:
                self._looks += 1
                yield node

    def _sets(
        self, node: NodeInfo, lacking: LackingAmounts, most: int
    ) -> Iterator[tuple[PodInfo, ...]]:
        pods = self._movable.on(node, priority=self._priority)
        pods = [one for one in pods if one.uid not in self._what_if.arrived]
        if not lacking.may_be_covered_by(pods):
            return
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
        """Yield ways to find places for all of *leaving*, in whatever order."""
        if not leaving:
            yield ()
        for pod in leaving:
            others = [one for one in leaving if one is not pod]
            for first in self._move(pod, spare, closed):
                for rest in self._rehouse(others, spare + 1 - len(first), closed):
                    yield (*first, *rest)

    def _move(self, pod: PodInfo, spare: int, closed: frozenset[str]) -> Iterator[tuple[Move, ...]]:
        """Yield ways to move *pod*, after others if need be."""
        alone = False
        for move in self._places(pod, closed):
            alone = True
            yield (move,)
        if not spare or self._chains >= _MOST_CHAINS or (alone and not self._thorough):
            return
        self._chains += 1
        for first in self._open(again(pod), spare, closed):
            for move in self._places(pod, closed):
                yield (*first.moves, move)

    def _places(self, pod: PodInfo, closed: frozenset[str]) -> Iterator[Move]:
        """Yield moves of *pod* off its node, those first that go to no node that is *closed*."""
        mark, known = self._what_if.mark(), set[str]()
        for nodes in dict.fromkeys((closed, frozenset({pod.node_name}))):
            for _ in range(_MOST_PLACES if self._thorough else 1):
                if self._arrivals >= _MOST_ARRIVALS:
                    return
                self._arrivals += 1
                self._what_if.leave(pod)
                to_node = self._what_if.arrive(again(pod), closed=nodes)
                if to_node and to_node not in known:
                    yield Move(pod.key, pod.node_name, to_node, tuple(sorted(nodes)))
                self._what_if.rewind(mark)
                if not to_node:
                    break
                known.add(to_node)
                nodes |= {to_node}


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
