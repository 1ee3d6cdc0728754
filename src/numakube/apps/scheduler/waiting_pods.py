"""Pods that a permit plugin holds back before they are bound.

A plugin that answers `Code.WAIT` keeps the pod's reservation until it allows the pod, rejects it,
or its time is over. It finds the pods that wait under the service `WAITING_PODS` of its handle.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from numakube.scheduling.framework.registry import Service
from numakube.scheduling.framework.status import SUCCESS, Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.kube.clock import Clock
    from numakube.scheduling.snapshot.pods import PodInfo

WAITING_PODS: Final = Service["WaitingPods"]("waiting-pods")


class WaitingPods:
    """The pods that wait for permission, by uid."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._answers: dict[str, tuple[PodInfo, asyncio.Future[Status]]] = {}

    def __iter__(self) -> Iterator[PodInfo]:
        return iter([pod for pod, _ in self._answers.values()])

    def allow(self, uid: str) -> None:
        """Let a pod be bound; unknown ones are fine."""
        self._answer(uid, SUCCESS)

    def reject(self, uid: str, reason: str) -> None:
        """Send a pod back to the queue."""
        self._answer(uid, unschedulable(reason))

    async def answer(self, pod: PodInfo, seconds: float) -> Status:
        """Return what becomes of *pod*, which may wait for *seconds*."""
        future: asyncio.Future[Status] = asyncio.get_running_loop().create_future()
        self._answers[pod.uid] = (pod, future)
        try:
            async with self._clock.timeout(seconds):
                return await future
        except TimeoutError:
            return unschedulable(f"no permission within {seconds:g} s")
        finally:
            del self._answers[pod.uid]

    def _answer(self, uid: str, status: Status) -> None:
        waiting = self._answers.get(uid)
        if waiting is not None and not waiting[1].done():
            waiting[1].set_result(status)
