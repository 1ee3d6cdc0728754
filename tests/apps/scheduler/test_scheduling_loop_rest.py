"""The loop rests until something is to be done, and no longer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.apps.scheduler.parts import Parts

from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.scheduling_queue import QueuedPod
from numakube.testing import World, pod, turns


@pytest.fixture
def parts() -> Parts:
    """A scheduler with one pod that is tried again in a second."""
    parts = Parts(World())
    parts.queue.failed(parts.taken(pod("late")), "no answer")
    return parts


@pytest.mark.parametrize(("until", "rests"), [(None, 1.0), (5.0, 1.0), (0.4, 0.4)])
async def test_it_rests_until_the_first_time_that_counts(
    parts: Parts, until: float | None, rests: float
) -> None:
    """The end of a backoff, or of the time that a workload is held back."""
    await parts.clock.advance(0.2)
    parts.queue.guard = cast("Any", SimpleNamespace(next_change=lambda: until))
    task = asyncio.create_task(parts.queue.rest())
    await parts.clock.timeouts()
    await parts.clock.advance(rests - 0.2 - 0.05)
    assert not task.done()
    await parts.clock.advance(0.1)
    assert task.done()


async def test_a_time_that_is_past_is_not_waited_for(parts: Parts) -> None:
    """The loop has its turn at once."""
    await parts.clock.advance(3.0)
    task = asyncio.create_task(parts.queue.rest())
    await parts.clock.timeouts()
    await parts.clock.advance(0.01)
    assert task.done()


NEWS: dict[str, Callable[[Parts, QueuedPod], object]] = {
    "a pod": lambda parts, _: parts.waits(pod("new")),
    "an event": lambda parts, _: parts.queue.happened(ClusterEvent(kind=EventKind.NODE_ADDED)),
    "a pod that is let go": lambda parts, _: parts.queue.activate("late", "asked for"),
    "a pod that failed": lambda parts, tried: parts.queue.failed(tried, "no answer"),
    "what opens a gate": lambda parts, _: parts.queue.ask_gates("default/claim"),
}


@pytest.mark.parametrize("news", NEWS)
async def test_news_end_the_rest(parts: Parts, news: str) -> None:
    """At once, without a time that passes."""
    tried = parts.taken(pod("tried"))
    task = asyncio.create_task(parts.queue.rest())
    await turns(3)
    assert not task.done()
    NEWS[news](parts, tried)
    await turns(3)
    assert task.done()


async def test_who_stands_by_takes_no_notice_of_events(parts: Parts) -> None:
    """It has refused no pod that they could help."""
    parts.queue.leads = False
    parts.queue.happened(ClusterEvent(kind=EventKind.NODE_ADDED))
    assert parts.queue.handle_events() == 0
    task = asyncio.create_task(parts.queue.rest())
    await turns(3)
    assert not task.done()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_it_knows_the_pods_that_wait_whether_they_are_being_tried_or_not(parts: Parts) -> None:
    """Until they are removed."""
    assert "late" in parts.queue
    assert "other" not in parts.queue
    parts.taken(pod("tried"))
    assert "tried" in parts.queue
    parts.queue.remove("tried")
    assert "tried" not in parts.queue


def test_a_pod_that_has_a_node_waits_no_longer(parts: Parts) -> None:
    """Unless it is being tried: then the answer to its binding ends that."""
    parts.taken(pod("tried"))
    for name in ("late", "tried", "other"):
        parts.queue.placed(name)
    assert "late" not in parts.queue
    assert "tried" in parts.queue
