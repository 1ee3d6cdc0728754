"""What users see of decisions: events, and conditions of pods and of their groups.

Conditions are written in the background, the newest per pod only, so that ten thousand refused pods
neither block the loop nor flood the server. What a pod was told before is brought up to date at a
limited rate: with every change in the cluster the numbers in all those texts change. Texts and
reasons are kube-scheduler's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from numakube.api.meta import ObjectReference
from numakube.api.pod_groups import INITIALLY_SCHEDULED
from numakube.apps.watched_kinds import POD_GROUPS, located
from numakube.errors import ApiError, NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.client import strategic_patch
from numakube.kube.clock import TokenBucket
from numakube.kube.event_recorder import reference_to
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.pod_groups import PodGroup
    from numakube.apps.cluster_mirror import Mirror
    from numakube.kube.client import Client
    from numakube.kube.clock import Clock
    from numakube.kube.event_recorder import EventRecorder
    from numakube.kube.resource_types import ObjectKey
    from numakube.scheduling.plugins.node_shards import NodeShards
    from numakube.scheduling.snapshot.pods import PodInfo


# What Kubernetes' own PodGroup says of its gang: the condition ``PodGroupInitiallyScheduled``.
#
# As kube-scheduler 1.37 writes it (KEP-4671): true with the reason ``Scheduled`` as soon as enough
# members have a place and are being bound, else false with ``Unschedulable`` or ``SchedulerError``.
# Once true it stays true, whatever becomes of the members: controllers such as that of Jobs wait
# for it. Only the newest of each group is written, one group at a time, and only what changes.


SCHEDULED: Final = "Scheduled"
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULER_ERROR: Final = "SchedulerError"
RETRY_SECONDS: Final = 1.0
_LONGEST_MESSAGE: Final = 32_768
"""What the API server takes."""
_REMEMBERED: Final = 10_000
"""Groups of which it is known what they were told last."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class _WantedCondition(NamedTuple):
    """What a group is to say."""

    group: PodGroup
    reason: str
    message: str

    @property
    def status(self) -> str:
        return str(self.reason == SCHEDULED)


class GroupConditions:
    """Writes the conditions of groups; `run` it in a task of its own."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._wanted: dict[str, _WantedCondition] = {}
        self._told: dict[str, tuple[str, str, str]] = {}
        self._changed = asyncio.Event()

    def decided(self, group: PodGroup, reason: str, message: str) -> None:
        """Let *group* say what came of the last attempt."""
        wanted = _WantedCondition(group, reason, message[:_LONGEST_MESSAGE])
        uid, found = group.metadata.uid, group.condition(INITIALLY_SCHEDULED)
        seen = (found.status, found.reason, found.message) if found else ("", "", "")
        # What was told last may not be in the object yet that the decision was made on.
        told = self._told.get(uid, seen)
        says = wanted.status, reason, wanted.message
        if "True" in (seen[0], told[0]) or told == says:
            return
        self._told[uid] = says
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        self._wanted[uid] = wanted
        self._changed.set()

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            while not self._wanted:
                self._changed.clear()
                await self._changed.wait()
            uid, wanted = next(iter(self._wanted.items()))
            del self._wanted[uid]
            if not await self._write(wanted):
                self._wanted.setdefault(uid, wanted)
                await self._client.clock.sleep(RETRY_SECONDS)

    async def _write(self, wanted: _WantedCondition) -> bool:
        """Write a condition; tell whether there is nothing more to do about it."""
        meta = wanted.group.metadata
        condition = self._condition(wanted)
        change = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                (await located(self._client, POD_GROUPS)).raw,
                meta.name,
                strategic_patch(change),
                namespace=meta.namespace,
                subresource="status",
            )
        except NumakubeError as error:
            refused = isinstance(error, ApiError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
            if not isinstance(error, NotFound):
                _log.warning("group_condition_not_written", group=meta.key, error=str(error))
            return refused
        return True

    def _condition(self, wanted: _WantedCondition) -> dict[str, Any]:
        group = wanted.group
        found = group.condition(INITIALLY_SCHEDULED)
        same = found is not None and found.status == wanted.status
        now = format_time(self._client.clock.now())
        return {
            "type": INITIALLY_SCHEDULED,
            "status": wanted.status,
            "reason": wanted.reason,
            "message": wanted.message,
            "observedGeneration": group.metadata.generation,
            "lastTransitionTime": found.last_transition_time if found and same else now,
        }


WRITERS: Final = 8
"""Status patches under way at once."""
REWRITES_PER_SECOND: Final = 25.0
"""Refusals brought up to date, each by a patch and an event: kube-scheduler's 50 requests."""
REWRITES_AT_ONCE: Final = 100
"""How long a writer rests when the server is in trouble."""


@dataclass(slots=True)
class _Wanted:
    """What a pod's status is to say."""

    pod: PodInfo
    status: dict[str, Any] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class _Refusal(NamedTuple):
    """What users are to see on a pod."""

    pod: PodInfo
    message: str
    reason: str


class Outcomes:
    """Tells users what became of pods; `run` it in a task of its own."""

    def __init__(self, client: Client, recorder: EventRecorder, shards: NodeShards) -> None:
        self._client = client
        self._shards = shards
        self._recorder = recorder
        self._wanted: dict[str, _Wanted] = {}
        self._writing: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Event()
        self._rewrites: dict[str, _Refusal] = {}
        self._rewritten = asyncio.Event()
        self._groups = GroupConditions(client)
        self._budget = TokenBucket(
            rate=REWRITES_PER_SECOND, burst=REWRITES_AT_ONCE, clock=client.clock
        )

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Say that *pod* was bound."""
        text = f"Successfully assigned {pod.key} to {node}"
        self._recorder.normal(reference_to(PODS, pod.pod), "Scheduled", text, action="Binding")
        self.forget(pod.uid)

    def refused(
        self, pod: PodInfo, message: str, *, reason: str = UNSCHEDULABLE, again: bool = False
    ) -> None:
        """Say that *pod* fits nowhere, and why.

        Args:
            pod: the pod.
            message: why.
            reason: the same in a word.
            again: whether it was told something before, which can stand a while longer.
        """
        refusal = _Refusal(pod, message, reason)
        if again:
            self._rewrites[pod.uid] = refusal
            self._rewritten.set()
        else:
            self._refuse(refusal)

    def forget(self, uid: str) -> None:
        """Say nothing more about a pod."""
        self._wanted.pop(uid, None)
        self._rewrites.pop(uid, None)

    def _refuse(self, refusal: _Refusal) -> None:
        pod, message, reason = refusal
        about = reference_to(PODS, pod.pod)
        self._recorder.warning(about, "FailedScheduling", message, action="Scheduling")
        now = format_time(self._client.clock.now())
        wanted = self._want(pod)
        wanted.status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
            }
        ]
        if reason == UNSCHEDULABLE:
            wanted.annotations = self._shards.marks(pod)

    def nominated(self, pod: PodInfo, node: str) -> None:
        """Say on which node room is being made; the empty name takes it back."""
        self._want(pod).status["nominatedNodeName"] = node or None

    def group_decided(self, group: PodGroup, reason: str, message: str) -> None:
        """Let Kubernetes' own *group* say what came of the last attempt to place its pods."""
        self._groups.decided(group, reason, message)

    def gang_released(self, pod: PodInfo, gang: str, needed: int) -> None:
        """Say that *pod* is evicted because too few of its gang run."""
        text = f"Fewer than {needed} pods of gang {gang} have been running for too long"
        about = reference_to(PODS, pod.pod)
        self._recorder.warning(about, "GangIncomplete", text, action="Evicting")

    def preempted(self, victim: PodInfo, by: PodInfo, node: str) -> None:
        """Say that *victim* makes room."""
        text = f"Preempted by pod {by.uid} on node {node}"
        about = reference_to(PODS, victim.pod)
        self._recorder.normal(about, "Preempted", text, action="Preempting")

    async def withdraw(self, pod: PodInfo) -> None:
        """Say nothing more about a pod that is about to be bound.

        A refusal that is being written is waited for: it must not come after the binding, which
        sets the condition itself.
        """
        self.forget(pod.uid)
        written = self._writing.get(pod.uid)
        if written is not None:
            await written.wait()
            self.forget(pod.uid)

    async def run(self) -> None:
        """Write statuses until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write_all())
            group.create_task(self._bring_up_to_date())
            group.create_task(self._groups.run())

    async def _bring_up_to_date(self) -> None:
        """Tell pods again, the one that has waited longest first."""
        while True:
            while not self._rewrites:
                self._rewritten.clear()
                await self._rewritten.wait()
            await self._budget.take()
            if self._rewrites:
                self._refuse(self._rewrites.pop(next(iter(self._rewrites))))

    def _want(self, pod: PodInfo) -> _Wanted:
        wanted = self._wanted.setdefault(pod.uid, _Wanted(pod))
        wanted.pod = pod
        self._changed.set()
        return wanted

    async def _write_all(self) -> None:
        while True:
            while not self._wanted:
                self._changed.clear()
                await self._changed.wait()
            uid = next((one for one in self._wanted if one not in self._writing), None)
            if uid is None:
                await next(iter(self._writing.values())).wait()
                continue
            wanted, done = self._wanted.pop(uid), asyncio.Event()
            self._writing[uid] = done
            try:
                is_written = await self._write(wanted)
            finally:
                del self._writing[uid]
                done.set()
            if not is_written:
                newer = self._wanted.get(uid, wanted)
                status = {**wanted.status, **newer.status}
                marks = newer.annotations or wanted.annotations
                self._wanted[uid] = _Wanted(newer.pod, status, marks)
                await self._client.clock.sleep(RETRY_SECONDS)

    async def _write(self, wanted: _Wanted) -> bool:
        """Write a status; tell whether there is nothing more to do about it."""
        pod = wanted.pod
        metadata: dict[str, Any] = {"uid": pod.uid}
        if wanted.annotations:
            metadata["annotations"] = wanted.annotations
        change = {"metadata": metadata, "status": wanted.status}
        try:
            await self._client.patch(
                PODS,
                pod.name,
                strategic_patch(change),
                namespace=pod.namespace,
                subresource="status",
            )
        except NumakubeError as error:
            refused = isinstance(error, ApiError) and error.code < HTTPStatus.INTERNAL_SERVER_ERROR
            if not isinstance(error, NotFound):
                _log.warning("status_not_written", pod=pod.key, error=str(error))
            return refused
        return True


# Events about a scheduler that has no NodeResourceTopologies at all, and when it has them.
#
# They are about the scheduler's Lease, as the events of leader election are, and only the leader
# tells. A definition that is missing, or rights that are, leave every node without data; what is
# done about pods then is what the argument ``missingData`` says.


MISSING: Final = "TopologySourceMissing"
FOUND: Final = "TopologySourceFound"
REPEAT_SECONDS: Final = 600.0
"""How often trouble that lasts is told again; events are kept for an hour."""
_LOOK_SECONDS: Final = 0.5


class TopologySourceEvents:
    """Tells of trouble with the source of all reports."""

    def __init__(
        self,
        mirror: Mirror,
        clock: Clock,
        recorder: EventRecorder,
        *,
        lease: ObjectKey,
        leads: Callable[[], bool],
    ) -> None:
        self._mirror = mirror
        self._clock = clock
        self._recorder = recorder
        self._leads = leads
        self._about = ObjectReference(
            api_version="coordination.k8s.io/v1",
            kind="Lease",
            namespace=lease.namespace,
            name=lease.name,
        )
        self._told = ""
        self._told_at = 0.0

    async def run(self) -> None:
        """Look and tell until cancelled."""
        while True:
            if self._leads():
                self._look()
            await self._clock.sleep(_LOOK_SECONDS)

    def _look(self) -> None:
        trouble, now = self._mirror.topology_trouble(), self._clock.monotonic()
        if trouble and (trouble != self._told or now - self._told_at >= REPEAT_SECONDS):
            text = f"no NodeResourceTopology can be read, every node counts as unknown: {trouble}"
            self._recorder.warning(self._about, MISSING, text, action="Scheduling")
            self._told_at = now
        elif self._told and not trouble:
            text = "NodeResourceTopologies are read"
            self._recorder.normal(self._about, FOUND, text, action="Scheduling")
        self._told = trouble
