"""What users see of decisions: events, and the PodScheduled condition.

Conditions are written in the background, the newest per pod only, so that ten thousand refused pods
neither block the loop nor flood the server. Texts and reasons are kube-scheduler's.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import structlog

from numakube.errors import ApiError, NotFound, NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.events import reference_to
from numakube.kube.patches import strategic_patch
from numakube.values.times import format_time

if TYPE_CHECKING:
    from numakube.kube.client import Client
    from numakube.kube.events import EventRecorder
    from numakube.scheduling.snapshot.pods import PodInfo

WRITERS: Final = 8
"""Status patches under way at once."""
RETRY_SECONDS: Final = 1.0
"""How long a writer rests when the server is in trouble."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


@dataclass(slots=True)
class _Wanted:
    """What a pod's status is to say."""

    pod: PodInfo
    status: dict[str, Any] = field(default_factory=dict)


class Outcomes:
    """Tells users what became of pods; `run` it in a task of its own."""

    def __init__(self, client: Client, recorder: EventRecorder) -> None:
        self._client = client
        self._recorder = recorder
        self._wanted: dict[str, _Wanted] = {}
        self._writing: dict[str, asyncio.Event] = {}
        self._changed = asyncio.Event()

    def scheduled(self, pod: PodInfo, node: str) -> None:
        """Say that *pod* was bound."""
        text = f"Successfully assigned {pod.key} to {node}"
        self._recorder.normal(reference_to(PODS, pod.pod), "Scheduled", text, action="Binding")
        self._wanted.pop(pod.uid, None)

    def refused(self, pod: PodInfo, message: str, *, reason: str = "Unschedulable") -> None:
        """Say that *pod* fits nowhere, and why."""
        about = reference_to(PODS, pod.pod)
        self._recorder.warning(about, "FailedScheduling", message, action="Scheduling")
        now = format_time(self._client.clock.now())
        self._want(pod)["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": reason,
                "message": message,
                "lastTransitionTime": now,
            }
        ]

    def nominated(self, pod: PodInfo, node: str) -> None:
        """Say on which node room is being made; the empty name takes it back."""
        self._want(pod)["nominatedNodeName"] = node or None

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
        self._wanted.pop(pod.uid, None)
        written = self._writing.get(pod.uid)
        if written is not None:
            await written.wait()
            self._wanted.pop(pod.uid, None)

    async def run(self) -> None:
        """Write statuses until cancelled."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write_all())

    def _want(self, pod: PodInfo) -> dict[str, Any]:
        wanted = self._wanted.setdefault(pod.uid, _Wanted(pod))
        wanted.pod = pod
        self._changed.set()
        return wanted.status

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
                self._wanted[uid] = _Wanted(newer.pod, {**wanted.status, **newer.status})
                await self._client.clock.sleep(RETRY_SECONDS)

    async def _write(self, wanted: _Wanted) -> bool:
        """Write a status; tell whether there is nothing more to do about it."""
        pod = wanted.pod
        change = {"metadata": {"uid": pod.uid}, "status": wanted.status}
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
