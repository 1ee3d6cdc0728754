"""What Kubernetes' own PodGroup says of its gang (KEP-4671)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import msgspec
import pytest
from aiohttp import web
from tests.apps.scheduler.parts import Parts

from numakube.api.codec import convert
from numakube.api.pod import PodSchedulingGroup
from numakube.api.pod_groups import PodGroup
from numakube.apps.scheduler.decision_events import (
    RETRY_SECONDS,
    SCHEDULED,
    SCHEDULER_ERROR,
    UNSCHEDULABLE,
    GroupConditions,
)
from numakube.kube.clock import JumpingClock
from numakube.kube.connect import connect
from numakube.kube.scripted_server import ScriptedServer, status_document
from numakube.testing import World, pod, turns, until

THEN = "2026-11-01T00:00:00Z"


def group(status: str = "", reason: str = "", message: str = "") -> PodGroup:
    """Return a group, with a condition if it has a *status*."""
    kind = "PodGroupInitiallyScheduled"
    condition = {"type": kind, "status": status, "reason": reason, "message": message}
    tree: dict[str, Any] = {
        "metadata": {"name": "team", "namespace": "default", "uid": "u", "generation": 3},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
        "status": {"conditions": [{**condition, "lastTransitionTime": THEN}] if status else []},
    }
    return convert(PodGroup, tree)


class Written:
    """A server that keeps the conditions which are written."""

    def __init__(self) -> None:
        self.conditions: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.failures = 0

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        """Serve PodGroups of version v1, and take what is written."""
        if request.method == "GET":
            kinds = [{"name": "podgroups", "namespaced": True}]
            there = request.path.endswith("/v1")
            return web.json_response(
                {"resources": kinds} if there else status_document(404, "NotFound"),
                status=200 if there else 404,
            )
        if self.failures:
            self.failures -= 1
            return web.json_response(status_document(500, "InternalError"), status=500)
        self.paths.append(request.path)
        self.conditions += msgspec.json.decode(await request.read())["status"]["conditions"]
        return web.json_response({"metadata": {"name": "team"}})


@pytest.fixture
async def writing() -> AsyncIterator[tuple[GroupConditions, Written]]:
    """Conditions that are being written."""
    written = Written()
    async with (
        ScriptedServer(otherwise=written) as server,
        connect(server.config, clock=JumpingClock(), rate=0) as client,
    ):
        conditions = GroupConditions(client)
        task = asyncio.create_task(conditions.run())
        yield conditions, written
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_condition_is_written_in_the_version_that_is_served(
    writing: tuple[GroupConditions, Written],
) -> None:
    """With the generation that was looked at; a server in trouble is asked again."""
    conditions, written = writing
    written.failures = 1
    conditions.decided(group(), UNSCHEDULABLE, "no room")
    (told,) = await until(lambda: written.conditions)
    assert written.paths == ["/apis/scheduling.k8s.io/v1/namespaces/default/podgroups/team/status"]
    assert told["type"] == "PodGroupInitiallyScheduled"
    assert (told["status"], told["reason"]) == ("False", "Unschedulable")
    assert (told["message"], told["observedGeneration"]) == ("no room", 3)


async def test_a_server_in_trouble_is_given_time() -> None:
    """Between one attempt and the next."""
    written, clock = Written(), JumpingClock()
    written.failures = 3
    async with (
        ScriptedServer(otherwise=written) as server,
        connect(server.config, clock=clock, rate=0) as client,
    ):
        conditions = GroupConditions(client)
        before = clock.monotonic()
        task = asyncio.create_task(conditions.run())
        conditions.decided(group(), UNSCHEDULABLE, "no room")
        await until(lambda: written.conditions)
        assert clock.monotonic() - before >= 3 * RETRY_SECONDS
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_was_true_once_stays_true(writing: tuple[GroupConditions, Written]) -> None:
    """Whether the object says so already, or will as soon as it is written."""
    conditions, written = writing
    conditions.decided(group("True", SCHEDULED, "all"), UNSCHEDULABLE, "no room")
    conditions.decided(group(), UNSCHEDULABLE, "no room")
    conditions.decided(group(), SCHEDULED, "2 of 2")
    conditions.decided(group(), UNSCHEDULABLE, "no room for a third")
    conditions.decided(group(), SCHEDULER_ERROR, "a bug")
    (told,) = await until(lambda: written.conditions)
    assert (told["status"], told["reason"], told["message"]) == ("True", "Scheduled", "2 of 2")


async def test_only_what_changes_is_written(writing: tuple[GroupConditions, Written]) -> None:
    """A message that changes leaves the time at which the status did."""
    conditions, written = writing
    before = group("False", UNSCHEDULABLE, "no room")
    conditions.decided(before, UNSCHEDULABLE, "no room")
    conditions.decided(before, UNSCHEDULABLE, "less room")
    (told,) = await until(lambda: written.conditions)
    assert (told["message"], told["lastTransitionTime"]) == ("less room", THEN)


class Told:
    """Outcomes that keep what groups were told, and tell the rest to *others*."""

    def __init__(self, others: Any) -> None:
        self.groups: list[tuple[str, str, str]] = []
        self._others = others

    def group_decided(self, group: PodGroup, reason: str, message: str) -> None:
        """Keep it."""
        self.groups.append((group.metadata.name, reason, message))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._others, name)


@pytest.mark.parametrize(
    ("cpu", "reason"), [("2", "Scheduled"), ("900", "Unschedulable")], ids=["fits", "too large"]
)
async def test_a_gang_lets_its_group_say_what_came_of_it(cpu: str, reason: str) -> None:
    """Before its members are bound: that is when controllers may rely on it."""
    world = World()
    world.add_node("n0")
    parts = Parts(world)
    parts.engine.cluster.objects.pod_groups["default/team"] = group()
    told = Told(parts.told)
    parts.results.outcomes = cast("Any", told)
    parts.gate.open.clear()
    of_team = PodSchedulingGroup(pod_group_name="team")
    for name in ("a", "b"):
        parts.waits(pod(name, cpu, scheduling_group=of_team))
    first = parts.queue.pop()
    assert first is not None
    step = parts.parts.gang_step
    others = parts.queue.waiting.take(step.others(first.pod))
    async with asyncio.TaskGroup() as tasks:
        step.attempt([first, *others], tasks, parts.clock.monotonic())
        await turns(5)
        assert parts.gate.bound == []
        ((name, why, message),) = told.groups
        parts.gate.open.set()
    assert (name, why) == ("team", reason)
    assert message
