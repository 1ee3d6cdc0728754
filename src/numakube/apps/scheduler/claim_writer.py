"""Writing claims at the API server, for the plugin DynamicResources.

Changes are patches of what changed, so fields that we do not know stay as they are. They carry the
``resourceVersion`` that the decision was made on.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import msgspec
import structlog

from numakube.apps.scheduler.change_signal import ChangeSignal
from numakube.apps.scheduler.node_resource_status import served_form
from numakube.apps.watched_kinds import RESOURCE_CLAIMS
from numakube.dra.features import LATEST
from numakube.errors import Conflict, NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.client import merge_patch, strategic_patch
from numakube.kube.event_recorder import reference_to
from numakube.scheduling.plugins.dynamic_resources.claim_actions import ClaimConflict

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from datetime import datetime

    from numakube.api.pod import Pod, PodStatus
    from numakube.api.resource_claims import ResourceClaim
    from numakube.apps.scheduler.node_resource_status import Form
    from numakube.kube.client import Client
    from numakube.kube.event_recorder import EventRecorder
    from numakube.scheduling.framework.status import Status

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class ApiClaimActions:
    """`claim_actions.ClaimActions` on an API server."""

    def __init__(self, client: Client, recorder: EventRecorder, *, minor: int = LATEST) -> None:
        """Write with *client*, to an API server of Kubernetes 1.*minor*."""
        self._client = client
        self._minor = minor
        self._form: Form | None = None
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
