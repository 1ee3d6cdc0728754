"""Pods on one node of which some wait: the kubelet meets them in the order that was foreseen."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from tests.apps.scheduler.parts import Parts

from numakube.api.pod import Container, Pod
from numakube.apps.scheduler.binding_cycle import BindingPlacement
from numakube.kubelet.admission_outcome import Rejected
from numakube.scheduling.cycle import Chosen
from numakube.scheduling.numa.caches.counts_belief import use_in_model
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.scheduling_queue import Place
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import GPU, World, bound, pod, resources, turns

SHAPES = (
    "2 sockets, 6 cores, smt 1, 16Gi, gpu 1",
    "3 sockets, 3 cores, smt 2, 12Gi, gpu 2",
    "4 sockets, 2 cores, smt 2, 8Gi, gpu 3",
)


@dataclass
class Site:
    """A node whose kubelet meets pods at the moment in which they are bound.

    Attributes:
        met: the pods in that order.
        rejected: those that the kubelet rejects, which must not be.
        surprised: those that get something else than was foreseen at that moment.
        unbound: names of pods whose binding the API server refuses.
    """

    world: World
    parts: Parts
    met: list[str] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)
    surprised: list[str] = field(default_factory=list)
    unbound: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, shape: str = SHAPES[0], policy: str = "single-numa-node") -> Site:
        """Return a site that is idle."""
        world = World()
        world.add_node("n0", policy, machine=shape)
        return cls.on(world)

    @classmethod
    def with_one_gpu(cls) -> Site:
        """Return one with 5 CPUs and a GPU in the first zone, and 4 CPUs in the second one."""
        world = World()
        kubelet = world.add_node("n0", machine=SHAPES[0])
        world.run(pod("leaves", "5"), "n0")
        world.run(pod("stays", "2", gpu=1), "n0")
        kubelet.remove("leaves")
        del world.pods[0]
        return cls.on(world)

    @classmethod
    def on(cls, world: World) -> Site:
        """Return the only node of *world*."""
        site = cls(world, Parts(world))
        site.parts.gate.on_bind = site.meet
        return site

    def meet(self, one: PodInfo, node: str) -> None:
        """Let the kubelet decide, and the API server tell of the pod."""
        kubelet, belief = self.world.kubelets[node], self.parts.engine.cache.belief(node)
        if one.name in self.unbound:
            raise LookupError(one.name)
        assert isinstance(belief, ExactBelief)
        foreseen = belief.foreseen[one.uid]
        self.met.append(one.name)
        if isinstance(kubelet.admit(one.pod), Rejected):
            self.rejected.append(one.name)
        elif use_in_model(kubelet, one.uid) != foreseen:
            self.surprised.append(one.name)
        there = PodInfo(bound(one.pod, node))
        self.parts.mirror.apply(self.parts.engine.cache.pod_seen(there))

    def report(self) -> None:
        """Let the exporter report what the kubelet has given out."""
        report = self.world.report("n0")
        self.parts.mirror.apply(self.parts.engine.cache.set_report(report))

    def waits(self, name: str) -> asyncio.Event:
        """Let a pod wait before it is bound; return what for."""
        return self.parts.gate.awaited.setdefault(name, asyncio.Event())

    def attempt(self, one: Pod, tasks: asyncio.TaskGroup) -> str:
        """Decide on a pod, and let it be bound if it has a place; return why it has none."""
        parts = self.parts
        entry = parts.taken(one)
        runtime = parts.engine.runtime_for(entry.pod.scheduler_name)
        decision = parts.parts.cycle.decide(entry.pod, runtime)
        if isinstance(decision, Chosen):
            placement = BindingPlacement(entry, runtime, decision.node, decision.state, 0.0)
            parts.bindings.start(placement, tasks)
            return ""
        parts.queue.remove(entry.uid)
        return decision.why


async def test_who_overtakes_a_pod_that_waits_gets_what_was_foreseen() -> None:
    """The kubelet gives it the zone that the other would have had if it had not waited."""
    site = Site.of()
    ready = site.waits("waits")
    async with asyncio.TaskGroup() as tasks:
        assert not site.attempt(pod("waits", "2"), tasks)
        await turns(5)
        assert not site.attempt(pod("overtakes", "3"), tasks)
        await turns(5)
        assert site.met == ["overtakes"]
        ready.set()
    assert site.met == ["overtakes", "waits"]
    assert site.rejected == site.surprised == []


async def test_nobody_takes_the_place_of_a_pod_that_waits() -> None:
    """Before it, the other would get the zone with the GPU, after it the other zone."""
    site = Site.with_one_gpu()
    ready, other = site.waits("waits"), pod("other", "4")
    async with asyncio.TaskGroup() as tasks:
        assert not site.attempt(pod("waits", "4", gpu=1), tasks)
        await turns(5)
        why = site.attempt(other, tasks)
        assert "1 would take the place of a pod that waits to be bound" in why
        ready.set()
        await turns(5)
        assert site.met == ["waits"]
        assert not site.attempt(other, tasks)
    assert site.met == ["waits", "other"]
    assert site.rejected == site.surprised == []


@pytest.mark.parametrize("comes", [True, False])
async def test_who_was_refused_for_a_pod_that_waits_comes_when_that_waits_no_longer(
    comes: bool,
) -> None:
    """Whether that one is bound or not; counts alone would not tell."""
    site = Site.with_one_gpu()
    parts, ready = site.parts, site.waits("waits")
    if not comes:
        site.unbound.add("waits")
    run = asyncio.create_task(parts.scheduler.run())
    parts.waits(pod("waits", "4", gpu=1))
    await turns(10)
    parts.waits(pod("other", "4"))
    await turns(10)
    assert parts.place_of("other") is Place.UNSCHEDULABLE
    ready.set()
    await parts.clock.advance(1.0)
    await turns(10)
    assert site.met == (["waits", "other"] if comes else ["other"])
    assert site.rejected == site.surprised == []
    run.cancel()
    await asyncio.wait([run])


def start_two_that_wait(site: Site, tasks: asyncio.TaskGroup) -> None:
    """Let two pods wait that fit only if the second one, which needs the GPU, comes first."""
    pods = (pod("first", "4"), pod("second", "4", gpu=1))
    for placement in [site.parts.placement(one) for one in pods]:
        site.parts.bindings.start(placement, tasks)


async def test_of_two_that_wait_both_are_bound_in_the_order_in_which_both_fit() -> None:
    """As was foreseen for them."""
    site = Site.with_one_gpu()
    first, second = site.waits("first"), site.waits("second")
    async with asyncio.TaskGroup() as tasks:
        start_two_that_wait(site, tasks)
        await turns(5)
        second.set()
        await turns(5)
        first.set()
    assert site.met == ["second", "first"]
    assert site.rejected == site.surprised == []


async def test_of_two_that_wait_the_one_that_does_not_fit_after_the_other_is_tried_again() -> None:
    """It is not the kubelet that has to find out."""
    site = Site.with_one_gpu()
    first, second = site.waits("first"), site.waits("second")
    async with asyncio.TaskGroup() as tasks:
        start_two_that_wait(site, tasks)
        await turns(5)
        first.set()
        await turns(5)
        assert site.met == ["first"]
        second.set()
    assert site.met == ["first"]
    assert site.parts.place_of("second") is Place.BACKOFF
    ((name, message, *_),) = site.parts.told.of("refused")
    assert name == "second"
    assert "its kubelet would refuse the pod by now (TopologyAffinityError)" in message


async def test_a_pod_that_waits_in_vain_keeps_nobody_out() -> None:
    """A pod of another scheduler has taken its place; the next one may have what is left."""
    site = Site.with_one_gpu()
    ready = site.waits("waits")
    async with asyncio.TaskGroup() as tasks:
        assert not site.attempt(pod("waits", "4", gpu=1), tasks)
        await turns(5)
        foreign = bound(pod("foreign", "1", gpu=1), "n0")
        site.world.kubelets["n0"].admit(foreign)
        site.parts.mirror.apply(site.parts.engine.cache.pod_seen(PodInfo(foreign)))
        assert not site.attempt(pod("next", "2"), tasks)
        await turns(5)
        assert site.met == ["next"]
        ready.set()
    assert site.met == ["next"]
    assert site.parts.place_of("waits") is Place.BACKOFF
    assert site.rejected == site.surprised == []


async def test_who_is_decided_on_while_a_pod_comes_out_of_its_wait_is_before_it() -> None:
    """The order of the bindings is that of the reservations, whichever task runs first."""
    site = Site.of()
    ready = site.waits("waits")
    async with asyncio.TaskGroup() as tasks:
        assert not site.attempt(pod("waits", "2"), tasks)
        await turns(5)
        ready.set()
        assert not site.attempt(pod("overtakes", "3"), tasks)
    assert site.met == ["overtakes", "waits"]
    assert site.rejected == site.surprised == []


async def test_a_pod_is_not_bound_if_it_fits_only_after_one_that_failed() -> None:
    """Its first container would get the zone with the GPU that its second one needs."""
    site = Site.with_one_gpu()
    site.unbound.add("fails")
    large = Container(name="large", resources=resources({"cpu": "4", "memory": "1Gi"}))
    with_gpu = Container(name="gpu", resources=resources({"cpu": "2", "memory": "1Gi", GPU: "1"}))
    async with asyncio.TaskGroup() as tasks:
        assert not site.attempt(pod("fails", "3"), tasks)
        assert not site.attempt(pod("follows", containers=(large, with_gpu)), tasks)
    assert site.met == []
    assert site.parts.place_of("follows") is Place.BACKOFF


def random_pod(rng: Random, name: str) -> Pod:
    """Return a pod of one to three containers, some with a GPU, some not Guaranteed."""

    def container(number: int) -> Container:
        amounts: dict[str, Any] = {"cpu": rng.choice("1123"), "memory": rng.choice(("1Gi", "3Gi"))}
        if rng.random() < 0.25:
            amounts[GPU] = "1"
        wanted = resources(amounts, guaranteed=rng.random() < 0.9)
        return Container(name=f"c{number}", resources=wanted)

    count = rng.choice((1, 1, 2, 3))
    return pod(name, containers=tuple(container(number) for number in range(count)))


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted", "best-effort"])
@pytest.mark.parametrize("seed", range(12))
async def test_whoever_waits_for_whatever_time_no_kubelet_is_surprised(
    seed: int, policy: str
) -> None:
    """Pods wait, are woken in any order, fail, and are reported or not."""
    rng = Random(f"{policy} {seed}")
    site = Site.of(rng.choice(SHAPES), policy)
    waiting: list[asyncio.Event] = []
    async with asyncio.TaskGroup() as tasks:
        for number in range(30):
            name = f"p{number}"
            if rng.random() < 0.5:
                waiting.append(site.waits(name))
            if rng.random() < 0.1:
                site.unbound.add(name)
            if waiting and rng.random() < 0.4:
                waiting.pop(rng.randrange(len(waiting))).set()
            site.attempt(random_pod(rng, name), tasks)
            await turns(rng.choice((0, 0, 1, 5)))
            if rng.random() < 0.2:
                site.report()
        rng.shuffle(waiting)
        for ready in waiting:
            ready.set()
            await turns(rng.choice((0, 1, 5)))
    assert site.met
    assert site.rejected == []
    assert site.surprised == []
