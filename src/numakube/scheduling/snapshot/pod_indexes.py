"""What is known of the pods on nodes beyond their sums: groups, terms, ports and claims."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.snapshot.host_ports import PortTable
from numakube.scheduling.snapshot.pod_counts import PodCounts
from numakube.scheduling.snapshot.term_counts import TermCounts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.arrays import IntArray
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_FIRST_CAPACITY: Final = 64


def attachable_volumes(pod: PodInfo) -> int:
    """Return how many volumes of *pod* may have to be attached to its node."""
    return sum(
        volume.persistent_volume_claim is not None
        or volume.ephemeral is not None
        or volume.gce_persistent_disk is not None
        or volume.aws_elastic_block_store is not None
        for volume in pod.pod.spec.volumes
    )


class VolumeSlots:
    """How many volumes the pods of each node have that may have to be attached, by row.

    Several pods may share one, and some are not attached at all: the number is never too small, and
    where even it is below the limit an exact count is not needed.
    """

    def __init__(self) -> None:
        self._counts: IntArray = np.zeros(_FIRST_CAPACITY, dtype=np.int64)

    def at(self, row: int) -> int:
        """Return how many volumes at most the pods of the node at *row* have attached."""
        return int(self._counts[row]) if row < len(self._counts) else 0

    def add(self, pod: PodInfo, row: int) -> None:
        """Take into account that *pod* runs on the node at *row*."""
        if row >= len(self._counts):
            grown = np.zeros(max(2 * len(self._counts), row + 1), dtype=np.int64)
            grown[: len(self._counts)] = self._counts
            self._counts = grown
        self._counts[row] += attachable_volumes(pod)

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back an `add`."""
        self._counts[row] -= attachable_volumes(pod)


class ClaimUsers:
    """Counts of pods by claim (``namespace/name``).

    A claim for one pod only must not get a second one.
    """

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def is_used(self, claim: str) -> bool:
        """Tell whether a pod on any node uses *claim*."""
        return self._counts[claim] > 0

    def add(self, pod: PodInfo) -> None:
        """Take into account that *pod* runs."""
        self._counts.update(_claims(pod))

    def remove(self, pod: PodInfo) -> None:
        """Take back an `add`."""
        for claim in _claims(pod):
            self._counts[claim] -= 1
            if not self._counts[claim]:
                del self._counts[claim]


def _claims(pod: PodInfo) -> Iterator[str]:
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            yield f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"


class PodIndexes:
    """Everything that is looked up by what pods are like rather than by node."""

    def __init__(self) -> None:
        self.counts = PodCounts()
        self.terms = TermCounts()
        self.ports = PortTable()
        self.claims = ClaimUsers()
        self.slots = VolumeSlots()
        self._priorities: Counter[int] = Counter()

    @property
    def lowest_priority(self) -> int | None:
        """The lowest priority of any pod; ``None`` if there are no pods."""
        return min(self._priorities, default=None)

    def add(self, pod: PodInfo, row: int) -> None:
        """Take into account that *pod* runs on the node at *row*."""
        self.counts.add(pod, row)
        self.terms.add(pod, row)
        self.ports.add(pod, row)
        self._priorities[pod.priority] += 1
        if pod.pod.spec.volumes:
            self.claims.add(pod)
            self.slots.add(pod, row)

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back an `add`."""
        self.counts.remove(pod, row)
        self.terms.remove(pod, row)
        self.ports.remove(pod, row)
        self._priorities[pod.priority] -= 1
        if not self._priorities[pod.priority]:
            del self._priorities[pod.priority]
        if pod.pod.spec.volumes:
            self.claims.remove(pod)
            self.slots.remove(pod, row)

    def add_all(self, node: NodeInfo) -> None:
        """Take a new *node* and all its pods in."""
        self.counts.reserve(node.row)
        self.terms.reserve(node.row)
        for pod in node.pods.values():
            self.add(pod, node.row)

    def remove_all(self, node: NodeInfo) -> None:
        """Forget all pods of *node*."""
        for pod in node.pods.values():
            self.remove(pod, node.row)
