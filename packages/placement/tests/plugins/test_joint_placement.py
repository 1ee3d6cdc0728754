"""Where the scheduler itself gives CPUs, it chooses them together with the devices of claims."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from packages.placement.tests.plugins import wishes
from packages.placement.tests.plugins.wishes import cpus, given
from tests.scheduling.plugins.mixed_pods import (
    SHAPE,
    claim,
    decide,
    device,
    names,
    offer,
    scheduler,
    using,
)

from numakube.api.pod import Pod, PodResourceClaim, ResourceClaimUse
from numakube.kubelet import KubeletSettings
from numakube.kubelet.machines.shape_text import from_shape
from numakube.scheduling.cycle import Chosen, Refused
from numakube.testing import World, running
from numakube.values.cpuset import CpuSet
from numakube_placement.koordinator.allotments import allotment_of

SINGLE = {"numaTopologyPolicy": "SingleNUMANode"}
BEST_EFFORT = {"numaTopologyPolicy": "BestEffort"}
CONTAINERS = {**SINGLE, "numaTopologyScope": "container"}


def world_with(*places: int | None, machine: str = SHAPE) -> World:
    """Return a node whose kubelet aligns nothing, with a GPU on each of *places*."""
    world = World()
    world.add_node("n", machine=machine, settings=KubeletSettings())
    offer(world, "n", *(device(f"d{index}", place) for index, place in enumerate(places)))
    return world


def bound(name: str, cpu: str = "4", *, spec: dict[str, str] | None = None, **more: Any) -> Pod:
    """Return a pod with CPUs of its own and a claim."""
    return using(wishes.pod(name, cpu, spec=spec, bound=True, **more), "gpu")


def zones_of(shape: str, held: CpuSet) -> set[int]:
    """Return the NUMA nodes of CPUs."""
    return {
        node.id
        for node in from_shape(shape).nodes
        for core in node.cores
        for cpu in core.threads
        if cpu in held
    }


@pytest.mark.parametrize("spec", [SINGLE, {"numaTopologyPolicy": "Restricted"}, BEST_EFFORT, None])
def test_cpus_are_given_on_the_numa_node_that_has_a_device(spec: dict[str, str] | None) -> None:
    """By itself the scheduler would have taken the first one."""
    world = world_with(1)
    claim(world, "gpu")
    assert cpus(scheduler(world).run(bound("p", spec=spec))) == "4-5,12-13"


def test_a_device_is_taken_on_the_numa_node_that_has_cpus() -> None:
    """The first one is full."""
    world = world_with(0, 1)
    claim(world, "gpu")
    engine = scheduler(world)
    engine.run(wishes.pod("old", "6", spec=SINGLE, bound=True))
    one = bound("p", spec=SINGLE)
    assert names(engine.decide(one)) == ["d1"]
    assert cpus(engine.run(one)) == "4-5,12-13"


def test_a_node_without_a_numa_node_for_both_is_refused() -> None:
    """If the pod insists; the CPUs of the second NUMA node have no device."""
    world = world_with(0)
    claim(world, "gpu")
    engine = scheduler(world)
    engine.run(wishes.pod("old", "6", spec=SINGLE, bound=True))
    assert engine.reasons(bound("p", spec=SINGLE)) == {
        "no NUMA nodes have both CPUs for the pod and devices for its claims"
    }
    preferred = {"numakube.dev/claim-alignment": "Preferred"}
    assert cpus(engine.run(bound("p", spec=SINGLE, annotations=preferred))) == "4-5,12-13"


def test_cpus_go_to_the_device_of_an_allocated_claim() -> None:
    """Or the node is refused."""
    world = world_with(0, 1)
    claim(world, "gpu", devices=("d1",))
    engine = scheduler(world)
    assert cpus(engine.run(bound("p", "6", spec=SINGLE))) == "4-6,12-14"
    assert engine.reasons(bound("q", spec=SINGLE)) == {
        "resource claim default/gpu has devices on NUMA node 1, but there are no CPUs for the pod"
    }


def test_each_container_is_near_the_claim_that_it_uses() -> None:
    """Scope container: two containers, two claims, devices on two NUMA nodes."""
    world = world_with(0, 1)
    claim(world, "a", devices=("d1",))
    claim(world, "b")
    one = wishes.pod("p", spec=CONTAINERS, bound=True, containers={"x": "2", "y": "2"})
    uses = {"x": "a", "y": "b"}
    containers = []
    for each in one.spec.containers:
        assert each.resources is not None
        wanted = (ResourceClaimUse(name=uses[each.name]),)
        claims = msgspec.structs.replace(each.resources, claims=wanted)
        containers.append(msgspec.structs.replace(each, resources=claims))
    named = tuple(PodResourceClaim(name=name, resource_claim_name=name) for name in ("a", "b"))
    spec = msgspec.structs.replace(one.spec, containers=tuple(containers), resource_claims=named)
    engine = scheduler(world)
    shares = given(engine.run(msgspec.structs.replace(one, spec=spec))).containers
    assert {name: str(CpuSet(share.cpus)) for name, share in shares.items()} == {
        "x": "4,12",
        "y": "0,8",
    }


@settings(deadline=None, max_examples=60)
@drawn(
    policy=st.sampled_from(["SingleNUMANode", "Restricted", "BestEffort", None]),
    machine=st.sampled_from([SHAPE, "1 socket, 4 numa each, 4 cores, 8Gi"]),
    old=st.lists(st.integers(1, 3), max_size=5),
    places=st.lists(st.integers(0, 3), min_size=1, max_size=6),
    cpu=st.integers(1, 6),
    count=st.integers(1, 3),
    held=st.booleans(),
)
def test_both_are_together_or_the_pod_waits(
    policy: str | None,
    machine: str,
    old: list[int],
    places: list[int],
    cpu: int,
    count: int,
    held: bool,
) -> None:
    """Required is kept, whatever the policy, on machines of two and four NUMA nodes."""
    zones = 2 if machine == SHAPE else 4
    world = world_with(*(place % zones for place in places), machine=machine)
    engine = scheduler(world)
    for number, size in enumerate(old):
        filler = wishes.pod(f"old-{number}", str(size), spec=SINGLE, bound=True)
        if isinstance(engine.decide(filler), Chosen):
            world.pods.append(engine.run(filler))
    claim(world, "gpu", count, devices=("d0",) if held else ())
    spec = {"numaTopologyPolicy": policy} if policy else None
    one = bound("p", str(cpu), spec=spec, annotations={"numakube.dev/claim-alignment": "Required"})
    engine = scheduler(world)
    decision = engine.decide(one)
    if isinstance(decision, Refused):
        return
    chosen = ["d0"] if held else names(decision)
    there = running(engine.assume(one).pod, "n")
    allotment = allotment_of(there, [])
    assert allotment is not None
    near = zones_of(machine, CpuSet(allotment.total.cpus)) | set(allotment.total.zones)
    assert {places[int(name[1:])] % zones for name in chosen} <= near
    if policy == "SingleNUMANode":
        assert len(near) == 1


def test_a_device_of_unknown_place_goes_with_any_cpus() -> None:
    """There is nothing to compare."""
    world = world_with(None)
    claim(world, "gpu")
    assert names(decide(world, bound("p", spec=SINGLE))) == ["d0"]
