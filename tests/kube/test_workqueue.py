"""The work queue: each key once, never with two workers, again after failures."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.kube.clock import ManualClock
from numakube.kube.workqueue import WorkQueue, run_workers
from numakube.testing import turns


@pytest.fixture
def manual() -> ManualClock:
    """A clock that the test moves."""
    return ManualClock()


@pytest.fixture
def queue(manual: ManualClock) -> WorkQueue[str]:
    """An empty queue."""
    return WorkQueue(clock=manual)


async def test_a_key_is_there_once_and_in_order(queue: WorkQueue[str]) -> None:
    """However often it is added."""
    for key in "abab":
        queue.add(key)

    assert len(queue) == 2
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_a_key_added_while_being_worked_on_comes_again(queue: WorkQueue[str]) -> None:
    """After the work on it has ended, and once."""
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    assert len(queue) == 0, "it is being worked on"

    queue.done("a")
    assert len(queue) == 1
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_who_waits_gets_what_comes(queue: WorkQueue[str]) -> None:
    """Several who wait get one key each."""
    waiting = [asyncio.create_task(queue.get()) for _ in range(3)]
    await turns()
    for key in "abc":
        queue.add(key)

    assert sorted(str(each) for each in await asyncio.gather(*waiting)) == ["a", "b", "c"]


async def test_who_gives_up_waiting_takes_nothing_along(queue: WorkQueue[str]) -> None:
    """A cancelled worker does not lose a key."""
    gone = asyncio.create_task(queue.get())
    stays = asyncio.create_task(queue.get())
    await turns()
    queue.add("a")
    gone.cancel()

    assert await stays == "a"
    assert gone.cancelled()


async def test_delayed_keys_come_when_they_are_due(
    queue: WorkQueue[str], manual: ManualClock
) -> None:
    """The earliest wish counts; one that is not delayed counts at once."""
    queue.add_after("late", 10)
    queue.add_after("late", 5)
    queue.add_after("late", 20)
    queue.add_after("now", 0)
    assert await queue.get() == "now"
    waiting = asyncio.create_task(queue.get())
    await manual.timeouts()
    await manual.advance(4.9)
    assert not waiting.done()
    await manual.advance(0.1)
    assert await waiting == "late"
    queue.done("late")

    await manual.advance(30)
    assert len(queue) == 0, "the other wishes were for the same piece of work"


async def test_failures_double_the_pause_until_forgotten(
    queue: WorkQueue[str], manual: ManualClock
) -> None:
    """From five milliseconds to a thousand seconds, for each key alone."""
    pauses = []
    for _ in range(20):
        queue.add_rate_limited("a")
        (due,) = [due for due, _, key in queue._delayed if key == "a"]
        pauses.append(due - manual.monotonic())
        await manual.advance(1001)
        assert await queue.get() == "a"
        queue.done("a")

    assert pauses[:4] == pytest.approx([0.005, 0.01, 0.02, 0.04], abs=1e-6)
    assert pauses[-1] == pytest.approx(1000)
    assert (queue.failures("a"), queue.failures("b")) == (20, 0)
    queue.forget("a")
    assert queue.failures("a") == 0


async def test_shutting_down_hands_out_what_is_ready(queue: WorkQueue[str]) -> None:
    """And nothing else; every waiter learns of it."""
    waiting = asyncio.create_task(queue.get())
    await turns()
    queue.add("a")
    assert await waiting == "a"
    queue.add("a")
    queue.add("b")
    queue.add_after("c", 1)
    waiting = asyncio.create_task(queue.drained())
    queue.shut_down()
    queue.add("d")
    queue.add_after("d", 1)

    assert await queue.get() == "b"
    queue.done("b")
    assert await queue.get() is None
    assert not waiting.done(), "work on a goes on"
    queue.done("a")
    assert await queue.get() == "a", "it was added before the end"
    queue.done("a")
    await waiting
    assert await queue.get() is None


async def test_workers_repeat_what_fails_and_what_asks_for_it(
    queue: WorkQueue[str], manual: ManualClock
) -> None:
    """One key that fails does not keep the others waiting."""
    log: list[tuple[str, float]] = []

    async def work(key: str) -> float | None:
        log.append((key, manual.monotonic()))
        if key == "fails" and len([each for each in log if each[0] == "fails"]) < 3:
            raise RuntimeError("not yet")
        return 60.0 if key == "again" and manual.monotonic() < 60 else None

    for key in ("fails", "again", "fine"):
        queue.add(key)
    running = asyncio.create_task(run_workers(queue, work, workers=2))
    await manual.timeouts(2)
    await manual.advance(100)
    queue.shut_down()
    await running

    assert log[:3] == [("fails", 0), ("again", 0), ("fine", 0)]
    assert [key for key, _ in log[3:]] == ["fails", "fails", "again"]
    assert [at for _, at in log[3:]] == pytest.approx([0.005, 0.015, 60.0])
    assert queue.failures("fails") == 0


async def test_no_key_is_with_two_workers_and_none_is_forgotten(queue: WorkQueue[str]) -> None:
    """Every change is followed by work that has seen it."""
    wanted = dict.fromkeys("abc", 0)
    seen = dict.fromkeys("abc", 0)
    busy: set[str] = set()

    async def work(key: str) -> None:
        assert key not in busy
        busy.add(key)
        current = wanted[key]
        await turns(3)
        seen[key] = current
        busy.discard(key)

    running = asyncio.create_task(run_workers(queue, work, workers=3))
    for number in range(300):
        key = "abc"[number % 3]
        wanted[key] += 1
        queue.add(key)
        if number % 7 == 0:
            await turns()
    await queue.drained()
    queue.shut_down()
    await running

    assert seen == wanted


@given(st.lists(st.tuples(st.sampled_from(["add", "get", "done"]), st.sampled_from("abc"))))
def test_a_key_that_needs_work_is_never_lost(steps: list[tuple[str, str]]) -> None:
    """Model: a key needs work from its addition until it is handed out."""
    asyncio.run(play(steps))


async def play(steps: list[tuple[str, str]]) -> None:
    """Perform *steps* on a queue and on its model."""
    queue: WorkQueue[str] = WorkQueue(clock=ManualClock())
    needs: set[str] = set()
    working: set[str] = set()
    for name, key in steps:
        if name == "add":
            queue.add(key)
            needs.add(key)
        elif name == "done" and key in working:
            queue.done(key)
            working.discard(key)
        elif name == "get" and needs - working:
            got = await queue.get()
            assert got in needs - working
            needs.discard(str(got))
            working.add(str(got))
        assert len(queue) == len(needs - working)


async def test_whoever_counts_is_told_of_every_key_that_comes_to_need_work(
    manual: ManualClock,
) -> None:
    """Not of one that waits already, nor after the end."""
    told: list[str] = []
    queue = WorkQueue[str](clock=manual, on_add=told.append)
    for key in "aba":
        queue.add(key)
    assert await queue.get() == "a"
    queue.add("a")
    queue.shut_down()
    queue.add("c")
    assert told == ["a", "b", "a"]
