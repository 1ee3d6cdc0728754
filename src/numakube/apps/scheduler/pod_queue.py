"""The scheduling queue with a clock, and a bell that ends the loop's rest."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numakube.kube.clock import Clock
    from numakube.scheduling.queue.queued_pod import QueuedPod
    from numakube.scheduling.queue.scheduling_queue import SchedulingQueue
    from numakube.scheduling.snapshot.pods import PodInfo


class PodQueue:
    """What waits for the loop: pods, and events that may help them.

    Attributes:
        waiting: the pods.
        leads: whether a loop works it off, rather than standing by.
    """

    def __init__(self, waiting: SchedulingQueue, clock: Clock) -> None:
        self.waiting = waiting
        self.leads = False
        self._clock = clock
        self._events: list[ClusterEvent] = []
        self._bell = asyncio.Event()

    def __contains__(self, uid: str) -> bool:
        return uid in self.waiting

    def add(self, pod: PodInfo) -> None:
        """Take in a new pod, or the new version of a waiting one."""
        self.waiting.add(pod, self._clock.monotonic())
        self._bell.set()

    def remove(self, uid: str) -> None:
        """Forget a pod: it was deleted, bound, or is no longer ours."""
        self.waiting.remove(uid)

    def pop(self) -> QueuedPod | None:
        """Return the pod to try now."""
        return self.waiting.pop(self._clock.monotonic())

    def failed(self, entry: QueuedPod, message: str = "", *, costly: bool = False) -> None:
        """Put back a pod whose attempt failed; it is tried again after a backoff."""
        self.waiting.failed(entry, self._clock.monotonic(), message=message, costly=costly)
        self._bell.set()

    def refused(self, entry: QueuedPod, refused_by: frozenset[str], message: str) -> None:
        """Put back a pod that fits nowhere; it waits for an event."""
        self.waiting.refused(entry, refused_by, self._clock.monotonic(), message=message)

    def activate(self, uid: str, why: str) -> None:
        """Let a pod be tried at once, whatever it waits for."""
        self.waiting.activate([uid], self._clock.monotonic(), why)
        self._bell.set()

    def happened(self, event: ClusterEvent) -> None:
        """Remember an event until the next cycle; a scheduler that stands by refused no pod yet."""
        if self.leads:
            self._events.append(event)
            self._bell.set()

    def recheck_gates(self) -> None:
        """Ask again about pods that must not be tried: what held them back is over."""
        self._events.append(ClusterEvent(kind=EventKind.OTHER))
        self.waiting.recheck_gates(self._clock.monotonic())

    def ask_gates(self, opener: Hashable) -> None:
        """Ask again about pods that must not be tried and that *opener* may help."""
        self.waiting.recheck_gates(self._clock.monotonic(), opener)
        self._bell.set()

    def handle_events(self) -> int:
        """Wake the pods that the events since the last call may help; return how many."""
        if not self._events:
            return 0
        events, self._events = self._events, []
        return self.waiting.handle(events, self._clock.monotonic())

    async def rest(self, until: float | None = None) -> None:
        """Wait for a pod, for an event, for the end of a backoff, or *until* a time."""
        self._bell.clear()
        times = [one for one in (self.waiting.next_wakeup(), until) if one]
        if not times:
            await self._bell.wait()
            return
        try:
            async with self._clock.timeout(max(min(times) - self._clock.monotonic(), 0.001)):
                await self._bell.wait()
        except TimeoutError:
            pass
