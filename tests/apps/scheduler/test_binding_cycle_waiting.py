"""Pods that wait for permission are allowed, refused, or time out."""

from __future__ import annotations

import asyncio

from tests.scheduling.conftest import pod_of

from numakube.apps.scheduler.binding_cycle import WaitingPods
from numakube.kube.clock import SystemClock
from numakube.testing import until


async def test_a_pod_waits_until_it_is_allowed() -> None:
    """The plugin finds it among those that wait."""
    waiting = WaitingPods(SystemClock())
    task = asyncio.create_task(waiting.answer(pod_of("a"), 10.0))
    await until(lambda: [pod.name for pod in waiting] == ["a"])
    waiting.allow("unknown")
    waiting.allow("a")
    assert (await task).ok
    assert list(waiting) == []


async def test_a_pod_is_refused_with_the_reason_of_the_plugin() -> None:
    """And goes back to the queue."""
    waiting = WaitingPods(SystemClock())
    task = asyncio.create_task(waiting.answer(pod_of("a"), 10.0))
    await until(lambda: list(waiting))
    waiting.refuse("a", "the rest of the gang does not fit")
    assert (await task).message == "the rest of the gang does not fit"


async def test_permission_that_does_not_come_is_refused() -> None:
    """After the time that the plugin gave."""
    waiting = WaitingPods(SystemClock())
    assert (await waiting.answer(pod_of("a"), 0.01)).message == "no permission within 0.01 s"
