"""Devices of claims are taken near the CPUs and memory that the kubelet will give the pod."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.containers import ResourceClaimUse
from numakube.api.pod import Pod, PodResourceClaim
from numakube.api.resource_claims import AllocationResult, ResourceClaim
from numakube.api.resource_slices import Device, DeviceClass, ResourceSlice
from numakube.dra.device_places import KNOWN_PLACES, DevicePlaces, DriverAttributes
from numakube.kubelet.outcome import Rejected
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.dra_replay_api import ReplayedApi
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.dynamic_resources.cycle_claims import CYCLE_CLAIMS
from numakube.testing import World, pod
from numakube.topology import nrt_names

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
NUMA = "resource.kubernetes.io/numaNode"
ROOT = "resource.kubernetes.io/pcieRoot"


def device(name: str, numa: int | None = None, root: str = "") -> dict[str, Any]:
    """Return a device of a slice."""
    attributes: dict[str, Any] = {} if numa is None else {NUMA: {"int": numa}}
    return {"name": name, "attributes": attributes | ({ROOT: {"string": root}} if root else {})}


def offer(world: World, node: str, *devices: dict[str, Any]) -> None:
    """Publish devices of a node."""
    tree = {
        "metadata": {"name": node},
        "spec": {
            "driver": "gpu.example",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }
    world.objects.resource_slices[node] = convert(ResourceSlice, tree)
    kind = convert(DeviceClass, {"metadata": {"name": "gpu"}, "spec": {}})
    world.objects.device_classes["gpu"] = kind


def claim(world: World, name: str, count: int = 1, *, devices: tuple[str, ...] = ()) -> None:
    """Add a claim for GPUs; with *devices* it has them already."""
    results = [
        {"request": "r", "driver": "gpu.example", "pool": "n", "device": one} for one in devices
    ]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": count}}
    tree: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {"devices": {"requests": [request]}},
        "status": {"allocation": {"devices": {"results": results}}} if devices else {},
    }
    world.objects.resource_claims[f"default/{name}"] = convert(ResourceClaim, tree)


def claiming(name: str, *claims: str, cpu: str = "4", **more: Any) -> Pod:
    """Return a pod whose container uses claims."""
    one = pod(name, cpu, resource_claims=tuple(_named(each) for each in claims), **more)
    (main,) = one.spec.containers
    assert main.resources is not None
    uses = tuple(ResourceClaimUse(name=each) for each in claims)
    wanted = msgspec.structs.replace(main.resources, claims=uses)
    main = msgspec.structs.replace(main, resources=wanted)
    spec = msgspec.structs.replace(one.spec, containers=(main,))
    return msgspec.structs.replace(one, spec=spec)


def _named(name: str) -> PodResourceClaim:
    return PodResourceClaim(name=name, resource_claim_name=name)


def decide(world: World, one: Pod, **args: str) -> Chosen | Refused:
    """Return what a scheduler decides that may change claims."""

    def make(given: Any, handle: Any) -> DynamicResources:
        objects = handle.cluster.objects
        return DynamicResources.from_args(
            {**given, **args}, objects=objects, actions=ReplayedApi(objects)
        )

    return world.scheduler(plugins={"DynamicResources": make}).decide(one)


def allocations(decision: Chosen | Refused) -> tuple[AllocationResult, ...]:
    """Return what the claims get."""
    assert isinstance(decision, Chosen), decision
    known = decision.state.read(CYCLE_CLAIMS)
    assert known is not None
    return known.nodes[decision.node].allocations


def names(decision: Chosen | Refused) -> list[str]:
    """Return the devices that were chosen."""
    return [one.device for each in allocations(decision) for one in each.devices.results]


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


def test_places_are_read_from_attributes_of_several_drivers() -> None:
    """A list names the device's own NUMA node first; a driver's own attribute needs no domain."""
    listed = convert(Device, {"name": "d", "attributes": {NUMA: {"ints": [1, 0]}}})
    own = convert(Device, {"name": "d", "attributes": {"numaNode": {"int": 3}}})
    rooted = convert(Device, {"name": "d", "attributes": {ROOT: {"string": "pci0000:80"}}})
    assert KNOWN_PLACES.numa_node(listed, "x.example") == 1
    assert KNOWN_PLACES.numa_node(own, "dra.net") == 3
    assert KNOWN_PLACES.numa_node(own, "x.example") is None
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
    assert [places.numa_node(one, name) for name in ("x.example", "y.example", "z.example")] == [
        1,
        None,
        0,
    ]
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
