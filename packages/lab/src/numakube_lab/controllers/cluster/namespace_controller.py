"""Namespaces: their service account ``default``, and their deletion, pods before everything else.

The server marks the namespace and refuses new content; the finalizer ``kubernetes`` keeps it until
this controller has found it empty.

Pods that no other controller removes: of nodes that are gone, and too many that have ended. Looks
at all pods every 20 s, as kube-controller-manager does: none of this is urgent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import structlog

from numakube.api.pod import has_ended
from numakube.errors import ApiError, ClusterUnreachable, Conflict, NotFound
from numakube.kube import (
    JSON,
    ObjectKey,
    WorkQueue,
    key_of,
    merge_patch,
    run_workers,
    write_request,
)
from numakube.kube.catalog import NODES, PODS, SERVICE_ACCOUNTS
from numakube_lab.controllers.cluster.garbage_collector import collectable_resources
from numakube_lab.controllers.common.controller_loop import (
    NOTHING,
    Create,
    LabController,
    ObjectPlan,
)
from numakube_lab.controllers.common.pod_states import is_terminating
from numakube_lab.controllers.object_types import NAMESPACES, MetadataObject, Namespace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from numakube.api.pod import Pod
    from numakube.kube import Change, EventRecorder, Resource
    from numakube_lab.controllers.common.controller_loop import MirroredCluster, Owned


FINALIZER: Final = "kubernetes"
RETRY_SECONDS: Final = 5.0
"""How long to wait for content that takes its time, such as objects with finalizers."""

_PODS: Final = PODS.decoded_as(MetadataObject)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Namespaces:
    """Empties the namespaces that are being deleted."""

    name: ClassVar[str] = "namespace-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        del recorder  # What it does is not told in events.
        self._cluster = cluster
        self._client = cluster.client
        self._namespaces = cluster.mirror(NAMESPACES)
        self._pods = cluster.mirror(PODS)
        self._queue: WorkQueue[str] = WorkQueue(clock=cluster.clock)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._cluster.synced()
        stops = [
            self._namespaces.store.subscribe(self._changed),
            self._pods.store.subscribe(self._pod_changed, replay=False),
        ]
        try:
            await run_workers(self._queue, self._work, workers=2)
        finally:
            for stop in stops:
                stop()

    def _changed(self, change: Change[Namespace]) -> None:
        if _is_ours(change.object):
            self._queue.add(change.object.metadata.name)

    def _pod_changed(self, change: Change[Owned]) -> None:
        """Look again at a namespace whose pods are going."""
        name = change.object.metadata.namespace
        namespace = self._namespaces.get(ObjectKey("", name))
        if namespace is not None and _is_ours(namespace):
            self._queue.add(name)

    async def _work(self, name: str) -> float | None:
        namespace = self._namespaces.get(ObjectKey("", name))
        if namespace is None or not _is_ours(namespace):
            return None
        if not await self._empty(name, _PODS):
            return RETRY_SECONDS
        left = 0
        for resource in await collectable_resources(self._client):
            if resource.namespaced and not await self._empty(name, resource):
                left += 1
        if left:
            return RETRY_SECONDS
        await self._finalize(namespace)
        return None

    async def _empty(self, namespace: str, resource: Resource[MetadataObject]) -> bool:
        """Delete all objects of *resource* in *namespace*; tell whether none is left."""
        try:
            found = (await self._client.list(resource, namespace=namespace)).items
            if any(each.metadata.deletion_timestamp is None for each in found):
                await self._client.delete_collection(
                    resource, namespace=namespace, propagation="Background"
                )
                found = (await self._client.list(resource, namespace=namespace)).items
        except NotFound:
            # The definition of a custom kind may go while we look.
            return True
        except ApiError as refusal:
            _log.warning("namespace_content_kept", namespace=namespace, error=str(refusal))
            return False
        return not found

    async def _finalize(self, namespace: Namespace) -> None:
        """Let *namespace* go."""
        name = namespace.metadata.name
        document = await self._client.get(NAMESPACES.raw, name)
        kept = [each for each in namespace.spec.finalizers if each != FINALIZER]
        document["spec"] = {**(document.get("spec") or {}), "finalizers": kept}
        path = NAMESPACES.path(name, subresource="finalize")
        body = msgspec.json.encode(document)
        try:
            await self._client.request(write_request("PUT", path, (), body, JSON))
        except (Conflict, NotFound) as outdated:
            _log.debug("namespace_outdated", namespace=str(key_of(namespace)), error=str(outdated))


def _is_ours(namespace: Namespace) -> bool:
    """Tell whether *namespace* is being deleted and waits for this controller."""
    going = namespace.metadata.deletion_timestamp is not None
    return going and FINALIZER in namespace.spec.finalizers


ACCOUNTS = SERVICE_ACCOUNTS.decoded_as(MetadataObject)
DEFAULT = "default"


class ServiceAccounts(LabController):
    """Gives every namespace its default service account, and gives it back if it is deleted."""

    name: ClassVar[str] = "serviceaccount-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._namespaces = cluster.mirror(NAMESPACES)
        self._accounts = cluster.mirror(ACCOUNTS)

    def watch(self) -> None:
        """Look at namespaces when they, or their service accounts, change."""
        self.follow(self._namespaces)
        self.follow(self._accounts, lambda each: (ObjectKey("", each.metadata.namespace),))

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide about one namespace."""
        namespace = self._namespaces.get(key)
        if namespace is None or namespace.metadata.deletion_timestamp is not None:
            return NOTHING
        if self._accounts.get(ObjectKey(key.name, DEFAULT)) is not None:
            return NOTHING
        document = {
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": {"name": DEFAULT, "namespace": key.name},
        }
        return ObjectPlan((Create(resource=ACCOUNTS, document=document),))


INTERVAL: Final = 20.0
QUARANTINE: Final = 40.0
"""Seconds for which a node must be gone before its pods are removed."""

THRESHOLD: Final = 12_500
"""How many pods that have ended are kept."""


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
        cluster: MirroredCluster,
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
