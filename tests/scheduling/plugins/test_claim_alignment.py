"""Devices of claims are taken near the CPUs and memory that the kubelet will give the pod."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.plugins.mixed_pods import (
    NUMA,
    ROOT,
    SHAPE,
    claim,
    claiming,
    decide,
    device,
    names,
    offer,
    scheduler,
)

from numakube.api.codec import convert
from numakube.api.resource_claims import AllocationResult
from numakube.api.resource_slices import Device
from numakube.dra.device_places import KNOWN_PLACES, DevicePlaces, DriverAttributes
from numakube.dra.features import Features
from numakube.dra.pools import DeviceInventory
from numakube.kubelet.admission_outcome import Rejected
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import HeldDevices, NearDevices
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import (
    CYCLE_CLAIMS,
    CycleClaims,
    NodeAllocation,
)
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube.topology import nrt_names


def half_full(policy: str = "single-numa-node") -> World:
    """Return a node of which the first NUMA node is nearly used up, with a GPU on each."""
    world = World()
    world.add_node("n", policy, machine=SHAPE)
    world.run(pod("old", "6"), "n")
    offer(world, "n", device("near-0", 0), device("near-1", 1))
    return world


def test_a_device_is_taken_where_the_kubelet_will_put_the_cpus() -> None:
    """Not the first one: its NUMA node has no room for the pod."""
    world = half_full()
    claim(world, "gpu")
    assert names(decide(world, claiming("p", "gpu"))) == ["near-1"]


def test_the_first_device_is_taken_where_that_is_configured() -> None:
    """As kube-scheduler does."""
    world = half_full()
    claim(world, "gpu")
    assert names(decide(world, claiming("p", "gpu"), deviceChoice="FirstFit")) == ["near-0"]


def test_a_node_without_a_device_near_the_cpus_is_refused() -> None:
    """Its kubelet insists on alignment, so the pod is not to run without."""
    world = half_full()
    claim(world, "taken", devices=("near-1",))
    claim(world, "gpu")
    decision = decide(world, claiming("p", "gpu"))
    assert isinstance(decision, Refused)
    ((_, status),) = decision.diagnosis.groups()
    assert status.reasons == (
        "no devices for the claims on NUMA node 1, where the kubelet will put the pod",
    )


@pytest.mark.parametrize(
    ("policy", "wish"),
    [("best-effort", None), ("single-numa-node", "Preferred"), ("single-numa-node", "None")],
)
def test_a_device_far_away_will_do_where_alignment_is_not_required(
    policy: str, wish: str | None
) -> None:
    """By the node's policy, or by the pod's own word."""
    world = half_full(policy)
    claim(world, "taken", devices=("near-1",))
    claim(world, "gpu")
    annotations = {"numakube.dev/claim-alignment": wish} if wish else {}
    decision = decide(world, claiming("p", "gpu", annotations=annotations))
    assert names(decision) == ["near-0"]


def test_a_node_with_near_devices_is_preferred_to_one_that_rates_higher() -> None:
    """Also where the kubelet does not insist; without such a node, the best one is taken."""
    world = World()
    for name, place in (("n", 1), ("near", 0)):
        world.add_node(name, "best-effort", machine=SHAPE)
        offer(world, name, device("d", place))
    world.run(pod("old", "2"), "n")
    claim(world, "gpu")
    decision = decide(world, claiming("p", "gpu"))
    assert isinstance(decision, Chosen)
    assert decision.node == "near"
    offer(world, "near", device("d", 1))
    decision = decide(world, claiming("p", "gpu"))
    assert isinstance(decision, Chosen)
    assert decision.node == "n"
    decision = decide(world, claiming("p", "gpu"), deviceChoice="FirstFit")
    assert isinstance(decision, Chosen)
    assert decision.node == "n"


def test_a_pod_can_require_alignment_where_the_kubelet_does_not() -> None:
    """The kubelet of a best-effort node keeps CPUs together as long as it can."""
    world = half_full("best-effort")
    claim(world, "taken", devices=("near-1",))
    claim(world, "gpu")
    annotations = {"numakube.dev/claim-alignment": "Required"}
    assert isinstance(decide(world, claiming("p", "gpu", annotations=annotations)), Refused)


def test_a_device_of_unknown_place_is_as_good_as_any() -> None:
    """There is nothing to compare."""
    world = half_full()
    offer(world, "n", device("somewhere"))
    claim(world, "gpu")
    assert names(decide(world, claiming("p", "gpu"))) == ["somewhere"]


def test_devices_stay_together_where_the_kubelet_aligns_nothing() -> None:
    """On one PCIe root, and on the one with the least room, so that others stay whole."""
    world = World()
    world.add_node("n", "none", machine=SHAPE)
    offer(
        world,
        "n",
        *(device(f"a{i}", 0, "pci0000:00") for i in range(3)),
        *(device(f"b{i}", 1, "pci0000:80") for i in range(2)),
    )
    claim(world, "two", 2)
    decision = decide(world, claiming("p", "two", cpu="1", guaranteed=False))
    assert names(decision) == ["b0", "b1"]


def test_a_device_is_near_each_of_the_numa_nodes_that_it_is_local_to() -> None:
    """A list has no order: the kubelet may take any of them."""
    world = half_full()
    offer(world, "n", device("far", 0), device("card", [0, 1]))
    claim(world, "nic")
    assert names(decide(world, claiming("p", "nic"))) == ["card"]
    offer(world, "n", device("far", 0), device("card", [0, 7]))
    assert isinstance(decide(world, claiming("p", "nic")), Refused)


def test_a_claim_that_holds_such_a_device_is_near_as_well() -> None:
    """Of several devices each has to be, at one of its own NUMA nodes."""
    world = half_full()
    offer(world, "n", device("card", [0, 1]), device("near-1", 1), device("far", 0))
    claim(world, "held", devices=("card", "near-1"))
    assert isinstance(decide(world, claiming("p", "held")), Chosen)
    claim(world, "held", devices=("card", "far"))
    decision = decide(world, claiming("p", "held"))
    assert isinstance(decision, Refused)
    assert "has devices on NUMA nodes 0, 1, but" in decision.diagnosis.message()


def test_devices_are_kept_together_by_a_numa_node_that_they_have_in_common() -> None:
    """Where the kubelet aligns nothing."""
    world = World()
    world.add_node("n", "none", machine=SHAPE)
    offer(world, "n", device("a", 0), device("b", 1), device("c", [0, 1]), device("d", 0))
    claim(world, "two", 2)
    decision = decide(world, claiming("p", "two", cpu="1", guaranteed=False))
    assert names(decision) == ["b", "c"]


def test_all_devices_are_near_if_each_is_local_to_the_numa_node() -> None:
    """A request for all has no choice."""
    world = half_full()
    offer(world, "n", device("a", 1), device("b", [1, 0]))
    claim(world, "all", mode="All")
    assert names(decide(world, claiming("p", "all"))) == ["a", "b"]
    offer(world, "n", device("a", 0), device("b", [1, 0]))
    assert isinstance(decide(world, claiming("p", "all")), Refused)


def test_places_are_read_from_attributes_of_several_drivers() -> None:
    """A list names NUMA nodes that are equally local; a driver's own attribute needs no domain."""
    listed = convert(Device, {"name": "d", "attributes": {NUMA: {"ints": [6, 4, -1]}}})
    nowhere = convert(Device, {"name": "d", "attributes": {NUMA: {"int": -1}}})
    own = convert(Device, {"name": "d", "attributes": {"numaNode": {"int": 3}}})
    rooted = convert(Device, {"name": "d", "attributes": {ROOT: {"string": "pci0000:80"}}})
    assert KNOWN_PLACES.numa_nodes(listed, "x.example") == {4, 6}
    assert KNOWN_PLACES.numa_nodes(nowhere, "x.example") == frozenset()
    assert KNOWN_PLACES.numa_nodes(own, "dra.net") == {3}
    assert KNOWN_PLACES.numa_nodes(own, "x.example") == frozenset()
    assert KNOWN_PLACES.pcie_root(rooted, "x.example") == "pci0000:80"


def test_a_configuration_names_the_attributes_of_a_driver() -> None:
    """Instead of those that are known, which may be wrong; an empty name is none."""
    attributes = {NUMA: {"int": 0}, "x.example/cell": {"int": 1}, "root": {"string": "a"}}
    one = convert(Device, {"name": "d", "attributes": attributes})
    places = DevicePlaces(
        {
            "x.example": DriverAttributes(numa_node="cell", pcie_root="x.example/root"),
            "y.example": DriverAttributes(numa_node=""),
        }
    )
    names_of = ("x.example", "y.example", "z.example")
    assert [set(places.numa_nodes(one, name)) for name in names_of] == [{1}, set(), {0}]
    assert places.pcie_root(one, "x.example") == "a"


def test_a_pci_address_is_looked_up_in_the_report_of_the_node() -> None:
    """For devices of the node itself; what the driver says of the NUMA node comes first."""
    world = half_full()
    address = {"resource.kubernetes.io/pciBusID": {"string": "00000000:81:00.0"}}
    far = {"resource.kubernetes.io/pciBusID": {"string": "0000:02:00.0"}}
    offer(
        world,
        "n",
        {"name": "by-address-0", "attributes": far},
        {"name": "by-address-1", "attributes": address},
    )
    claim(world, "gpu")
    assert names(decide(world, claiming("p", "gpu"))) == ["by-address-0"]
    report = world.report("n")
    annotations = {**report.metadata.annotations, nrt_names.PCI_ANNOTATION: "0000:00=0 0000:80=1"}
    meta = msgspec.structs.replace(report.metadata, annotations=annotations)
    world.topologies["n"] = msgspec.structs.replace(report, metadata=meta)
    assert names(decide(world, claiming("p", "gpu"))) == ["by-address-1"]


# Claims that have their devices already.


def test_an_allocated_claim_is_compared_with_the_choice_of_the_kubelet() -> None:
    """Its device is not where the kubelet will put the pod: the node is refused, and says why."""
    world = half_full()
    claim(world, "mine", devices=("near-0",))
    assert scheduler(world).reasons(claiming("p", "mine")) == {
        "resource claim default/mine has devices on NUMA node 0, but the kubelet will put the pod "
        "on NUMA node 1"
    }
    claim(world, "other", devices=("near-1",))
    assert isinstance(decide(world, claiming("p", "other")), Chosen)
    assert isinstance(decide(world, claiming("p", "mine"), deviceChoice="FirstFit"), Chosen)


def test_a_pod_that_runs_far_from_its_devices_is_told() -> None:
    """It prefers alignment, and the kubelet will choose otherwise."""
    world = half_full()
    claim(world, "mine", devices=("near-0",))
    annotations = {"numakube.dev/claim-alignment": "Preferred"}
    decision = decide(world, claiming("p", "mine", annotations=annotations))
    assert isinstance(decision, Chosen)
    known = decision.state.read(CYCLE_CLAIMS)
    assert known is not None
    assert known.far == {
        "n": "resource claim default/mine has devices on NUMA node 0, but the kubelet will put "
        "the pod on NUMA node 1"
    }


def test_further_claims_follow_the_kubelet_and_not_an_allocated_one() -> None:
    """Each device that is near is worth having."""
    world = half_full("best-effort")
    offer(world, "n", *(device(f"d{number}", number % 2) for number in range(4)))
    claim(world, "mine", devices=("d0",))
    claim(world, "new")
    assert names(decide(world, claiming("p", "mine", "new"))) == ["d1"]


def test_devices_stay_near_those_of_allocated_claims_where_the_kubelet_aligns_nothing() -> None:
    """A new claim goes to the PCIe root of the pod's other claim."""
    world = World()
    world.add_node("n", "none", machine=SHAPE)
    roots = ("pci0000:00", "pci0000:00", "pci0000:80", "pci0000:80")
    offer(world, "n", *(device(f"d{i}", i // 2, root) for i, root in enumerate(roots)))
    claim(world, "mine", devices=("d2",))
    claim(world, "new")
    one = claiming("p", "mine", "new", cpu="1", guaranteed=False)
    assert names(decide(world, one)) == ["d3"]


def test_a_pod_that_was_refused_is_tried_again_when_others_come_or_go() -> None:
    """The kubelet may then turn to the NUMA node that has devices."""
    world = half_full()
    claim(world, "mine", devices=("near-0",))
    engine = scheduler(world)
    plugin = engine.runtime.profile.plugins()["DynamicResources"]
    one = PodInfo(claiming("p", "mine"))
    assert isinstance(engine.decide(one.pod), Refused)
    for kind in (EventKind.POD_ADDED, EventKind.POD_DELETED, EventKind.TOPOLOGY_CHANGED):
        assert kind in plugin.wakes_on
        assert plugin.wakes(one, ClusterEvent(kind=kind, node="n"))
        assert not plugin.wakes(PodInfo(pod("q")), ClusterEvent(kind=kind, node="n"))


def test_a_refusal_is_not_remembered_when_another_pod_comes() -> None:
    """It fills the NUMA node that the kubelet would have taken."""
    world = World()
    world.add_node("n", machine=SHAPE)
    offer(world, "n", device("near-1", 1))
    claim(world, "gpu")
    engine, waiting = scheduler(world), claiming("p", "gpu")
    assert isinstance(engine.decide(waiting), Refused)
    engine.run(pod("filler", "7"))
    assert isinstance(engine.decide(waiting), Chosen)


@settings(deadline=None, max_examples=50)
@given(
    policy=st.sampled_from(["single-numa-node", "restricted", "best-effort", "none"]),
    scope=st.sampled_from(["container", "pod"]),
    old=st.lists(st.integers(1, 5), max_size=4),
    places=st.lists(st.integers(0, 1), min_size=1, max_size=6),
    taken=st.sets(st.integers(0, 5)),
    cpus=st.integers(1, 6),
    count=st.integers(1, 3),
)
def test_what_is_promised_comes_true(
    policy: str,
    scope: str,
    old: list[int],
    places: list[int],
    taken: set[int],
    cpus: int,
    count: int,
) -> None:
    """Where the kubelet insists on alignment, it puts the pod on the NUMA nodes of its devices."""
    world = World()
    kubelet = world.add_node("n", policy, scope, machine=SHAPE)
    for number, size in enumerate(old):
        if not isinstance(kubelet.clone().admit(pod(f"old-{number}", str(size))), Rejected):
            world.run(pod(f"old-{number}", str(size)), "n")
    offer(world, "n", *(device(f"d{i}", place) for i, place in enumerate(places)))
    held = tuple(f"d{i}" for i in sorted(taken) if i < len(places))
    if held:
        claim(world, "taken", devices=held)
    claim(world, "gpus", count)
    one = claiming("p", "gpus", cpu=str(cpus))
    decision = decide(world, one)
    if not isinstance(decision, Chosen):
        return
    chosen = names(decision)
    assert not set(chosen) & set(held)
    assert len(chosen) == count
    outcome = kubelet.clone().admit(one)
    assert not isinstance(outcome, Rejected)
    if policy in {"single-numa-node", "restricted"}:
        nodes = {
            number for block in outcome.containers["main"].memory for number in block.numa_nodes
        }
        assert {places[int(name[1:])] for name in chosen} <= nodes


def test_all_claims_of_a_container_are_near_that_container() -> None:
    """Not near another one of the pod that the kubelet puts elsewhere."""
    world = World()
    world.add_node("n", machine=SHAPE)
    near = [device(f"d{number}-{numa}", numa) for numa in (0, 1) for number in range(2)]
    offer(world, "n", *near)
    for name in ("x", "y"):
        claim(world, name)
    one = claiming("p", "x", "y", cpu="6")
    (user,) = one.spec.containers
    other = msgspec.structs.replace(pod("p", "6").spec.containers[0], name="first")
    spec = msgspec.structs.replace(one.spec, containers=(other, user))
    both = msgspec.structs.replace(one, spec=spec)
    assert sorted(names(decide(world, both))) == ["d0-1", "d1-1"]


# ------------------------------------------------------------------------------------------------
# Where the devices of a pod are, by the NUMA nodes that they are local to.


def devices_of(*places: int | list[int] | None) -> tuple[NearDevices, NodeAllocation]:
    """Return a node with a device at each of *places*, and an allocation of all of them."""
    world = World()
    world.add_node("n", machine=SHAPE)
    offered = [device(f"d{number}", at) for number, at in enumerate(places)]
    offer(world, "n", *offered)
    engine = world.scheduler().engine
    node = engine.cluster.node("n")
    assert node is not None
    objects = engine.cluster.objects
    inventory = DeviceInventory(objects.resource_slices.values(), Features())
    known = CycleClaims(objects, [], [], inventory=inventory)
    results = [
        {"request": "r", "driver": "gpu.example", "pool": "n", "device": entry["name"]}
        for entry in offered
    ]
    allocation = convert(AllocationResult, {"devices": {"results": results}})
    return NearDevices(known, node), NodeAllocation(allocations=(allocation,))


@pytest.mark.parametrize(
    ("places", "nodes"),
    [
        ((), set()),
        ((None,), set()),
        ((0,), {0}),
        ((1, None), {1}),
        ((0, 1), {0, 1}),
        (([0, 1], 1), {1}),
        (([0, 1], [0, 1]), {0, 1}),
        (([0, 1], 0, 1), {0, 1}),
    ],
)
def test_devices_are_on_the_numa_nodes_that_all_are_local_to_or_else_any(
    places: tuple[int | list[int] | None, ...], nodes: set[int]
) -> None:
    """Those of unknown places do not count."""
    near, found = devices_of(*places)
    assert near.numa_nodes(found) == nodes


@pytest.mark.parametrize(
    ("places", "near", "is_near"),
    [
        (({0}, {0}), {0}, True),
        (({0}, {1}), {0}, False),
        (({0}, {1}), {0, 1}, True),
        (({0, 1}, {1}), {1}, True),
        ((), {0}, True),
    ],
)
def test_a_claim_is_near_if_every_device_is(
    places: tuple[set[int], ...], near: set[int], is_near: bool
) -> None:
    """Local to one of the NUMA nodes is enough for a device."""
    held = HeldDevices(0, tuple(map(frozenset, places)))
    assert held.is_near(frozenset(near)) is is_near
    assert held.nodes == set().union(*places)
