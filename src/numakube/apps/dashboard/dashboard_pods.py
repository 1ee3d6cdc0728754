"""Pods as pages need them: those of a node, those that wait, those that a kubelet refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.kubelet_rejections import is_rejected
from numakube.api.pod import has_ended

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from numakube.api.pod import Pod, PodCondition


class PodBook:
    """Sorts pods as they come, so that no page has to look at all of them."""

    def __init__(self) -> None:
        self.waiting: dict[str, Pod] = {}
        self.refused: dict[str, Pod] = {}
        self._on: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}
        self._ended: set[str] = set()
        self._versions: dict[str, int] = {}

    def __len__(self) -> int:
        return len(self._node_of) + len(self.waiting)

    def put(self, pod: Pod) -> None:
        """Take a pod that was added or has changed."""
        self._drop(pod.metadata.key)
        key, node = pod.metadata.key, pod.spec.node_name
        if is_rejected(pod):
            self.refused[key] = pod
        if node:
            self._on.setdefault(node, {})[key] = pod
            self._node_of[key] = node
            if has_ended(pod):
                self._ended.add(key)
            self._versions[node] = self._versions.get(node, 0) + 1
        elif not has_ended(pod):
            self.waiting[key] = pod

    def remove(self, pod: Pod) -> None:
        """Forget a pod that was deleted."""
        self._drop(pod.metadata.key)

    def on(self, node: str) -> Collection[Pod]:
        """Return the pods of a node, ended ones too."""
        return self._on.get(node, {}).values()

    def running_on(self, node: str) -> list[Pod]:
        """Return the pods of a node that have not ended, by namespace and name."""
        pods = [pod for pod in self._on.get(node, {}).values() if not has_ended(pod)]
        return sorted(pods, key=lambda pod: pod.metadata.key)

    def count_on(self, node: str) -> int:
        """Return how many pods of a node have not ended."""
        return sum(not has_ended(pod) for pod in self._on.get(node, {}).values())

    @property
    def placed_count(self) -> int:
        """How many pods have a node and have not ended."""
        return len(self._node_of) - len(self._ended)

    def placed(self) -> Iterator[Pod]:
        """Yield every pod that has a node, node by node."""
        for pods in self._on.values():
            yield from pods.values()

    def version_of(self, node: str) -> int:
        """Return a number that changes when a pod of the node does."""
        return self._versions.get(node, 0)

    def _drop(self, key: str) -> None:
        self.waiting.pop(key, None)
        self.refused.pop(key, None)
        self._ended.discard(key)
        node = self._node_of.pop(key, None)
        if node is None:
            return
        pods = self._on[node]
        pods.pop(key, None)
        self._versions[node] = self._versions.get(node, 0) + 1
        if not pods:
            del self._on[node]


def condition_of(pod: Pod, kind: str) -> PodCondition | None:
    """Return one condition of a pod."""
    conditions = pod.status.conditions if pod.status else ()
    return next((one for one in conditions if one.type == kind), None)


def phase_of(pod: Pod) -> str:
    """Return in one word what a pod is doing."""
    if pod.metadata.deletion_timestamp is not None:
        return "Terminating"
    if pod.status is None or not pod.status.phase:
        return "Pending"
    return pod.status.reason or pod.status.phase
