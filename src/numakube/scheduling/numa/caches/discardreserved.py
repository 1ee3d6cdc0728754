"""The cache for policies that spread pods: one pod at a time on each node.

While a pod is on its way to a node, from its reservation to its binding, the node takes no other.
Afterwards the latest report is believed as it is, although it may not have the pod yet: upstream
documents that gap, and `numakube.scheduling.numa.caches.predict` closes it.

Upstream forgets a reservation only when told that the pod was bound or not. Here it is enough to
see the pod bound anywhere, or gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.scheduling.numa.caches.cache_contract import NOTHING, Cause, Changes
from numakube.scheduling.numa.caches.passthrough import Passthrough

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.pods import PodInfo


class DiscardReserved(Passthrough):
    """Believes the latest report of each node that no pod is being bound to."""

    def __init__(self) -> None:
        super().__init__()
        self._node_of: dict[str, str] = {}
        self._reserved: dict[str, set[str]] = {}

    def reserve(self, pod: PodInfo, node: str) -> Changes:
        """Keep others away from *node*."""
        if self._node_of.get(pod.uid) == node:
            return NOTHING
        changes = self._release(pod.uid, Cause.RELEASED)
        self._node_of[pod.uid] = node
        self._reserved.setdefault(node, set()).add(pod.uid)
        return changes + self._renew(node, Cause.RESERVED)

    def unreserve(self, uid: str, node: str) -> Changes:
        """Let others onto *node* again."""
        return self._release(uid, Cause.RELEASED) if self._node_of.get(uid) == node else NOTHING

    def bound(self, uid: str, node: str) -> Changes:
        """Let others onto *node* again."""
        return self._release(uid, Cause.POD) if self._node_of.get(uid) == node else NOTHING

    def pod_seen(self, pod: PodInfo) -> Changes:
        """Let others onto the node if the pod has been bound."""
        return self._release(pod.uid, Cause.POD) if pod.node_name else NOTHING

    def pod_gone(self, uid: str) -> Changes:
        """Let others onto the node that the pod was meant for."""
        return self._release(uid, Cause.POD_GONE)

    def _release(self, uid: str, cause: Cause) -> Changes:
        node = self._node_of.pop(uid, None)
        if node is None:
            return NOTHING
        reserved = self._reserved[node]
        reserved.discard(uid)
        if reserved:
            return NOTHING
        del self._reserved[node]
        return self._renew(node, cause)

    def _blocked(self, node: str) -> str:
        return "another pod is being bound to the node" if node in self._reserved else ""
