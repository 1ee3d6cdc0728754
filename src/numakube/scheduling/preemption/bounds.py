"""The least that must be lost on each node, from sums of requests alone.

A trial asks every filter many times; these bounds take microseconds. A node is worth a trial only
if its bound is better than what was found elsewhere, and none at all if even the eviction of all
pods of lower priority would leave too little.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING

from numakube.scheduling.preemption.victims import lowest_cost
from numakube.values.resources import PODS, is_native

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from numakube.scheduling.preemption.victims import Cost
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


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
    """The pods of a node in the order of their priorities."""

    generation: int
    priorities: Sequence[int]
    columns: dict[str, _Column]


class Bounds:
    """Computes bounds, and keeps what they are computed from until a node changes."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}

    def of(self, pod: PodInfo, node: NodeInfo) -> Cost | None:
        """Return the least that making room for *pod* on *node* costs; ``None`` if it cannot."""
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
        return lowest_cost(table.priorities[index], table.priorities[0], count)

    def forget_others(self, nodes: Container[str]) -> None:
        """Forget everything about nodes that are not among *nodes*."""
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
    return _Table(
        node.generation,
        [pod.priority for pod in pods],
        {
            name: _Column(list(accumulate(amounts)), list(accumulate(amounts, max)))
            for name, amounts in columns.items()
        },
    )
