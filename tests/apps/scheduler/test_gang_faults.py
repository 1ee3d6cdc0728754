"""Whatever fails and whenever the scheduler dies, gangs run as a whole or not at all."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from tests.apps.scheduler.gang_trials import (
    GANG,
    GROUP_VERSIONS,
    LIMIT_SECONDS,
    RACK,
    SLACK_SECONDS,
    Failing,
    GangTrial,
    gang_trial,
)

from numakube.kube.catalog import NODES as NODE_OBJECTS
from numakube.kube.client import merge_patch
from numakube.scheduling.plugins.pod_gangs import (
    COSCHEDULING_LABEL,
    DISRUPTION_MODE,
    MIN_LABEL,
    NAME_LABEL,
    PREFERRED_TOPOLOGY,
    REQUIRED_TOPOLOGY,
    VOLCANO_ANNOTATION,
)
from numakube.testing import pod_document, refusal_of

RUNS = int(os.environ.get("GANG_RUNS", "12"))
"""``GANG_RUNS=10000`` for the long campaign, which takes an hour of a core."""
SEED = int(os.environ.get("GANG_SEED", "24"))
"""Another one makes other runs; the same one repeats those in which something was found."""
NODES = 4
_CALM_SECONDS = 14


LABELS = "labels"
"""The way to name a gang that needs no object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """A gang that is created, and may get more members later.

    Attributes:
        api: how its pods name it.
        annotation: what is asked of the scheduler.
        claims: whether each pod has a claim that is made from a template.
    """

    name: str
    size: int
    least: int
    cpu: str
    api: str = LABELS
    annotation: tuple[str, str] | None = None
    urgent: bool = False
    claims: bool = False

    def member(self) -> dict[str, Any]:
        """Return a pod of it."""
        labels, annotations, more = {GANG: self.name}, dict[str, str](), dict[str, Any]()
        if self.api == LABELS:
            labels |= {NAME_LABEL: self.name, MIN_LABEL: str(self.least)}
            annotations |= dict([self.annotation]) if self.annotation else {}
        elif self.api == "scheduling.x-k8s.io":
            labels |= {COSCHEDULING_LABEL: self.name}
        else:
            annotations |= {VOLCANO_ANNOTATION: self.name}
        more |= {"priorityClassName": "urgent"} if self.urgent else {}
        if self.claims:
            more |= {"resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nic"}]}
        metadata = {"name": self.name, "labels": labels, "annotations": annotations}
        return pod_document(self.name, self.cpu, metadata=metadata, **more)

    async def create(
        self,
        trial: GangTrial,
        pods: int,
        *,
        object_first: bool = True,
        rng: Random | None = None,
    ) -> None:
        """Create its object, if it has one, and so many *pods*; claims may be made meanwhile."""
        trial.least[self.name] = self.least
        if object_first:
            await self._create_object(trial)
        for _ in range(pods):
            await trial.create(self.member())
            if rng is not None and rng.random() < 0.4:
                await trial.settle(rng.choice((1, 5)))
                await trial.claims_act(rng.randint(1, 8))
        if not object_first:
            await self._create_object(trial)

    async def _create_object(self, trial: GangTrial) -> None:
        if self.api != LABELS:
            await trial.create_group(self.api, self.name, {"minMember": self.least}, self._asked)

    async def need(self, trial: GangTrial, least: int) -> None:
        """Let it need fewer or more pods from now on."""
        trial.least[self.name] = least
        trial.changed.add(self.name)
        await trial.change_group(self.api, self.name, {"minMember": least})

    @property
    def _asked(self) -> dict[str, str]:
        return dict([self.annotation]) if self.annotation else {}


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
        size = rng.choice((1, 2, 3, 4, 5, 8))
        least = rng.randint(1, size) if rng.random() < 0.4 else size
        wishes = ((REQUIRED_TOPOLOGY, RACK), (PREFERRED_TOPOLOGY, RACK), (DISRUPTION_MODE, "all"))
        wish = rng.choice((None, None, *wishes))
        group = Group(
            name=f"g{len(self._groups)}",
            size=size,
            least=least,
            cpu=rng.choice("12334"),
            api=rng.choice((LABELS, LABELS, *GROUP_VERSIONS)),
            annotation=wish,
            urgent=rng.random() < 0.3,
            claims=rng.random() < 0.4,
        )
        self._groups.append(group)
        late = rng.random() < 0.3
        await group.create(self._trial, size - late, object_first=rng.random() < 0.6, rng=rng)

    async def _claims(self) -> None:
        await self._trial.claims_act(self._rng.randint(1, 12))

    async def _fewer(self) -> None:
        groups = [group for group in self._groups if group.api != LABELS]
        if groups:
            group = self._rng.choice(groups)
            least = max(1, self._trial.least[group.name] - 1)
            await group.need(self._trial, least)

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
    *("late", "single", "deletion", "end", "fault", "death", "node", "fewer"),
    *("kubelets", "time", "claims") * 2,
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
        assert not trial.process.parts.gang_view.overlooked()
        before = trial.placed()
        await trial.restart()
        await calm(trial, 3)
        assert trial.placed() <= before, "the next scheduler finds room that this one has missed"
        assert not trial.wrong


async def calm(trial: GangTrial, seconds: int) -> None:
    """Let time pass in which nothing goes wrong."""
    for _ in range(seconds):
        await trial.claims_act(most=100)
        await trial.kubelets_act()
        await trial.pass_time(1)


@pytest.mark.parametrize("api", [LABELS, *GROUP_VERSIONS])
@pytest.mark.parametrize("rack", [False, True])
@pytest.mark.parametrize("least", [6, 4])
async def test_a_gang_with_claims_of_a_template_runs(api: str, least: int, *, rack: bool) -> None:
    """The first pods have their claims before the last ones come, as with the Job controller."""
    wish = (REQUIRED_TOPOLOGY, RACK) if rack else None
    gang = Group(name="g", size=6, least=least, cpu="1", api=api, annotation=wish, claims=True)
    async with gang_trial(NODES, Random(0)) as trial:
        await gang.create(trial, 3)
        await trial.settle()
        await trial.claims_act(most=100)
        await trial.settle()
        for _ in range(3):
            await trial.create(gang.member())
        await trial.settle()
        await calm(trial, 2)
        assert len(trial.placed()) == 6
        racks = {int(pod.spec.node_name[1:]) % 2 for pod in trial.pods}
        assert len(racks) == 1 or not rack


async def test_a_gang_that_does_not_fit_runs_when_it_needs_fewer_pods() -> None:
    """The change of its group wakes pods that lack CPUs."""
    async with gang_trial(1, Random(0)) as trial:
        gang = Group(name="g", size=3, least=3, cpu="3", api="scheduling.x-k8s.io")
        await gang.create(trial, gang.size)
        await calm(trial, 1)
        assert "2 of 3 needed pods fit" in refusal_of(trial.pods[0])
        await gang.need(trial, 2)
        await calm(trial, 2)
        assert len(trial.placed()) == 2


async def test_members_that_run_are_not_evicted_when_the_gang_needs_more() -> None:
    """By this scheduler or the next; they are when one of them is lost."""
    async with gang_trial(1, Random(0)) as trial:
        gang = Group(name="g", size=2, least=2, cpu="3", api="scheduling.x-k8s.io")
        await gang.create(trial, gang.size)
        await calm(trial, 2)
        await gang.need(trial, 3)
        for _ in range(2):
            await calm(trial, LIMIT_SECONDS + SLACK_SECONDS)
            assert trial.placed() == {"g-1", "g-2"}
            await trial.restart()
        await calm(trial, 2)
        await trial.delete(trial.pods[0], gently=False)
        await calm(trial, LIMIT_SECONDS + SLACK_SECONDS)
        assert not trial.placed()


async def test_a_gang_for_which_pods_are_evicted_may_lose_any_member_meanwhile() -> None:
    """The others are tried when the last victim is gone, whichever member is missing."""
    for lost in range(3):
        async with gang_trial(1, Random(lost)) as trial:
            for cpu in "34":
                await trial.create(pod_document("in-the-way", cpu))
            await calm(trial, 1)
            await trial.kill()
            gang = Group(name="g", size=3, least=2, cpu="3", urgent=True)
            await gang.create(trial, gang.size)
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
        mates = Group(name="mates", size=2, least=2, cpu="4", annotation=(DISRUPTION_MODE, "all"))
        await mates.create(trial, mates.size)
        await trial.pass_time(1)
        del trial.world.kubelets["n0"]
        await trial.client.patch(NODE_OBJECTS, "n0", merge_patch({"spec": {"unschedulable": True}}))
        gang = Group(name="g", size=2, least=2, cpu="3", urgent=True)
        await gang.create(trial, gang.size)
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
        gang = Group(name="g", size=2, least=2, cpu="3", urgent=True)
        await gang.create(trial, gang.size)
        await calm(trial, 3)
        assert trial.placed() == {"g-1", "g-2"}


@pytest.mark.parametrize("number", [42, 1157, 1167])
async def test_what_was_found_on_earlier_days_does_not_happen_again(number: int) -> None:
    """Reports that nobody waited for, one victim of two gangs, victims that came too late."""
    rng = Random(number)
    await live_through(number, [rng.choice(KINDS) for _ in range(rng.randint(0, 30))])


@seed(SEED)
@settings(max_examples=RUNS, deadline=None, suppress_health_check=list(HealthCheck), database=None)
@given(number=st.integers(0, 1 << 32), kinds=DAYS)
def test_gangs_are_whole_whatever_happens(number: int, kinds: list[str]) -> None:
    """None runs with fewer pods than it needs for longer than it may; no zone is given twice."""
    asyncio.run(live_through(number, kinds))
