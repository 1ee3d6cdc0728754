"""Namespaces: their service account ``default``, and their deletion, pods before everything else.

The server marks the namespace and refuses new content; the finalizer ``kubernetes`` keeps it until
this controller has found it empty.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
import structlog

from numakube.errors import ApiError, Conflict, NotFound
from numakube.kube.catalog import PODS, SERVICE_ACCOUNTS
from numakube.kube.client import write_request
from numakube.kube.connection.transport import JSON
from numakube.kube.resource_types import ObjectKey, key_of
from numakube.kube.workqueue import WorkQueue, run_workers
from numakube_lab.controllers.cluster.resource_discovery import collectable_resources
from numakube_lab.controllers.common.controller_actions import NOTHING, Create, Plan
from numakube_lab.controllers.common.controller_loop import Controller
from numakube_lab.controllers.types.cluster_types import NAMESPACES, Metadata, Namespace

if TYPE_CHECKING:
    from numakube.kube.event_recorder import EventRecorder
    from numakube.kube.resource_types import Resource
    from numakube.kube.store import Change
    from numakube_lab.controllers.common.resource_mirrors import Cluster, Owned

FINALIZER: Final = "kubernetes"
RETRY_SECONDS: Final = 5.0
"""How long to wait for content that takes its time, such as objects with finalizers."""

_PODS: Final = PODS.decoded_as(Metadata)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class Namespaces:
    """Empties the namespaces that are being deleted."""

    name: ClassVar[str] = "namespace-controller"

    def __init__(self, cluster: Cluster, *, recorder: EventRecorder | None = None) -> None:
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

    async def _empty(self, namespace: str, resource: Resource[Metadata]) -> bool:
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


ACCOUNTS = SERVICE_ACCOUNTS.decoded_as(Metadata)
DEFAULT = "default"


class ServiceAccounts(Controller):
    """Gives every namespace its default service account, and gives it back if it is deleted."""

    name: ClassVar[str] = "serviceaccount-controller"

    def __init__(self, cluster: Cluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._namespaces = cluster.mirror(NAMESPACES)
        self._accounts = cluster.mirror(ACCOUNTS)

    def watch(self) -> None:
        """Look at namespaces when they, or their service accounts, change."""
        self.follow(self._namespaces)
        self.follow(self._accounts, lambda each: (ObjectKey("", each.metadata.namespace),))

    def plan(self, key: ObjectKey) -> Plan:
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
        return Plan((Create(resource=ACCOUNTS, document=document),))
