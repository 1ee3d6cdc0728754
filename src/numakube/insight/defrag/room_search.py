"""Searches for the fewest moves that let a pod fit.

    search = RoomSearch(WhatIfCluster(engine))
    step = search.open_room(pod)            # carried out on the engine when it returns

Room is opened on one node: some of its pods leave and find another node, by the scheduler's own
cycle and the kubelet model, while the node is cordoned so that they do not come back. Where one of
them finds no place, room is opened for it first, in the same way, on a further node (a *chain*).

Fewer moves come first, then pods of lower priority. The search is complete up to `MOST_MOVES`
unless it takes too long.
"""

from __future__ import annotations

from itertools import combinations, islice, permutations
from typing import TYPE_CHECKING, Final

from numakube.insight.defrag.lacking_amounts import LackingAmounts
from numakube.insight.defrag.movable_pods import MovablePods
from numakube.insight.defrag.plan import Move, Step
from numakube.insight.defrag.what_if_cluster import again
from numakube.insight.explain.what_if import Bench
from numakube.scheduling.snapshot.pod_equivalence import scheduling_key
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.defrag.what_if_cluster import WhatIfCluster
    from numakube.scheduling.snapshot.nodes import NodeInfo

    Leaving = tuple[NodeInfo, tuple[PodInfo, ...]]
    """Pods that leave a node together."""

MOST_MOVES: Final = 4
"""Moves for one pod that is to fit; each of them restarts a pod."""
_MOST_SETS: Final = 300
"""Sets of pods of one size that are considered on one node."""
_MOST_TRIALS: Final = 500
"""Sets of pods that are tried for one pod that is to fit."""
_MOST_LOOKS: Final = 100_000
"""Sets of pods, and nodes, that are looked at for it; that takes seconds."""
_MOST_CHAINS: Final = 200
"""Pods that leave and for which room is looked for in turn."""


class RoomSearch:
    """Finds moves, and carries them out on the engine."""

    def __init__(self, what_if: WhatIfCluster) -> None:
        self._what_if = what_if
        self._engine = what_if.engine
        self._movable = MovablePods(self._engine.cluster.objects.disruption_budgets.values())
        self._priority = 0
        self._trials = self._looks = self._chains = 0
        self._homes: dict[object, frozenset[str]] = {}

    def open_room(self, pod: Pod) -> Step | None:
        """Carry out the fewest moves that let *pod* fit somewhere; ``None`` if none do."""
        self._priority = PodInfo(pod).priority
        self._trials = self._looks = self._chains = 0
        self._homes.clear()
        for most in range(1, MOST_MOVES + 1):
            found = self._open(pod, most, frozenset())
            if found is not None:
                return found
        return None

    def _open(self, pod: Pod, most: int, closed: frozenset[str]) -> Step | None:
        """Open room for *pod* by at most *most* moves, on a node that is not *closed*."""
        bench = Bench(self._engine, self._engine.runtime_for(pod.spec.scheduler_name), pod)
        for node, leaving in self._candidates(bench, most, closed):
            if self._trials >= _MOST_TRIALS:
                return None
            self._trials += 1
            if not bench.fits_without(node.name, leaving):
                continue
            mark = self._what_if.mark()
            moves = self._rehouse(leaving, most - len(leaving), closed | {node.name})
            # A pod that moved before others could have gone to the very node.
            if moves is not None and bench.fits_without(node.name, ()):
                return Step(node.name, moves)
            self._what_if.rewind(mark)
        return None

    def _candidates(self, bench: Bench, most: int, closed: frozenset[str]) -> list[Leaving]:
        """Return pods that may open room by leaving, those first that cost and take least."""
        wanted, found = PodInfo(bench.pod), []
        considered = bench.considered() - closed
        for node in self._engine.cluster.nodes():
            if node.name not in considered:
                continue
            self._looks += 1
            for leaving in self._sets(node, LackingAmounts(wanted, node), most):
                # Fewer pods leave enough moves for chains, which take long to look for.
                spare, priorities = most - len(leaving), sum(one.priority for one in leaving)
                found.append(((spare, priorities, node.name), node, leaving))
        return [(node, leaving) for _, node, leaving in sorted(found, key=lambda one: one[0])]

    def _sets(
        self, node: NodeInfo, lacking: LackingAmounts, most: int
    ) -> Iterator[tuple[PodInfo, ...]]:
        pods = self._movable.on(node, priority=self._priority)
        pods = [one for one in pods if one.uid not in self._what_if.arrived]
        if not lacking.may_be_covered_by(pods):
            return
        for size in range(1, most + 1):
            for leaving in islice(combinations(pods, size), _MOST_SETS):
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
        key = scheduling_key(pod), what_if.mark(), len(what_if.left)
        if key not in self._homes:
            self._homes[key] = what_if.homes(PodInfo(again(pod)))
        return self._homes[key]

    def _rehouse(
        self, leaving: Sequence[PodInfo], spare: int, closed: frozenset[str]
    ) -> tuple[Move, ...] | None:
        """Find places for all of *leaving*, in whatever order that works."""
        mark = self._what_if.mark()
        for order in permutations(leaving):
            moves = self._in_order(order, spare, closed)
            if moves is not None:
                return moves
            self._what_if.rewind(mark)
        return None

    def _in_order(
        self, leaving: Sequence[PodInfo], spare: int, closed: frozenset[str]
    ) -> tuple[Move, ...] | None:
        moves: tuple[Move, ...] = ()
        for pod in leaving:
            found = self._move(pod, spare, closed)
            if found is None:
                return None
            moves += found
            spare -= len(found) - 1
        return moves

    def _move(self, pod: PodInfo, spare: int, closed: frozenset[str]) -> tuple[Move, ...] | None:
        """Move *pod*, after others if need be."""
        move = self._move_alone(pod, closed)
        if move is not None:
            return (move,)
        if not spare or self._chains >= _MOST_CHAINS:
            return None
        self._chains += 1
        first = self._open(again(pod), spare, closed)
        if first is None:
            return None
        move = self._move_alone(pod, closed)
        return (*first.moves, move) if move is not None else None

    def _move_alone(self, pod: PodInfo, closed: frozenset[str]) -> Move | None:
        """Move *pod* off its node, and to none that is *closed* if there is another."""
        mark = self._what_if.mark()
        for nodes in dict.fromkeys((closed, frozenset({pod.node_name}))):
            self._what_if.leave(pod)
            to_node = self._what_if.arrive(again(pod), closed=nodes)
            if to_node:
                return Move(pod.key, pod.node_name, to_node, tuple(sorted(nodes)))
            self._what_if.rewind(mark)
        return None
