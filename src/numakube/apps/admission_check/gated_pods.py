"""Pods that carry our scheduling gate, for clusters without Kueue.

A pod with the gate `GATE` is not scheduled. Pods of one group (see `pod_gangs`) lose their gates
together, when all of them fit; a pod without a group when it fits itself. The patch that removes
the gate adds the annotation by which the pod takes the place that is kept for it. While they do not
fit, an event on the first of them says why.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from numakube.api.fit_question import HOLD, PodSet
from numakube.apps.admission_check.waiting_work import Work
from numakube.errors import Conflict, Invalid, NotFound
from numakube.kube.catalog import PODS
from numakube.kube.client import strategic_patch
from numakube.kube.event_recorder import reference_to
from numakube.kube.reflector import Reflector
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import gang_key
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.kube.client import Client
    from numakube.kube.event_recorder import EventRecorder

GATE: Final = "numakube.dev/fits"
_AT_ONCE: Final = 16

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class GatedPods:
    """A source of work."""

    name = "gate"
    gives_back = False

    def __init__(self, client: Client, recorder: EventRecorder, *, hold_seconds: float) -> None:
        self._client = client
        self._recorder = recorder
        self._hold_seconds = hold_seconds
        self._pods: Reflector[Pod] = Reflector(client, PODS, fields="spec.nodeName=")
        self._known: dict[str, list[Pod]] = {}
        self._told: dict[str, str] = {}

    def reflectors(self) -> list[Reflector[Any]]:
        """Return what has to run."""
        return [self._pods]

    async def work(self) -> list[Work]:
        """Return the groups of pods that wait for us."""
        self._known = {}
        for pod in self._pods.store:
            if is_gated(pod):
                self._known.setdefault(group_of(pod), []).append(pod)
        self._told = {hold: text for hold, text in self._told.items() if hold in self._known}
        return [self._work_of(hold, pods) for hold, pods in self._known.items()]

    async def admit(self, work: Work) -> None:
        """Let pods be scheduled."""
        limit = asyncio.Semaphore(_AT_ONCE)
        pods = self._known[work.hold]
        await asyncio.gather(*(self._open(pod, limit) for pod in pods))
        _log.info("gates_removed", group=work.hold, pods=len(pods))

    async def refuse(self, work: Work, reason: str) -> None:
        """Say why pods have to wait, if that was not said before."""
        if self._told.get(work.hold) == reason:
            return
        self._told[work.hold] = reason
        first = min(self._known[work.hold], key=lambda one: one.metadata.name)
        about = reference_to(PODS, first)
        self._recorder.warning(about, "DoesNotFit", reason, action="KeepingGate")

    def _work_of(self, hold: str, pods: list[Pod]) -> Work:
        return Work(
            hold=hold,
            pods=tuple(PodSet(pod=as_asked(one)) for one in pods),
            gang=len(pods) > 1 or gang_key(PodInfo(pods[0])) is not None,
            priority=max(one.spec.priority or 0 for one in pods),
            since=min(one.metadata.creation_timestamp or "" for one in pods),
            seconds=self._hold_seconds,
        )

    async def _open(self, pod: Pod, limit: asyncio.Semaphore) -> None:
        """Remove the gate, unless the pod is gone meanwhile."""
        meta = pod.metadata
        change = {
            "metadata": {"uid": meta.uid, "annotations": {HOLD: meta.uid}},
            "spec": {"schedulingGates": [{"$patch": "delete", "name": GATE}]},
        }
        async with limit:
            try:
                patch = strategic_patch(change)
                await self._client.patch(PODS, meta.name, patch, namespace=meta.namespace)
            except (Conflict, Invalid, NotFound) as error:
                _log.info("gate_not_removed", pod=meta.key, error=str(error))


def is_gated(pod: Pod) -> bool:
    """Tell whether *pod* waits for us."""
    gates = (one.name for one in pod.spec.scheduling_gates)
    return GATE in gates and pod.metadata.deletion_timestamp is None


def group_of(pod: Pod) -> str:
    """Return the name of the hold for *pod* and all that wait with it."""
    key = gang_key(PodInfo(pod))
    return "/".join(("pods", *key)) if key is not None else f"pod/{pod.metadata.uid}"


def as_asked(pod: Pod) -> Pod:
    """Return *pod* with the annotation that it gets when it is let in."""
    annotations = {**pod.metadata.annotations, HOLD: pod.metadata.uid}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata, status=None)
