"""Binding at the API server, for plugins: the pod, its volumes, and its claims for devices."""

from __future__ import annotations

import asyncio
import time
from enum import Enum
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import msgspec
import structlog

from numakube.apps.ordered_binds import Result, bind
from numakube.apps.watched_kinds import CLAIMS, RESOURCE_CLAIMS, VOLUMES
from numakube.dra.features import LATEST
from numakube.errors import ConfigError, Conflict, NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.client import Client, merge_patch, strategic_patch
from numakube.kube.connection.transport import Request
from numakube.kube.event_recorder import reference_to
from numakube.scheduling.assembly import DEFAULT_BINDER
from numakube.scheduling.framework.cycle_state import annotations_of
from numakube.scheduling.framework.plugins import Bind
from numakube.scheduling.framework.registry import Service
from numakube.scheduling.framework.status import SUCCESS, Code, Status, failure
from numakube.scheduling.plugins.dynamic_resources.claim_binding import ClaimConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from datetime import datetime

    from numakube.api.pod import NodeAllocatableResourceClaimStatus, Pod, PodStatus
    from numakube.api.resource_claims import ResourceClaim
    from numakube.api.storage_objects import PersistentVolume, PersistentVolumeClaim
    from numakube.kube.clock import Clock
    from numakube.kube.event_recorder import EventRecorder
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.snapshot.pods import PodInfo


CLIENT: Final = Service[Client]("client")
"""What plugins reach the API server by."""


class DefaultBinder(Bind):
    """Binds by the ``binding`` subresource; the status' detail is a `ordered_binds.Bound`."""

    name = DEFAULT_BINDER

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> DefaultBinder:
        """Make the plugin."""
        client = handle.services.get(CLIENT)
        if client is None:
            raise ConfigError("there is no API server to bind pods at")
        return cls(client)

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Bind *pod* to *node*, with the annotations that plugins left for it."""
        bound = await bind(self._client, pod, node, annotations=annotations_of(state))
        if bound.result is Result.BOUND:
            return SUCCESS
        return Status(Code.ERROR, (bound.reason,), detail=bound)


# Waiting for what others do with objects that this process watches.


class ChangeSignal:
    """Tells those who wait that something has changed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._changed = asyncio.Event()

    def send(self) -> None:
        """Say that something has changed."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(
        self, done: Callable[[], Status | None], *, timeout_seconds: float
    ) -> Status | None:
        """Ask *done*, now and after every change; return its answer, or ``None`` in the end."""
        try:
            async with self._clock.timeout(timeout_seconds):
                while True:
                    changed = self._changed
                    answer = done()
                    if answer is not None:
                        return answer
                    await changed.wait()
        except TimeoutError:
            return None


# Binding volumes at the API server, for the plugin VolumeBinding.


class ApiVolumeActions:
    """`volume_actions.VolumeActions` by patches of what changed.

    Patches carry the ``resourceVersion`` that the decision was made on, so a volume that another
    program has taken meanwhile is not taken away.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._storage = ChangeSignal(client.clock)

    def storage_changed(self) -> None:
        """Say that a claim or a volume has changed."""
        self._storage.send()

    async def bind_volume(self, volume: PersistentVolume) -> None:
        """Write the ``claimRef`` and the annotations of *volume*."""
        metadata = volume.metadata
        change = {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": dict(metadata.annotations),
            },
            "spec": {"claimRef": msgspec.to_builtins(volume.spec.claim_ref)},
        }
        await self._client.patch(VOLUMES, metadata.name, merge_patch(change))

    async def select_node(self, claim: PersistentVolumeClaim) -> None:
        """Write the annotations of *claim*, which name the selected node."""
        metadata = claim.metadata
        change = {
            "metadata": {
                "resourceVersion": metadata.resource_version,
                "annotations": dict(metadata.annotations),
            }
        }
        await self._client.patch(
            CLAIMS, metadata.name, merge_patch(change), namespace=metadata.namespace
        )

    async def until(self, done: Callable[[], Status | None], *, timeout_seconds: float) -> Status:
        """Ask *done*, now and whenever claims or volumes change, until it gives an answer."""
        answer = await self._storage.until(done, timeout_seconds=timeout_seconds)
        return answer or failure("timed out waiting for volumes to be bound")


# Where a pod's status says what its claims mean for the node's resources (KEP-5517).
#
# Up to Kubernetes 1.37 that is ``nodeAllocatableResourceClaimStatuses``. 1.38 renames the field and
# what names the claim in it; drafts have it in two forms. So nothing is assumed of such a server:
# its own description of its types (OpenAPI) tells which form it serves.


RENAMED_IN: Final = 38
BY_CLAIM_FIELD: Final = "nodeAllocatableResourceClaimStatuses"
BY_SOURCE_FIELD: Final = "additionalNodeAllocatableResources"
_GROUP: Final = "resource.k8s.io"
_KIND: Final = "ResourceClaim"
_POD_STATUS: Final = "io.k8s.api.core.v1.PodStatus"


class ClaimForm(Enum):
    """How an entry names its claim."""

    CLAIM_NAME = "resourceClaimName"
    SOURCE = "source"
    SOURCE_NAME = "sourceName"

    @property
    def field(self) -> str:
        """The field of the status that has such entries."""
        return BY_CLAIM_FIELD if self is ClaimForm.CLAIM_NAME else BY_SOURCE_FIELD

    def entries(
        self, resources: Sequence[NodeAllocatableResourceClaimStatus]
    ) -> list[dict[str, Any]]:
        """Return *resources* as entries of this form."""
        return [self._entry(msgspec.to_builtins(resource)) for resource in resources]

    def _entry(self, tree: dict[str, Any]) -> dict[str, Any]:
        if self is ClaimForm.CLAIM_NAME:
            return tree
        name = tree.pop("resourceClaimName")
        if self is ClaimForm.SOURCE_NAME:
            return {"sourceKind": _KIND, "sourceName": name, **tree}
        return {"source": {"apiGroup": _GROUP, "kind": _KIND, "name": name}, **tree}


async def served_form(client: Client, minor: int) -> ClaimForm:
    """Return the form that the API server of Kubernetes 1.*minor* serves.

    Raises:
        NumakubeError: it cannot be asked, or serves none that is known.
    """
    if minor < RENAMED_IN:
        return ClaimForm.CLAIM_NAME
    answer = await client.request(Request(method="GET", path="/openapi/v3/api/v1"))
    return form_in(msgspec.json.decode(answer.body))


def form_in(document: Mapping[str, Any]) -> ClaimForm:
    """Return the form that the OpenAPI *document* of the core group describes."""
    schemas = document.get("components", {}).get("schemas", {})
    status = schemas.get(_POD_STATUS, {}).get("properties", {})
    entry = _entry_type(schemas, status.get(BY_SOURCE_FIELD, {}))
    for form in (ClaimForm.SOURCE, ClaimForm.SOURCE_NAME):
        if form.value in entry:
            return form
    if BY_CLAIM_FIELD in status:
        return ClaimForm.CLAIM_NAME
    raise NumakubeError(
        "the API server serves no field of a pod's status that says what claims mean for the "
        f"node's resources: neither {BY_SOURCE_FIELD}, in a form that is known, nor "
        f"{BY_CLAIM_FIELD}; turn the gate DRANodeAllocatableResources off, or upgrade numakube"
    )


def _entry_type(schemas: Mapping[str, Any], field: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of the entries of a list."""
    items = field.get("items", {})
    reference = next(
        (entry["$ref"] for entry in (items, *items.get("allOf", ())) if "$ref" in entry), ""
    )
    entry: Mapping[str, Any] = schemas.get(reference.rpartition("/")[2], {}).get("properties", {})
    return entry


# Writing claims at the API server, for the plugin DynamicResources.
#
# Changes are patches of what changed, so fields that we do not know stay as they are. They carry
# the ``resourceVersion`` that the decision was made on.


_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class ApiClaimActions:
    """`claim_actions.ClaimActions` on an API server."""

    def __init__(self, client: Client, recorder: EventRecorder, *, minor: int = LATEST) -> None:
        """Write with *client*, to an API server of Kubernetes 1.*minor*."""
        self._client = client
        self._minor = minor
        self._form: ClaimForm | None = None
        self._recorder = recorder
        self._claims = ChangeSignal(client.clock)
        self._tasks: set[asyncio.Task[None]] = set()

    def claims_changed(self) -> None:
        """Say that a claim has changed."""
        self._claims.send()

    async def get(self, claim: ResourceClaim) -> ResourceClaim:
        """Return the claim with that name as the server has it."""
        meta = claim.metadata
        return await self._client.get(RESOURCE_CLAIMS, meta.name, namespace=meta.namespace)

    async def create(self, claim: ResourceClaim) -> ResourceClaim:
        """Create *claim*; its name is generated."""
        meta = claim.metadata
        bare = msgspec.structs.replace(meta, name="", uid="", resource_version="", finalizers=())
        document = {
            "apiVersion": claim.api_version,
            "kind": claim.kind,
            "metadata": msgspec.to_builtins(bare),
            "spec": msgspec.to_builtins(claim.spec),
        }
        return await self._client.create(RESOURCE_CLAIMS, document, namespace=meta.namespace)

    async def set_finalizers(self, claim: ResourceClaim) -> ResourceClaim:
        """Write the finalizers of *claim*."""
        change = {"finalizers": list(claim.metadata.finalizers)}
        return await self._patched(claim, {"metadata": change})

    async def set_status(self, claim: ResourceClaim, *, allocation: bool) -> ResourceClaim:
        """Write the reservations of *claim*, and with *allocation* what is allocated."""
        status = claim.status
        change: dict[str, Any] = {"reservedFor": msgspec.to_builtins(status.reserved_for) or None}
        if allocation:
            change["allocation"] = msgspec.to_builtins(status.allocation)
            if status.allocation is None:
                change["devices"] = None
        return await self._patched(claim, {"metadata": {}, "status": change}, "status")

    async def _patched(
        self, claim: ResourceClaim, change: dict[str, Any], subresource: str = ""
    ) -> ResourceClaim:
        meta = claim.metadata
        change["metadata"] |= {"resourceVersion": meta.resource_version, "uid": meta.uid}
        try:
            return await self._client.patch(
                RESOURCE_CLAIMS,
                meta.name,
                merge_patch(change),
                namespace=meta.namespace,
                subresource=subresource,
            )
        except Conflict as error:
            raise ClaimConflict(str(error)) from None

    async def delete(self, claim: ResourceClaim) -> None:
        """Delete *claim*; one that is gone already is fine."""
        meta = claim.metadata
        try:
            await self._client.delete(
                RESOURCE_CLAIMS, meta.name, namespace=meta.namespace, uid=meta.uid
            )
        except (NotFound, Conflict):
            return

    async def drop_reservation(self, claim: ResourceClaim, pod: Pod) -> None:
        """Take *pod* off the reservations of *claim*, whatever version it has."""
        meta = claim.metadata
        change = {
            "metadata": {"uid": meta.uid},
            "status": {"reservedFor": [{"$patch": "delete", "uid": pod.metadata.uid}]},
        }
        await self._client.patch(
            RESOURCE_CLAIMS,
            meta.name,
            strategic_patch(change),
            namespace=meta.namespace,
            subresource="status",
        )

    async def set_pod_status(self, pod: Pod, status: PodStatus) -> None:
        """Write what *status* says of claims for extended and node-allocatable resources."""
        extended = status.extended_resource_claim_status
        resources = status.node_allocatable_resource_claim_statuses
        change: dict[str, Any] = {}
        if extended is not None:
            change["extendedResourceClaimStatus"] = msgspec.to_builtins(extended)
        if resources or extended is None:
            if self._form is None:
                self._form = await served_form(self._client, self._minor)
            change[self._form.field] = self._form.entries(resources)
        meta = pod.metadata
        await self._client.patch(
            PODS,
            meta.name,
            merge_patch({"metadata": {"uid": meta.uid}, "status": change}),
            namespace=meta.namespace,
            subresource="status",
        )

    async def until(
        self, done: Callable[[], Status | None], *, timeout_seconds: float
    ) -> Status | None:
        """Ask *done*, now and whenever claims change, until it gives an answer."""
        return await self._claims.until(done, timeout_seconds=timeout_seconds)

    def later(self, work: Coroutine[object, object, None]) -> None:
        """Do *work* beside the scheduling loop."""
        task = asyncio.get_running_loop().create_task(_logged(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait for work that is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def abandon(self) -> None:
        """Give up what is still under way; the next scheduler finds what it leaves half done."""
        for task in self._tasks:
            task.cancel()
        await self.finish()

    def now(self) -> datetime:
        """Return the time, in UTC."""
        return self._client.clock.now()

    def cpu_seconds(self) -> float:
        """Return how long the processor has worked for this thread."""
        return time.thread_time()

    def new_id(self) -> str:
        """Return a random UUID."""
        return str(uuid4())

    def note(self, pod: Pod, reason: str, message: str) -> None:
        """Record an event of *pod*."""
        self._recorder.normal(reference_to(PODS, pod), reason, message, action="Scheduling")


async def _logged(work: Coroutine[object, object, None]) -> None:
    try:
        await work
    except NumakubeError as error:
        _log.warning("claim_not_written", error=str(error))
