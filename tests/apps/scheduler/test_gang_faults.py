"""Whatever fails and whenever the scheduler dies, gangs run as a whole or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.apps.scheduler.gang_trials import RACK, Failing, GangTrial, gang_trial

from numakube.kube.catalog import NODES as NODE_OBJECTS
from numakube.kube.patches import merge_patch
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import (
    DISRUPTION_MODE,
    MIN_LABEL,
    NAME_LABEL,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
)
from numakube.testing import pod_document, refusal_of

RUNS = int(os.environ.get("GANG_RUNS", "12"))
"""``GANG_RUNS=10000`` for the long campaign, which takes an hour of a core."""
SEED = int(os.environ.get("GANG_SEED", "24"))
"""Another one makes other runs; the same one repeats those in which something was found."""
NODES = 4
_CALM_SECONDS = 14


@dataclass(frozen=True, slots=True)
class Group:
    """A gang that is created, and may get more members later."""

    name: str
    size: int
    least: int
    cpu: str
    annotation: tuple[str, str] | None
    urgent: bool

    def member(self) -> dict[str, Any]:
        """Return a pod of it."""
        labels = {NAME_LABEL: self.name, MIN_LABEL: str(self.least)}
        annotations = dict([self.annotation]) if self.annotation else {}
        metadata = {"name": self.name, "labels": labels, "annotations": annotations}
        more = {"priorityClassName": "urgent"} if self.urgent else {}
        return pod_document(self.name, self.cpu, metadata=metadata, **more)


class Day:
    """What happens to a cluster, one thing after the other."""

    def __init__(self, trial: GangTrial, rng: Random) -> None:
        self._trial = trial
        self._rng = rng
        self._groups: list[Group] = []

    async def happens(self, what: str) -> None:
        """Let *what* happen."""
        act: Callable[[], Awaitable[None]] = getattr(self, f"_{what}")
        await act()
        await self._trial.settle(self._rng.choice((1, 3, 10, 40)))

    async def _gang(self) -> None:
        rng = self._rng
        size = rng.randint(1, 5)
        least = rng.randint(1, size) if rng.random() < 0.4 else size
        wishes = ((REQUIRED_TOPOLOGY, RACK), (PREFERRED_TOPOLOGY, RACK), (DISRUPTION_MODE, "all"))
        wish = rng.choice((None, None, *wishes))
        name, cpu = f"g{len(self._groups)}", rng.choice("2334")
        group = Group(name, size, least, cpu, wish, rng.random() < 0.3)
        self._groups.append(group)
        late = rng.random() < 0.3
        for _ in range(size - late):
            await self._trial.create(group.member())

    async def _late(self) -> None:
        if self._groups:
            await self._trial.create(self._rng.choice(self._groups).member())

    async def _single(self) -> None:
        urgent = {"priorityClassName": "urgent"} if self._rng.random() < 0.5 else {}
        cpu = self._rng.choice("234")
        await self._trial.create(pod_document("single", cpu, **urgent))

    async def _deletion(self) -> None:
        if pods := self._trial.pods:
            await self._trial.delete(self._rng.choice(pods), gently=self._rng.random() < 0.5)

    async def _end(self) -> None:
        if pods := self._trial.pods:
            phase = self._rng.choice(("Succeeded", "Failed"))
            await self._trial.end(self._rng.choice(pods), phase)

    async def _kubelets(self) -> None:
        await self._trial.kubelets_act()

    async def _time(self) -> None:
        await self._trial.pass_time(self._rng.randint(1, 4))

    async def _fault(self) -> None:
        rng = self._rng
        path = rng.choice(("/binding", "/pods/", "/status", ""))
        self._trial.fail(Failing(path, rng.choice((0, 409, 500, 503)), rng.random() < 0.5))

    async def _death(self) -> None:
        self._trial.die_after(self._rng.randint(0, 8))

    async def _node(self) -> None:
        name = f"n{self._rng.randrange(NODES)}"
        if name in self._trial.world.kubelets:
            await self._trial.remove_node(name)
        else:
            await self._trial.add_node(name)


KINDS = (
    *("gang",) * 4,
    *("late", "single", "deletion", "end", "fault", "death", "node"),
    *("kubelets", "time") * 2,
)


DAYS = st.integers(0, 30).flatmap(
    lambda size: st.lists(st.sampled_from(KINDS), min_size=size, max_size=size)
)
"""As many long days as short ones: of lists on their own, half have four things at most."""


async def live_through(number: int, kinds: list[str]) -> None:
    """Let *kinds* of things happen, and look at what has become of the gangs."""
    rng = Random(number)
    async with gang_trial(NODES, rng) as trial:
        day = Day(trial, rng)
        for kind in kinds:
            await day.happens(kind)
        trial.calm_down()
        await calm(trial, _CALM_SECONDS)
        assert not trial.wrong
        assert not trial.halves()
        assert not trial.process.mirror.assumed_count
        before = trial.placed()
        await trial.restart()
        await calm(trial, 3)
        assert trial.placed() <= before, "the next scheduler finds room that this one has missed"
        assert not trial.wrong


async def calm(trial: GangTrial, seconds: int) -> None:
    """Let time pass in which nothing goes wrong."""
    for _ in range(seconds):
        await trial.kubelets_act()
        await trial.pass_time(1)


async def test_a_gang_for_which_pods_are_evicted_may_lose_any_member_meanwhile() -> None:
    """The others are tried when the last victim is gone, whichever member is missing."""
    for lost in range(3):
        async with gang_trial(1, Random(lost)) as trial:
            for cpu in "34":
                await trial.create(pod_document("in-the-way", cpu))
            await calm(trial, 1)
            await trial.kill()
            gang = Group("g", 3, 2, "3", None, urgent=True)
            for _ in range(gang.size):
                await trial.create(gang.member())
            await trial.start()
            await trial.pass_time(1)
            members = [pod for pod in trial.pods if NAME_LABEL in pod.metadata.labels]
            assert "waiting for 2 evicted pods to leave" in refusal_of(members[0])
            missing = members.pop(lost)
            await trial.delete(missing, gently=False)
            await calm(trial, 3)
            assert trial.placed() == {pod.metadata.name for pod in members}


async def test_a_gang_does_not_wait_for_evicted_pods_that_are_not_in_its_way() -> None:
    """Of a victim's gang another member has to go too, on a node whose kubelet does not answer."""
    async with gang_trial(2, Random(0)) as trial:
        mates = Group("mates", 2, 2, "4", (DISRUPTION_MODE, "all"), urgent=False)
        for _ in range(mates.size):
            await trial.create(mates.member())
        await trial.pass_time(1)
        del trial.world.kubelets["n0"]
        await trial.client.patch(NODE_OBJECTS, "n0", merge_patch({"spec": {"unschedulable": True}}))
        gang = Group("g", 2, 2, "3", None, urgent=True)
        for _ in range(gang.size):
            await trial.create(gang.member())
        await calm(trial, 4)
        (left,) = (pod for pod in trial.pods if pod.metadata.labels[NAME_LABEL] == "mates")
        assert (left.spec.node_name, left.metadata.deletion_timestamp is None) == ("n0", False)
        assert {pod.spec.node_name for pod in trial.pods if pod != left} == {"n1"}


async def test_a_gang_tries_again_to_evict_a_pod_after_a_conflict() -> None:
    """A victim that was not evicted does not go by itself."""
    async with gang_trial(1, Random(0)) as trial:
        await trial.create(pod_document("in-the-way", "4"))
        await calm(trial, 1)
        (victim,) = trial.pods
        for _ in range(2):
            trial.fail(Failing(f"/{victim.metadata.name}/status", 409, done=False))
        gang = Group("g", 2, 2, "3", None, urgent=True)
        for _ in range(gang.size):
            await trial.create(gang.member())
        await calm(trial, 3)
        assert trial.placed() == {"g-1", "g-2"}


@seed(SEED)
@settings(max_examples=RUNS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(number=st.integers(0, 1 << 32), kinds=DAYS)
def test_gangs_are_whole_whatever_happens(number: int, kinds: list[str]) -> None:
    """None runs with fewer pods than it needs for longer than it may; no zone is given twice."""
    asyncio.run(live_through(number, kinds))
