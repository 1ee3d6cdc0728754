"""ImageLocality: nodes that have the images already score higher.

An image counts with its size, scaled by the share of nodes that have it so that a popular image
does not draw all pods to the few nodes that got it first. Follows kube-scheduler 1.35.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.arrays import uniform
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE, PreScore, Score, VectorScore
from numakube.scheduling.framework.status import SUCCESS, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_images import Image
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

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
