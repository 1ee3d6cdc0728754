"""The plugins that only score: NodeResourcesBalancedAllocation and ImageLocality.

Both follow kube-scheduler 1.37.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.arrays import picked, uniform
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE, PreScore, Score, VectorScore
from numakube.scheduling.framework.status import SKIP, SUCCESS, Status
from numakube.scheduling.plugins.node_resources_fit import RatedUsage
from numakube.scheduling.plugins.plugin_arguments import (
    NodeResourcesBalancedAllocationArgs,
    read_args,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt

    from numakube.scheduling.arrays import IntArray, Ratings, Rows, SmallScores
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_resources import ResourceTable
    from numakube.scheduling.snapshot.nodes import Image, NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


_USAGES: Final = StateKey[tuple[RatedUsage, ...]]("NodeResourcesBalancedAllocation")


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
        asked = [pod.requests.get(resource.name, 0) for resource in self.args.resources]
        if not any(asked):
            return SKIP
        usages = (
            RatedUsage(one.name, amount, little=False)
            for one, amount in zip(self.args.resources, asked, strict=True)
        )
        state.write(_USAGES, tuple(usages))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate one node."""
        return _rating(usage.of_node(node) for usage in state.read(_USAGES) or ())

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate all nodes."""
        usages, table = state.read(_USAGES) or (), snapshot.resources
        key = self.name, tuple((usage.resource, usage.request) for usage in usages)
        scores = table.derived(
            key,
            lambda changed, size: _ratings(usages, table, changed, size),
            lambda row: _rating(usage.of_row(table, row) for usage in usages),
            np.int8,
        )
        return picked(scores, rows)


def _rating(usages: Iterable[tuple[int, int]]) -> int:
    """Return the score of a node of which resources are offered and used like this."""
    shares = [min(used / offered, 1.0) for offered, used in usages if offered]
    return int((1 - _deviation(shares)) * float(MAX_NODE_SCORE))


def _ratings(
    usages: tuple[RatedUsage, ...], table: ResourceTable, rows: Rows | slice, size: int
) -> SmallScores:
    """Return the scores of *size* nodes, those at *rows*."""
    both = (usage.of_all(table, rows) for usage in usages)
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


# ------------------------------------------------------------------------------------------------
# ImageLocality: nodes that have the images already score higher.
#
# An image counts with its size, scaled by the share of nodes that have it so that a popular image
# does not draw all pods to the few nodes that got it first. Follows kube-scheduler 1.37.

_MIB: Final = 1024 * 1024
# Below the first an image is had quickly anyway; above the second a container gains nothing more.
_SMALLEST: Final = 23 * _MIB
_LARGEST: Final = 1000 * _MIB

_IMAGES: Final = StateKey[list[tuple["Image", int]]]("ImageLocality")


class ImageLocality(PreScore, Score, VectorScore):
    """Rates nodes by the size of the pod's images that they have."""

    name = "ImageLocality"
    wakes_on = EventKind(0)

    @classmethod
    def from_args(cls, args: Mapping[str, object]) -> ImageLocality:
        """Return the plugin; it has no arguments."""
        return cls()

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Look the images of the pod up."""
        state.write(_IMAGES, _worth(pod, snapshot))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate one node."""
        worth = sum(value for image, value in state.read(_IMAGES) or () if node.row in image)
        largest = _LARGEST * _containers(pod)
        worth = min(max(worth, _SMALLEST), max(largest, _SMALLEST))
        return MAX_NODE_SCORE * (worth - _SMALLEST) // (largest - _SMALLEST)

    def score_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> IntArray:
        """Rate all nodes."""
        images = state.read(_IMAGES)
        if not images:
            return uniform(0, len(rows))
        worth = np.zeros(len(snapshot.by_row), dtype=np.int64)
        for image, value in images:
            worth[image.rows] += value
        largest = _LARGEST * _containers(pod)
        bounded = np.clip(worth[rows], _SMALLEST, largest)
        return MAX_NODE_SCORE * (bounded - _SMALLEST) // (largest - _SMALLEST)


def _containers(pod: PodInfo) -> int:
    return max(len(pod.pod.spec.init_containers) + len(pod.pod.spec.containers), 1)


def _worth(pod: PodInfo, snapshot: Snapshot) -> list[tuple[Image, int]]:
    """Return the images of all containers that any node has, and what each is worth there."""
    nodes = len(snapshot.rows)
    found = []
    for container in (*pod.pod.spec.init_containers, *pod.pod.spec.containers):
        image = snapshot.images.get(_with_tag(container.image))
        if image is not None:
            found.append((image, int(image.size_bytes * (len(image) / nodes))))
    return found


def _with_tag(name: str) -> str:
    return name if name.rfind(":") > name.rfind("/") else f"{name}:latest"
