"""Which extended resources claims serve, by the version of the server and its device classes."""

from __future__ import annotations

import pytest
from tests.scheduling.plugins.mixed_pods import SHAPE, decide, device, names, offer

from numakube.api.meta import ObjectMeta
from numakube.api.resource_slices import DeviceClass, DeviceClassSpec
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.numa.topology_match import make_plugin
from numakube.scheduling.plugins.dynamic_resources import DynamicResources
from numakube.scheduling.plugins.plugin_arguments import DynamicResourcesArgs
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod

NAMED = "vendor.example/gpu"
IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


@pytest.mark.parametrize(
    ("minor", "named", "gates", "served"),
    [
        (37, True, {}, {NAMED, IMPLICIT}),
        (37, False, {}, {IMPLICIT}),
        (37, True, {"DRAExtendedResource": False}, set()),
        (35, True, {}, {NAMED, IMPLICIT}),
        (35, False, {}, set()),
        (35, False, {"DRAExtendedResource": True}, {IMPLICIT}),
        (35, True, {"DRAExtendedResource": False}, set()),
        (33, True, {}, set()),
    ],
)
def test_the_gate_of_an_older_server_shows_in_its_classes(
    minor: int, named: bool, gates: dict[str, bool], served: set[str]
) -> None:
    """A server with the gate off does not keep the name, so one that has is taken to have it on."""
    spec = DeviceClassSpec(extended_resource_name=NAMED if named else None)
    objects = ClusterObjects()
    args = DynamicResourcesArgs(feature_gates=gates)
    plugin = DynamicResources(args, objects=objects, minor=minor)
    assert not plugin.serves(NAMED)
    objects.device_classes["gpu"] = DeviceClass(metadata=ObjectMeta(name="gpu"), spec=spec)
    assert {name for name in (NAMED, IMPLICIT, "cpu") if plugin.serves(name)} == served


@pytest.fixture
def without_plugin() -> World:
    """Return a node whose GPUs only a DRA driver offers; NUMA node 0 is nearly used up."""
    world = World()
    for name in ("bare", "n"):
        world.add_node(name, "single-numa-node", machine=SHAPE)
    world.run(pod("old", "6"), "n")
    offer(world, "n", device("near-0", 0), device("near-1", 1))
    return world


@pytest.mark.parametrize(("choice", "taken"), [("FirstFit", "near-0"), ("Aligned", "near-1")])
def test_a_claim_serves_what_no_device_plugin_offers(
    without_plugin: World, choice: str, taken: str
) -> None:
    """With the device that kube-scheduler takes, or with one near the CPUs."""
    decision = decide(without_plugin, pod("p", "4", also={IMPLICIT: "1"}), deviceChoice=choice)
    assert names(decision) == [taken]


def test_upstream_mode_refuses_what_no_device_plugin_offers(without_plugin: World) -> None:
    """The Go plugin takes a resource that is not allocatable on the node for missing there."""
    scheduler = without_plugin.scheduler(
        plugins={
            "NodeResourceTopologyMatch": lambda given, handle: make_plugin(
                {**given, "mode": "upstream"}, handle
            )
        }
    )
    assert "cannot align container" in scheduler.reasons(pod("p", "4", also={IMPLICIT: "1"}))


def test_a_device_that_was_reserved_in_vain_goes_to_the_next_pod() -> None:
    """There is one device: while it is in flight nobody else gets it."""
    world = World()
    world.add_node("n", "single-numa-node", machine=SHAPE)
    offer(world, "n", device("only", 0))
    scheduler = world.scheduler()
    first, second = (pod(name, "1", also={IMPLICIT: "1"}) for name in ("first", "second"))
    decision = scheduler.decide(first)
    assert isinstance(decision, Chosen)
    node = scheduler.engine.cluster.node("n")
    assert node is not None
    assert scheduler.runtime.reserve(decision.state, PodInfo(first), node).ok
    scheduler.engine.cluster.place(PodInfo(first), "n")
    assert isinstance(scheduler.decide(second), Refused)
    scheduler.runtime.unreserve(decision.state, PodInfo(first), "n")
    scheduler.engine.cluster.remove_pod("first")
    assert isinstance(scheduler.decide(second), Chosen)
