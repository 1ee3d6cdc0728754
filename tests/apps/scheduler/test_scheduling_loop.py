"""The loop goes on whatever happens to one pod or gang, and says how it is doing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.apps.scheduler.parts import Parts

from numakube.api.meta import OwnerReference
from numakube.api.pod import Pod
from numakube.apps.scheduler.metrics import SAMPLED_ATTEMPTS
from numakube.scheduling.framework.status import failure
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.scheduling.plugins.rejection_guard import OWNER_LIMIT, OWNER_SECONDS
from numakube.scheduling.scheduling_queue import Place
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod, rejected, running, turns

TURN = 16
"""Pods that are decided on before others have their turn."""


@pytest.fixture
def parts() -> Parts:
    """A scheduler of one node."""
    world = World()
    world.add_node("n0")
    return Parts(world)


@asynccontextmanager
async def scheduling(parts: Parts) -> AsyncIterator[None]:
    """Let the scheduler work until all pods have been tried, and for the length of a context."""
    task = asyncio.create_task(parts.scheduler.run())
    await turns(30)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def messages(parts: Parts) -> dict[str, tuple[Place, str]]:
    """Return where pods wait, and why."""
    return {part.uid: (part.place, part.message) for part in parts.scheduler.queue}


async def test_a_plugins_mistake_costs_the_pod_alone(parts: Parts) -> None:
    """It is tried again later; others are placed."""
    parts.gate.stumbles_over = {"a"}
    for name in ("a", "b"):
        parts.waits(pod(name))
    async with scheduling(parts):
        assert messages(parts) == {"a": (Place.BACKOFF, "internal error: LookupError: a")}
        assert parts.gate.bound == [("b", "n0")]


async def test_a_plugin_that_cannot_tell_has_the_pod_tried_again() -> None:
    """In the words of the plugin."""
    world = World()
    for name in ("n0", "n1"):
        world.add_node(name)
    parts = Parts(world)
    parts.gate.opinion = failure("no answer")
    parts.waits(pod("a"))
    async with scheduling(parts):
        assert messages(parts) == {"a": (Place.BACKOFF, "DefaultBinder: no answer")}
        ((name, message, *_),) = parts.told.of("refused")
        assert (name, message) == ("a", "DefaultBinder: no answer")


async def test_a_plugins_mistake_puts_every_member_of_a_gang_back(parts: Parts) -> None:
    """Also those that were taken off the queue for the first one."""
    parts.gate.stumbles_over = {"c"}
    for name in ("a", "b", "c"):
        parts.waits(pod(name, labels={NAME_LABEL: "g", MIN_LABEL: "3"}))
    async with scheduling(parts):
        assert messages(parts) == dict.fromkeys(
            ("a", "b", "c"), (Place.BACKOFF, "internal error: LookupError: c")
        )
        node = parts.engine.cluster.node("n0")
        assert node is not None
        assert not node.pods


async def test_a_pod_that_is_being_deleted_when_its_turn_comes_is_not_tried(parts: Parts) -> None:
    """Nor does it wait any longer."""
    one = pod("a")
    parts.waits(one)
    meta = msgspec.structs.replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    (entry,) = parts.scheduler.queue
    entry.pod = type(entry.pod)(msgspec.structs.replace(one, metadata=meta))
    async with scheduling(parts):
        assert "a" not in parts.queue
        assert parts.gate.bound == []


async def test_plugins_are_timed_in_one_of_so_many_attempts(parts: Parts) -> None:
    """To time them always would cost more than they do."""
    for runtime in parts.engine.runtimes.values():
        runtime.stopwatch = parts.metrics.stopwatch
    for number in range(SAMPLED_ATTEMPTS + 1):
        parts.waits(pod(f"p{number}", "1"))
    async with scheduling(parts):
        assert len(parts.gate.bound) == SAMPLED_ATTEMPTS + 1
    labels = {"plugin": parts.gate.name, "extension_point": "Reserve"}
    name = "scheduler_plugin_execution_duration_seconds_count"
    assert parts.registry.get_sample_value(name, labels) == 2.0


async def test_it_is_busy_while_pods_wait_to_be_decided_on(parts: Parts) -> None:
    """After each turn of sixteen pods others may act, and see that more are to come."""
    for number in range(TURN + 1):
        parts.waits(pod(f"p{number}", "40"))
    seen = []
    parts.told.on_refused = lambda: seen.append(parts.scheduler.is_busy)
    async with scheduling(parts):
        assert not parts.scheduler.is_busy
    assert seen == [False] * TURN + [True]


def owned(name: str) -> Pod:
    """Return a pod of a Job."""
    one = pod(name)
    owner = OwnerReference(
        api_version="batch/v1", kind="Job", name="job", uid="job", controller=True
    )
    meta = msgspec.structs.replace(one.metadata, owner_references=(owner,))
    return msgspec.structs.replace(one, metadata=meta)


async def test_pods_of_a_workload_that_kubelets_reject_are_tried_when_their_time_has_come(
    parts: Parts,
) -> None:
    """Nothing else need happen: the loop rests until then, and no longer."""
    for number in range(OWNER_LIMIT):
        one = rejected(owned(f"rejected-{number}"), "elsewhere", "TopologyAffinityError")
        parts.listener.pod_ended(PodInfo(one))
    parts.waits(owned("next"))
    assert parts.place_of("next") is Place.GATED
    async with scheduling(parts):
        await parts.clock.advance(OWNER_SECONDS - 0.1)
        assert parts.gate.bound == []
        await parts.clock.advance(0.2)
        await turns(20)
        assert parts.gate.bound == [("next", "n0")]


@pytest.mark.parametrize("leads", [True, False])
async def test_a_workload_is_told_that_its_pods_are_held_back(parts: Parts, leads: bool) -> None:
    """Once, by the scheduler that leads; rejections are counted by all."""
    parts.queue.leads = leads
    for number in range(OWNER_LIMIT + 1):
        one = rejected(owned(f"rejected-{number}"), "n0", "TopologyAffinityError")
        parts.listener.pod_ended(PodInfo(one))
    parts.listener.pod_ended(PodInfo(running(owned("fine"), "n0")))

    def value(name: str, **labels: str) -> float | None:
        return parts.registry.get_sample_value(name, labels)

    count = value("numakube_kubelet_rejections_total", reason="TopologyAffinityError")
    assert count == OWNER_LIMIT + 1
    assert value("numakube_runaway_workloads") == 1.0
    task = asyncio.create_task(parts.recorder.run())
    await parts.clock.advance(5.0)
    events = [part for part in parts.wire.received if part.path.endswith("/events")]
    told = [msgspec.json.decode(event.body or b"{}") for event in events]
    assert [entry["reason"] for entry in told] == ["PodsRejectedByKubelet"] * leads
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
