"""NodeResourcesBalancedAllocation: nodes whose resources are used evenly score higher.

The less the used shares of the resources differ from each other once the pod runs there, the
better. Follows kube-scheduler 1.35, whose floating point arithmetic is repeated step by step.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.arrays import picked
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE, PreScore, Score, VectorScore
from numakube.scheduling.framework.status import SKIP, SUCCESS, Status
from numakube.scheduling.plugins.plugin_arguments import (
    NodeResourcesBalancedAllocationArgs,
    read_args,
)
from numakube.scheduling.plugins.resource_amounts import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from numakube.scheduling.arrays import IntArray, Ratings, Rows, SmallScores
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_resources import ResourceTable
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_USAGES: Final = StateKey[tuple[Usage, ...]]("NodeResourcesBalancedAllocation")


class NodeResourcesBalancedAllocation(PreScore, Score, VectorScore):
    """Rates nodes by how even their resources would be used."""

    name = "NodeResourcesBalancedAllocation"
    wakes_on = EventKind(0)

    def __init__(self, args: NodeResourcesBalancedAllocationArgs | None = None) -> None:
        self.args = args or NodeResourcesBalancedAllocationArgs()

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> NodeResourcesBalancedAllocation:
        """Return the plugin for *args* as they stand in a configuration."""
        return cls(read_args(NodeResourcesBalancedAllocationArgs, args))

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Skip a pod that asks for none of the resources: it changes no balance."""
        asked = [pod.requests.get(one.name, 0) for one in self.args.resources]
        if not any(asked):
            return SKIP
        usages = (
            Usage(one.name, amount, little=False)
            for one, amount in zip(self.args.resources, asked, strict=True)
        )
        state.write(_USAGES, tuple(usages))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate one node."""
        return _rating(one.of_node(node) for one in state.read(_USAGES) or ())

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate all nodes."""
        usages, table = state.read(_USAGES) or (), snapshot.resources
        key = self.name, tuple((one.resource, one.request) for one in usages)
        scores = table.derived(
            key,
            lambda changed, size: _ratings(usages, table, changed, size),
            lambda row: _rating(one.of_row(table, row) for one in usages),
            np.int8,
        )
        return picked(scores, rows)


def _rating(usages: Iterable[tuple[int, int]]) -> int:
    """Return the score of a node of which resources are offered and used like this."""
    shares = [min(used / offered, 1.0) for offered, used in usages if offered]
    return int((1 - _deviation(shares)) * float(MAX_NODE_SCORE))


def _ratings(
    usages: tuple[Usage, ...], table: ResourceTable, rows: Rows | slice, size: int
) -> SmallScores:
    """Return the scores of *size* nodes, those at *rows*."""
    both = (one.of_all(table, rows) for one in usages)
    deviation = _deviations([_shares(*one) for one in both if one is not None], size)
    rating = np.subtract(1, deviation, out=deviation)
    rating *= float(MAX_NODE_SCORE)
    # A node may offer what adds up to no number; it gets nothing for it.
    return np.fmax(rating, 0.0, out=rating).astype(np.int8)


def _deviation(shares: list[float]) -> float:
    if len(shares) < 2:
        return 0.0
    if len(shares) == 2:
        return abs((shares[0] - shares[1]) / 2)
    total = 0.0
    for share in shares:
        total += share
    mean = total / len(shares)
    squares = 0.0
    for share in shares:
        squares += (share - mean) * (share - mean)
    return math.sqrt(squares / len(shares))


def _shares(offered: IntArray, used: IntArray) -> npt.NDArray[np.float64]:
    """Return the used share, at most one; not a number where nothing is offered."""
    if offered.all():
        return np.minimum(used / offered, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(offered == 0, np.nan, np.minimum(used / offered, 1.0))


def _deviations(shares: list[npt.NDArray[np.float64]], size: int) -> npt.NDArray[np.float64]:
    """Return `_deviation` for each row, over the shares that are numbers."""
    if not shares:
        return np.zeros(size)
    if len(shares) == 2:
        half: npt.NDArray[np.float64] = shares[0] - shares[1]
        half /= 2
        if not np.isnan(np.abs(half, out=half)).any():
            return half
    table = np.stack(shares)
    known = ~np.isnan(table)
    table[~known] = 0.0
    count = known.sum(axis=0)
    total, squares = np.zeros(size), np.zeros(size)
    for share in table:
        total += share
    mean = total / np.maximum(count, 1)
    for share, there in zip(table, known, strict=True):
        squares += np.where(there, (share - mean) * (share - mean), 0.0)
    spread = np.sqrt(squares / np.maximum(count, 1))
    return np.where(count > 2, spread, np.where(count == 2, _half_difference(table, known), 0.0))


def _half_difference(
    table: npt.NDArray[np.float64], known: npt.NDArray[np.bool_]
) -> npt.NDArray[np.float64]:
    """Return half the distance between the first two known shares of each column."""
    columns = np.arange(table.shape[1])
    first = known.argmax(axis=0)
    others = known.copy()
    others[first, columns] = False
    second = others.argmax(axis=0)
    half: npt.NDArray[np.float64] = np.abs((table[first, columns] - table[second, columns]) / 2)
    return half
