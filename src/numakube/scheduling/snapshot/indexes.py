"""What is known of the pods on nodes beyond their sums: groups, terms, ports and claims."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.scheduling.snapshot.pod_counts import PodCounts
from numakube.scheduling.snapshot.pod_volumes import ClaimUsers, VolumeSlots
from numakube.scheduling.snapshot.ports import PortTable
from numakube.scheduling.snapshot.term_counts import TermCounts

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


class PodIndexes:
    """Everything that is looked up by what pods are like rather than by node."""

    def __init__(self) -> None:
        self.counts = PodCounts()
        self.terms = TermCounts()
        self.ports = PortTable()
        self.claims = ClaimUsers()
        self.slots = VolumeSlots()

    def add(self, pod: PodInfo, row: int) -> None:
        """Take into account that *pod* runs on the node at *row*."""
        self.counts.add(pod, row)
        self.terms.add(pod, row)
        self.ports.add(pod, row)
        if pod.pod.spec.volumes:
            self.claims.add(pod)
            self.slots.add(pod, row)

    def remove(self, pod: PodInfo, row: int) -> None:
        """Take back an `add`."""
        self.counts.remove(pod, row)
        self.terms.remove(pod, row)
        self.ports.remove(pod, row)
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
