"""Pods that no other controller removes: of nodes that are gone, and too many that have ended.

Looks at all pods every 20 s, as kube-controller-manager does: none of this is urgent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import structlog

from numakube.api.pod import has_ended
from numakube.errors import ApiError, ClusterUnreachable
from numakube.kube.catalog import NODES, PODS
from numakube.kube.client import merge_patch
from numakube.kube.resource_types import ObjectKey, key_of
from numakube_lab.controllers.common.pod_states import is_terminating

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.kube.event_recorder import EventRecorder
    from numakube_lab.controllers.common.resource_mirrors import Cluster

INTERVAL: Final = 20.0
QUARANTINE: Final = 40.0
"""Seconds for which a node must be gone before its pods are removed."""

THRESHOLD: Final = 12_500
"""How many pods that have ended are kept."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def choose_leftovers(
    pods: Collection[Pod],
    *,
    nodes: Collection[str],
    missing_for: Mapping[str, float],
    threshold: int = THRESHOLD,
) -> list[Pod]:
    """Return the pods to remove.

    Args:
        pods: all pods.
        nodes: the names of all nodes.
        missing_for: for how many seconds other nodes have been missing.
        threshold: how many pods that have ended may stay.
    """
    ended = [pod for pod in pods if has_ended(pod) and not is_terminating(pod)]
    ended.sort(key=lambda pod: (pod.metadata.creation_timestamp or "", pod.metadata.name))
    chosen = ended[: max(0, len(ended) - threshold)]
    known = {pod.metadata.uid for pod in chosen}
    for pod in pods:
        if pod.metadata.uid in known:
            continue
        node = pod.spec.node_name
        stranded = node not in nodes and missing_for.get(node, 0.0) >= QUARANTINE
        if (node and stranded) or (not node and is_terminating(pod)):
            chosen.append(pod)
    return chosen


class Leftovers:
    """Removes pods that no other controller does."""

    name: ClassVar[str] = "pod-garbage-collector"

    def __init__(
        self,
        cluster: Cluster,
        *,
        recorder: EventRecorder | None = None,
        threshold: int = THRESHOLD,
    ) -> None:
        del recorder  # What it does is not told in events.
        self._cluster = cluster
        self._client = cluster.client
        self._clock = cluster.clock
        self._pods = cluster.mirror(PODS)
        self._nodes = cluster.mirror(NODES)
        self._threshold = threshold
        self._missing_since: dict[str, float] = {}

    async def run(self) -> None:
        """Work until cancelled."""
        await self._cluster.synced()
        while True:
            await self._clock.sleep(INTERVAL)
            for pod in self._chosen():
                try:
                    await self._remove(pod)
                except (ApiError, ClusterUnreachable) as failure:
                    _log.debug("leftover_stays", pod=str(key_of(pod)), error=str(failure))

    def _chosen(self) -> list[Pod]:
        now = self._clock.monotonic()
        pods = tuple(self._pods.store.values())
        nodes = {node.metadata.name for node in self._nodes.store.values()}
        self._note_missing(pods, nodes, now)
        return choose_leftovers(
            pods,
            nodes=nodes,
            missing_for={name: now - since for name, since in self._missing_since.items()},
            threshold=self._threshold,
        )

    def _note_missing(self, pods: Iterable[Pod], nodes: Collection[str], now: float) -> None:
        missing = {pod.spec.node_name for pod in pods} - set(nodes) - {""}
        since = self._missing_since
        self._missing_since = {name: since.get(name, now) for name in missing}

    async def _remove(self, pod: Pod) -> None:
        """Remove *pod* at once; its kubelet is not there to do it."""
        key = key_of(pod)
        orphaned = self._nodes.get(ObjectKey("", pod.spec.node_name)) is None
        if pod.spec.node_name and orphaned and not has_ended(pod):
            await self._client.patch(
                PODS,
                key.name,
                merge_patch({"status": {"phase": "Failed"}}),
                namespace=key.namespace,
                subresource="status",
            )
        await self._client.delete(
            PODS, key.name, namespace=key.namespace, uid=pod.metadata.uid, grace_seconds=0
        )
