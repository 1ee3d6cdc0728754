"""The least that must be lost on each node, from sums of requests alone.

A trial asks every filter many times; these bounds take microseconds. A node is worth a trial only
if its bound is better than what was found elsewhere, and none at all if even the eviction of all
pods of lower priority would leave too little.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from numakube.scheduling.preemption.victims import lowest_cost
from numakube.values.resources import PODS, is_native

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from numakube.scheduling.preemption.victims import Cost
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

    _Shape = tuple[int, frozenset[tuple[str, int]]]
    """Priority and requests of a pod."""

_SHAPES_KEPT: Final = 16


@dataclass(frozen=True, slots=True)
class _Column:
    """What the pods of a node ask for of one resource, the least important pod first.

    Attributes:
        sums: of this pod and all less important ones.
        largest: single request among these.
    """

    sums: Sequence[int]
    largest: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Table:
    """The pods of a node in the order of their priorities, and sums of these."""

    generation: int
    priorities: Sequence[int]
    sums: Sequence[int]
    columns: dict[str, _Column]


class Bounds:
    """Computes bounds, and keeps them and what they are computed from until a node changes."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._known: dict[_Shape, dict[str, tuple[int, Cost | None]]] = {}

    def of(self, pod: PodInfo, nodes: Iterable[NodeInfo]) -> list[Cost | None]:
        """Return the least that making room for *pod* costs on each of *nodes*.

        ``None`` says that no eviction makes room.
        """
        known = self._known_for(pod)
        bounds = []
        for node in nodes:
            found = known.get(node.name)
            if found is None or found[0] != node.generation:
                found = known[node.name] = (node.generation, self._compute(pod, node))
            bounds.append(found[1])
        return bounds

    def _known_for(self, pod: PodInfo) -> dict[str, tuple[int, Cost | None]]:
        """Return what is known of pods that ask for the same with the same priority."""
        shape = (pod.priority, frozenset(pod.requests.items()))
        known = self._known.pop(shape, {})
        self._known[shape] = known
        if len(self._known) > _SHAPES_KEPT:
            del self._known[next(iter(self._known))]
        return known

    def _compute(self, pod: PodInfo, node: NodeInfo) -> Cost | None:
        table = self._table(node)
        lower = bisect_left(table.priorities, pod.priority)
        if not lower:
            return None
        index, count = 0, 1
        for name, wanted in (*pod.requests.items(), (PODS, 1)):
            missing = wanted - _free(node, name)
            if missing <= 0:
                continue
            column = table.columns.get(name)
            if column is None or column.sums[lower - 1] < missing:
                if is_native(name):
                    return None
                # It may be one that the fit filter was told to ignore.
                continue
            index = max(index, bisect_left(column.sums, missing))
            count = max(count, -(-missing // column.largest[lower - 1]))
        others = table.sums[count - 2] if count > 1 else 0
        return lowest_cost(table.priorities[index], others, count)

    def forget_others(self, nodes: Container[str]) -> None:
        """Forget everything about nodes that are not among *nodes*."""
        self._known.clear()
        self._tables = {name: table for name, table in self._tables.items() if name in nodes}

    def _table(self, node: NodeInfo) -> _Table:
        known = self._tables.get(node.name)
        if known is None or known.generation != node.generation:
            known = self._tables[node.name] = _make(node)
        return known


def _free(node: NodeInfo, name: str) -> int:
    if name == PODS:
        return node.allowed_pods - len(node.pods)
    return node.allocatable.get(name, 0) - node.requested.get(name, 0)


def _make(node: NodeInfo) -> _Table:
    pods = sorted(node.pods.values(), key=lambda pod: pod.priority)
    names = {name for pod in pods for name in pod.requests}
    columns = {name: [pod.requests.get(name, 0) for pod in pods] for name in names}
    columns[PODS] = [1] * len(pods)
    priorities = [pod.priority for pod in pods]
    return _Table(
        node.generation,
        priorities,
        list(accumulate(priorities)),
        {
            name: _Column(list(accumulate(amounts)), list(accumulate(amounts, max)))
            for name, amounts in columns.items()
        },
    )
