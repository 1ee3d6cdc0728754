"""A queue of keys to look after, as controllers need it.

A key is in the queue at most once, and never with two workers at a time: one that is added while it
is being worked on comes again afterwards. What failed comes back after a pause that doubles with
each failure (5 ms to 1,000 s, client-go's figures). The queue holds keys, not objects: a worker
reads the current state from a store, so that many changes are one piece of work.

    queue: WorkQueue[ObjectKey] = WorkQueue(clock=clock)
    store.subscribe(lambda change: queue.add(key_of(change.object)))
    await run_workers(queue, reconcile, workers=4)
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

import structlog

from numakube.kube.clock import growing

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from numakube.kube.clock import Clock

K = TypeVar("K", bound="Hashable")

BASE_SECONDS = 0.005
CAP_SECONDS = 1000.0

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class WorkQueue(Generic[K]):
    """Keys that wait to be worked on."""

    def __init__(
        self,
        *,
        clock: Clock,
        base: float = BASE_SECONDS,
        cap: float = CAP_SECONDS,
        on_add: Callable[[K], None] = lambda _: None,
    ) -> None:
        """Prepare an empty queue.

        Args:
            clock: for pauses.
            base: the first pause after a failure in seconds.
            cap: the longest one.
            on_add: told of every key that comes to need work.
        """
        self._clock = clock
        self._on_add = on_add
        self._base = base
        self._cap = cap
        self._ready: deque[K] = deque()
        # Keys that need work: those in _ready, and those added while being worked on.
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._delayed: list[tuple[float, int, K]] = []
        self._due: dict[K, float] = {}
        self._failures: dict[K, int] = {}
        self._sequence = itertools.count()
        self._closed = False
        self._idle: deque[asyncio.Future[None]] = deque()
        self._drained = asyncio.Event()

    def __len__(self) -> int:
        """Return how many keys are ready to be worked on."""
        self._release_due()
        return len(self._ready)

    def add(self, key: K) -> None:
        """Have *key* worked on as soon as possible."""
        if self._closed or key in self._dirty:
            return
        self._dirty.add(key)
        self._on_add(key)
        if key not in self._working:
            self._put(key)

    def add_after(self, key: K, seconds: float) -> None:
        """Have *key* worked on in *seconds*; of several such wishes the earliest counts."""
        if seconds <= 0:
            self.add(key)
            return
        due = self._clock.monotonic() + seconds
        if self._closed or self._due.get(key, due + 1.0) <= due:
            return
        self._due[key] = due
        heapq.heappush(self._delayed, (due, next(self._sequence), key))
        self._wake_one()

    def add_rate_limited(self, key: K) -> None:
        """Have *key* worked on again after a failure; the pause grows with each one."""
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        self.add_after(key, growing(failures, base=self._base, cap=self._cap))

    def forget(self, key: K) -> None:
        """Reset the pauses of *key*, after a success."""
        self._failures.pop(key, None)

    def failures(self, key: K) -> int:
        """Return how often *key* has failed since it was forgotten."""
        return self._failures.get(key, 0)

    async def get(self) -> K | None:
        """Return the next key to work on, or None when the queue has shut down.

        Call `done` with it afterwards, whatever happened.
        """
        while True:
            self._release_due()
            if self._ready:
                key = self._ready.popleft()
                self._dirty.discard(key)
                self._working.add(key)
                return key
            if self._closed:
                return None
            await self._change_or_due()

    def done(self, key: K) -> None:
        """Say that work on *key* has ended; if it was added meanwhile, it comes again."""
        self._working.discard(key)
        if key in self._dirty:
            self._put(key)
        elif not self._ready and not self._working:
            self._drained.set()

    def shut_down(self) -> None:
        """Take no more keys; what is ready is still handed out, what is delayed is dropped."""
        self._closed = True
        self._delayed.clear()
        self._due.clear()
        while self._idle:
            self._wake_one()

    async def drained(self) -> None:
        """Return as soon as nothing is ready and nothing is being worked on."""
        while self._ready or self._working:
            self._drained.clear()
            await self._drained.wait()

    def _put(self, key: K) -> None:
        self._ready.append(key)
        self._wake_one()

    def _release_due(self) -> None:
        now = self._clock.monotonic()
        while self._delayed and self._delayed[0][0] <= now:
            due, _, key = heapq.heappop(self._delayed)
            # An earlier wish for the same key leaves this one behind.
            if self._due.get(key) == due:
                del self._due[key]
                self.add(key)

    async def _change_or_due(self) -> None:
        if not self._delayed:
            await self._change()
            return
        try:
            async with self._clock.timeout(self._delayed[0][0] - self._clock.monotonic()):
                await self._change()
        except TimeoutError:
            return

    async def _change(self) -> None:
        """Wait to be woken; one that cannot use it any more wakes another in its place."""
        waiter = asyncio.get_running_loop().create_future()
        self._idle.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        """Let one that waits look again."""
        while self._idle:
            waiter = self._idle.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return


async def run_workers(
    queue: WorkQueue[K],
    work: Callable[[K], Awaitable[float | None]],
    *,
    workers: int = 1,
) -> None:
    """Work on the keys of *queue* until it shuts down.

    Args:
        queue: where the keys come from.
        work: called with each key; it returns None, or the seconds after which to call it again.
            If it raises, it is called again after a growing pause.
        workers: how many keys to work on at a time.
    """
    async with asyncio.TaskGroup() as tasks:
        for number in range(workers):
            tasks.create_task(_work_on(queue, work), name=f"worker-{number}")


async def _work_on(queue: WorkQueue[K], work: Callable[[K], Awaitable[float | None]]) -> None:
    while (key := await queue.get()) is not None:
        try:
            again = await work(key)
        except Exception as exc:
            _log.warning("work_failed", key=str(key), error=repr(exc), failures=queue.failures(key))
            queue.add_rate_limited(key)
        else:
            queue.forget(key)
            if again is not None:
                queue.add_after(key, again)
        finally:
            queue.done(key)
