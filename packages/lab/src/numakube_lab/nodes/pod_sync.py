"""What a kubelet does about its pods: admit, run, report, end and remove them.

`PodKeeper.sync` brings one pod to where it should be and may be called at any time and as often as
one likes: it acts on the difference only. A keeper lives as long as its kubelet's process; what
must survive it is in the checkpoint files and in the API.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Final

import structlog

from numakube.api.checkpoints.allocated_pods_state import SINCE as ALLOCATED_SINCE
from numakube.api.meta import CoreEvent, EventSource, ObjectMeta, ObjectReference
from numakube.api.pod import ENDED_PHASES, has_ended
from numakube.dra import used_claims
from numakube.errors import Conflict, NotFound, NumakubeError
from numakube.kube import key_of, strategic_patch
from numakube.kube.catalog import CORE_EVENTS, PODS
from numakube.kubelet import DEFERRED
from numakube.values.times import format_time, parse_time
from numakube_lab.nodes.container_timeline import Stop, blocked, problems_of
from numakube_lab.nodes.node_cgroups import ModelAligner
from numakube_lab.nodes.pod_status import (
    PodPlace,
    has_resize_pending,
    is_written,
    observed_status,
    rejected_status,
    status_patch,
    with_resize_pending,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable
    from datetime import datetime

    from numakube.api.pod import Pod, PodStatus
    from numakube.kube import Client, ObjectKey, Store
    from numakube.kubelet import Rejected
    from numakube_lab.nodes.container_timeline import ContainerRuntime, PodRun
    from numakube_lab.nodes.dra_driver import ClaimedDevices
    from numakube_lab.nodes.kubelet_admission import KubeletAdmission
    from numakube_lab.nodes.node_cgroups import Aligner, NodeCgroups
    from numakube_lab.nodes.node_documents import NodeAddresses

COMPONENT: Final = "kubelet"
_CONFIG_ERROR: Final = "CreateContainerConfigError"
_CREATING: Final = "ContainerCreating"
# How soon the kubelet tries again to start a container that it could not start, or to resize a pod.
_RETRY: Final = timedelta(seconds=10)

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(slots=True, kw_only=True)
class _Record:
    """What the kubelet remembers of a pod it has decided about.

    Attributes:
        final: the status of its end; it is written again until the API shows it.
        prepared: its devices are ready for its containers.
        started: since when its containers run; ``None`` until it is known which of them have been
            running since before this process.
    """

    uid: str
    begun: datetime
    stop: Stop | None = None
    final: PodStatus | None = None
    prepared: bool = False
    started: dict[str, datetime] | None = None


class PodKeeper:
    """Looks after the pods of one node."""

    def __init__(
        self,
        node_name: str,
        admission: KubeletAdmission,
        *,
        client: Client,
        pods: Store[Pod],
        addresses: NodeAddresses,
        runtime: ContainerRuntime,
        step: Callable[[], Awaitable[None]],
        aligner: Aligner | None = None,
        cgroups: NodeCgroups | None = None,
        claims: ClaimedDevices | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """Prepare a keeper.

        Args:
            node_name: the node.
            admission: the book-keeping of this incarnation of the kubelet.
            client: where to write; its clock is used.
            pods: the pods of the cluster, or at least of this node.
            addresses: where pods' addresses come from.
            runtime: what runs the containers.
            step: lets the time pass that a step of an admission takes.
            aligner: what gives out resources, if not the model alone.
            cgroups: the node's control groups, if it has any.
            claims: what readies the devices of claims, if anything does.
            on_change: called after a change of what is held and before the API hears of it.
        """
        self._name = node_name
        self._admission = admission
        self._client = client
        self._pods = pods
        self._addresses = addresses
        self._runtime = runtime
        self._aligner = aligner or ModelAligner(admission)
        self._cgroups = cgroups
        self._claims = claims
        self._on_change = on_change
        self._records: dict[ObjectKey, _Record] = {}
        self._step = step

    async def sync(self, key: ObjectKey) -> datetime | None:
        """Bring a pod to where it should be; return when to look at it again."""
        pod = self._pods.get(key)
        record = self._records.get(key)
        if record is not None and (pod is None or pod.metadata.uid != record.uid):
            self._forget(key, record)
            record = None
        if pod is None or pod.spec.node_name != self._name:
            return None
        if has_ended(pod):
            await self._bury(pod)
            return None
        if record is None:
            if pod.metadata.deletion_timestamp and not _has_begun(pod):
                await self._remove(pod)
                return None
            record = await self._admit(pod)
        if record.final is not None:
            await self._write(pod, record.final)
            return None
        return await self._keep(pod, record)

    async def _admit(self, pod: Pod) -> _Record:
        """Decide whether *pod* may run here."""
        uid = pod.metadata.uid
        rejected = await self._align(pod) or self._admission.check(pod)
        record = _Record(uid=uid, begun=self._begun(pod), started=None if _has_begun(pod) else {})
        self._records[key_of(pod)] = record
        if rejected is None:
            self._admission.accept(pod)
        else:
            self._admission.release(uid)
            record.final = rejected_status(pod, rejected, now=self._client.clock.now())
        self._on_change()
        if rejected is not None:
            _log.info("pod_rejected", node=self._name, pod=str(key_of(pod)), reason=rejected.reason)
            await self._record_event(pod, rejected.reason, rejected.message)
        for problem in problems_of(pod):
            await self._record_event(pod, "InvalidLabAnnotation", problem)
        return record

    async def _align(self, pod: Pod) -> Rejected | None:
        """Give *pod* its resources in steps that others can see, as the kubelet does.

        First it is listed with nothing; then it holds everything, but is not noted as admitted.
        """
        self._admission.arrive(pod)
        await self._step()
        rejected = await self._aligner.align(pod)
        if rejected is None:
            self._on_change()
            await self._step()
        return rejected

    async def _keep(self, pod: Pod, record: _Record) -> datetime | None:
        """Report how an admitted pod is doing, and end it when it is time."""
        now = self._client.clock.now()
        refused = self._admission.update(pod)
        await self._tell_of_resize(pod, refused)
        record.stop = _stop_of(pod, record.stop, now=now)
        run = await self._run(pod, record, now=now)
        self._note_starts(record, run)
        if self._cgroups is not None:
            self._cgroups.show(self._admission.allocated_to(pod), run, self._admission.model)
        status = self._status(pod, run, record, now=now)
        if refused is not None:
            status = with_resize_pending(pod, status, refused, now=now)
        ends = status.phase in ENDED_PHASES
        if (ends or (record.stop is not None and run.stopped)) and self._claims is not None:
            # Before the pod is said to have ended: who reads that gives its devices to others.
            trouble = await self._claims.release(pod.metadata.uid)
            if trouble is not None:
                _log.warning("claims_not_released", node=self._name, error=trouble)
                return now + _RETRY
        if ends:
            record.final = status
            self._release(pod)
        if not is_written(pod, status):
            await self._write(pod, status)
        if record.stop is not None and run.stopped:
            self._release(pod)
            await self._remove(pod)
            return None
        return _next_look(run.next_change, refused, now)

    def _status(self, pod: Pod, run: PodRun, record: _Record, *, now: datetime) -> PodStatus:
        tells = self._admission.model.behaviour.version >= ALLOCATED_SINCE
        return observed_status(
            pod,
            run,
            place=self._place(pod),
            begun=record.begun,
            now=now,
            allocated=self._admission.allocated_to(pod) if tells else None,
        )

    async def _tell_of_resize(self, pod: Pod, refused: Rejected | None) -> None:
        """Write an event when a resize is refused, or refused for another reason."""
        if refused is not None and not has_resize_pending(pod, refused):
            text = f"Pod resize {refused.reason}: {refused.message}"
            await self._record_event(pod, f"Resize{refused.reason}", text)

    async def _run(self, pod: Pod, record: _Record, *, now: datetime) -> PodRun:
        """Return how the containers are doing; none starts before its devices are ready."""
        run = self._runtime.observe(pod, begun=record.begun, now=now, stop=record.stop)
        if record.prepared or run.stopped or record.stop is not None:
            return run
        if _started(run) and self._claims is not None and self._claims.knows(pod.metadata.uid):
            # A kubelet that starts again finds the sandbox, and prepares nothing for it.
            record.prepared = True
            return run
        trouble = await self._aligner.prepare(pod)
        if trouble is not None:
            return blocked(run, _CONFIG_ERROR, trouble, again=now + _RETRY)
        trouble = await self._prepare_claims(pod)
        if trouble is not None:
            await self._record_event(pod, "FailedPrepareDynamicResources", trouble)
            return blocked(run, _CREATING, "", again=now + _RETRY)
        record.prepared = True
        return run

    async def _prepare_claims(self, pod: Pod) -> str | None:
        """Have the devices of the pod's claims readied; return what went wrong, if anything."""
        if self._claims is None or not used_claims(pod):
            return None
        trouble = await self._claims.prepare(pod)
        if trouble is None:
            self._on_change()
            return None
        return f"Failed to prepare dynamic resources: {trouble}"

    def running(self, pods: Iterable[Pod]) -> set[tuple[str, str]]:
        """Return the containers of *pods* that run, by uid and name: they do without a kubelet."""
        now = self._client.clock.now()
        return {
            (pod.metadata.uid, name)
            for pod in pods
            if _has_begun(pod) and not has_ended(pod)
            for name in _started(
                self._runtime.observe(pod, begun=self._begun(pod), now=now, stop=None)
            )
        }

    def _note_starts(self, record: _Record, run: PodRun) -> None:
        """Tell the managers of containers that have started since the last look."""
        before, record.started = record.started, _started(run)
        if before is None:
            return
        freed = [
            self._admission.start_container(record.uid, name)
            for name, when in record.started.items()
            if before.get(name) != when
        ]
        if any(freed):
            self._on_change()

    async def _bury(self, pod: Pod) -> None:
        """Free what a pod held that has come to its end, and let the API forget it if asked to."""
        if self._admission.is_active(pod.metadata.uid):
            self._release(pod)
        self._addresses.release(pod.metadata.uid)
        if pod.metadata.deletion_timestamp and pod.metadata.deletion_grace_period_seconds != 0:
            await self._remove(pod)

    def _forget(self, key: ObjectKey, record: _Record) -> None:
        """Drop a pod that the API does not have any more."""
        del self._records[key]
        self._runtime.forget(record.uid)
        self._aligner.forget(record.uid)
        if self._claims is not None:
            self._claims.forget(record.uid)
        self._addresses.release(record.uid)
        self._remove_groups(record.uid)
        if self._admission.is_active(record.uid):
            self._admission.release(record.uid)
            self._on_change()

    def _remove_groups(self, uid: str) -> None:
        if self._cgroups is not None:
            self._cgroups.remove(uid)

    def _release(self, pod: Pod) -> None:
        self._remove_groups(pod.metadata.uid)
        self._admission.release(pod.metadata.uid)
        self._on_change()

    def _begun(self, pod: Pod) -> datetime:
        """Return when the pod began: now, or before this process did."""
        started = pod.status.start_time if pod.status else None
        return parse_time(started) if started else self._client.clock.now()

    def _place(self, pod: Pod) -> PodPlace:
        host = self._addresses.host
        if pod.spec.host_network:
            return PodPlace(host_ip=host, pod_ip=host)
        wanted = pod.status.pod_ip if pod.status else ""
        return PodPlace(host_ip=host, pod_ip=self._addresses.pod(pod.metadata.uid, wanted=wanted))

    async def _write(self, pod: Pod, status: PodStatus) -> None:
        patch = strategic_patch(status_patch(pod, status))
        name, namespace = pod.metadata.name, pod.metadata.namespace
        try:
            await self._client.patch(PODS, name, patch, namespace=namespace, subresource="status")
        except (NotFound, Conflict):
            # It is gone, or another pod has its name: the store will tell.
            _log.debug("status_not_written", node=self._name, pod=f"{namespace}/{name}")

    async def _remove(self, pod: Pod) -> None:
        """Delete a pod that has been asked to go and has gone."""
        metadata = pod.metadata
        try:
            await self._client.delete(
                PODS, metadata.name, namespace=metadata.namespace, grace_seconds=0, uid=metadata.uid
            )
        except (NotFound, Conflict):
            _log.debug("pod_already_gone", node=self._name, pod=metadata.key)

    async def _record_event(self, pod: Pod, reason: str, message: str) -> None:
        """Write a warning about *pod*; a failure to do so must not stop anything."""
        metadata = pod.metadata
        now = format_time(self._client.clock.now())
        event = CoreEvent(
            metadata=ObjectMeta(
                name=f"{metadata.name}.{self._client.rng.getrandbits(64):016x}",
                namespace=metadata.namespace,
            ),
            involved_object=ObjectReference(
                kind="Pod",
                namespace=metadata.namespace,
                name=metadata.name,
                uid=metadata.uid,
                api_version="v1",
                resource_version=metadata.resource_version,
            ),
            reason=reason,
            message=message,
            type="Warning",
            source=EventSource(component=COMPONENT, host=self._name),
            first_timestamp=now,
            last_timestamp=now,
            count=1,
            reporting_component=COMPONENT,
            reporting_instance=self._name,
        )
        try:
            await self._client.create(CORE_EVENTS, event)
        except NumakubeError as error:
            _log.warning("event_not_written", node=self._name, error=str(error))


def _started(run: PodRun) -> dict[str, datetime]:
    """Return the containers that run, with the moments since when."""
    containers = (*run.init.items(), *run.containers.items())
    return {name: one.started for name, one in containers if one.started is not None}


def _has_begun(pod: Pod) -> bool:
    """Tell whether a kubelet has admitted *pod* before."""
    return pod.status is not None and pod.status.start_time is not None


def _next_look(
    next_change: datetime | None, refused: Rejected | None, now: datetime
) -> datetime | None:
    """Return when to look again; kubelets try a deferred resize again, as pods end meanwhile."""
    if refused is None or refused.reason != DEFERRED:
        return next_change
    return min(now + _RETRY, next_change or now + _RETRY)


def _stop_of(pod: Pod, known: Stop | None, *, now: datetime) -> Stop | None:
    """Return the order to stop *pod*; its grace period may be shortened later."""
    metadata = pod.metadata
    if metadata.deletion_timestamp is None:
        return None
    grace = float(metadata.deletion_grace_period_seconds or 0)
    if known is None:
        return Stop(since=now, grace_seconds=grace)
    return replace(known, grace_seconds=grace)
