"""A queue of keys does what plain lists would do, whatever happens in whatever order."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.kube.clock import ManualClock
from numakube.kube.workqueue import WorkQueue

BASE, CAP = 1.0, 6.0


class Plain:
    """What waits, what is late, and who works on what."""

    def __init__(self) -> None:
        self.ready: list[str] = []
        self.dirty: set[str] = set()
        self.working: set[str] = set()
        self.due: list[tuple[float, str]] = []
        self.failures: dict[str, int] = {}
        self.told: list[str] = []
        self.closed = False

    def add(self, key: str) -> None:
        """Have a key worked on."""
        if not self.closed and key not in self.dirty:
            self.dirty.add(key)
            self.told.append(key)
            if key not in self.working:
                self.ready.append(key)

    def later(self, key: str, seconds: float, now: float) -> None:
        """Have it worked on some time; the earliest wish counts."""
        if seconds <= 0:
            self.add(key)
        elif not self.closed and all(at > now + seconds for at, one in self.due if one == key):
            self.due = [(at, one) for at, one in self.due if one != key]
            self.due.append((now + seconds, key))

    def failed(self, key: str, now: float) -> None:
        """Have it worked on after a pause that doubles."""
        failures = self.failures.get(key, 0)
        self.failures[key] = failures + 1
        self.later(key, min(BASE * 2**failures, CAP), now)

    def release(self, now: float) -> None:
        """Take up what is due, the earliest first."""
        for at, key in sorted(self.due, key=lambda one: one[0]):
            if at <= now:
                self.due.remove((at, key))
                self.add(key)

    def get(self) -> str | None:
        """Return the next key."""
        if not self.ready:
            return None
        key = self.ready.pop(0)
        self.dirty.discard(key)
        self.working.add(key)
        return key

    def done(self, key: str) -> None:
        """End the work."""
        self.working.discard(key)
        if key in self.dirty and key not in self.ready:
            self.ready.append(key)


class Both:
    """The queue and the plain lists, to which the same happens."""

    def __init__(self) -> None:
        self.clock, self.told, self.plain = ManualClock(), list[str](), Plain()
        self.queue = WorkQueue[str](clock=self.clock, base=BASE, cap=CAP, on_add=self.told.append)

    async def add(self, key: str, seconds: float) -> None:
        """Add a key."""
        self.queue.add(key)
        self.plain.add(key)

    async def later(self, key: str, seconds: float) -> None:
        """Add it some time."""
        self.queue.add_after(key, seconds)
        self.plain.later(key, seconds, self.clock.monotonic())

    async def failed(self, key: str, seconds: float) -> None:
        """Work on it has failed."""
        self.queue.add_rate_limited(key)
        self.plain.failed(key, self.clock.monotonic())

    async def forget(self, key: str, seconds: float) -> None:
        """Forget the failures."""
        self.queue.forget(key)
        self.plain.failures.pop(key, None)

    async def done(self, key: str, seconds: float) -> None:
        """One that is worked on is done."""
        for one in sorted(self.plain.working)[:1]:
            self.queue.done(one)
            self.plain.done(one)

    async def wait(self, key: str, seconds: float) -> None:
        """Time goes by."""
        await self.clock.advance(max(seconds, 0.0))

    async def end(self, key: str, seconds: float) -> None:
        """The queue shuts down, now and then."""
        if seconds == 5.0:
            self.queue.shut_down()
            self.plain.closed, self.plain.due = True, []

    async def get(self, key: str, seconds: float) -> None:
        """Take the next."""
        self.plain.release(self.clock.monotonic())
        if self.plain.ready or self.plain.closed:
            assert await self.queue.get() == self.plain.get()

    def agree(self) -> None:
        """Assert that both say the same."""
        self.plain.release(self.clock.monotonic())
        assert len(self.queue) == len(self.plain.ready)
        failures = {one: self.queue.failures(one) for one in "abc"}
        assert failures == {one: self.plain.failures.get(one, 0) for one in "abc"}
        assert self.told == self.plain.told


ACTS = (
    *(Both.add, Both.later, Both.later, Both.failed, Both.forget),
    *(Both.get, Both.get, Both.done, Both.wait, Both.end),
)
STEPS = st.lists(
    st.tuples(
        st.sampled_from(ACTS), st.sampled_from("abc"), st.sampled_from((-1.0, 0.0, 1.0, 2.0, 5.0))
    ),
    max_size=40,
)


async def play(steps: list[Any]) -> None:
    """Let it happen, and then work on what is left."""
    both = Both()
    for act, key, seconds in steps:
        await act(both, key, seconds)
        both.agree()
    while both.plain.ready or both.plain.working:
        if both.plain.ready:
            await both.get("", 0.0)
        await both.done("", 0.0)
    await both.queue.drained()
    both.agree()


@settings(max_examples=100)
@given(STEPS)
def test_every_key_comes_when_plain_lists_say(steps: list[Any]) -> None:
    """Once at a time, again if it was added meanwhile, and in order."""
    asyncio.run(play(steps))
