"""Devices of DRA drivers: where they are, who holds them, and where people see that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.insight.claim_world import (
    DRIVER,
    NUMA,
    add_claim,
    add_slice,
    claiming,
    device,
    mixed,
    two_zones,
)

from numakube.api.codec import convert
from numakube.api.resource_slices import DeviceTaintRule
from numakube.dra.device_ids import DeviceId
from numakube.insight.dra_devices import DraDevice, zones_needed, zones_of_devices
from numakube.insight.explain.running_pod import placement_of
from numakube.insight.node_map.map_json import picture_document
from numakube.insight.node_map.map_words import device_words
from numakube.insight.node_map.picture_from_facts import node_picture
from numakube.insight.node_map.planned_picture import PlannedNode, planned
from numakube.insight.node_map.terminal_map import text_of
from numakube.insight.scheduler_engine import engine_of
from numakube.insight.usage.pod_alignment import Alignment, pod_usages
from numakube.insight.usage.zone_usage import node_usage
from numakube.kubelet.machine import Closeness
from numakube.testing import World, pod
from numakube_planning.audit import audit

if TYPE_CHECKING:
    from numakube.insight.facts import ClusterFacts

PCI = "resource.kubernetes.io/pciBusID"


def test_the_map_draws_devices_where_they_are_with_those_who_hold_them() -> None:
    """Beside the devices of plugins, in the zone that the driver tells."""
    text = text_of(node_picture(mixed().facts(), "node-a"))
    lines = text.splitlines()
    (row,) = [line for line in lines if line.startswith("│ gpu.example")]
    assert row.split("││")[0].split() == [
        *("│", "gpu.example", "+", "·", "1", "of", "2", "free", "│"),
        *("│", "gpu.example", "·", "A", "1", "of", "2", "free", "│"),
    ]
    assert lines[lines.index("Devices without NUMA node") + 1].split() == [
        *("gpu.example", "D", "0", "of", "1", "free"),
    ]
    assert "A default/train       zones 0+1 · CPUs 1-2,9-10 · 1Gi · 1 gpu.example" in lines
    assert "B default/one         zone 0 · 1 gpu.example" in lines
    assert "D claim default/kept  1 gpu.example" in lines
    assert lines[-1] == "· free · r reserved for the system · + shared by several pods"


def test_the_map_says_who_shares_a_device_by_which_claim() -> None:
    """In tooltips, and for programs."""
    picture = node_picture(mixed().facts(), "node-a")
    shared = next(one for one in picture.devices() if one.id == "gpu-0")
    assert device_words(picture, shared) == (
        "gpu.example gpu-0: of default/one, default/two by claim default/shared, near zone 0"
    )
    documents = picture_document(picture)["zones"][0]["devices"]
    document = next(document for document in documents if document.get("id") == "gpu-0")
    assert document["pods"] == ["default/one", "default/two"]
    assert document["claims"] == ["default/shared"]


def test_a_plan_gives_back_the_devices_of_pods_that_go() -> None:
    """A claim that no pod uses is deallocated; one that others use is not."""
    plan = planned(mixed().facts(), "node-a", leaving=["default/train", "default/one"])
    assert isinstance(plan, PlannedNode)
    after = {one.id: one for one in plan.picture.devices() if one.resource == DRIVER}
    assert (after["gpu-3"].owner, after["gpu-3"].was) == (None, "default/train")
    assert plan.picture.owner_name(after["gpu-0"].owner) == "default/two"


def test_top_counts_devices_by_driver_zone_and_node() -> None:
    """Those without a NUMA node count on the node alone."""
    node, zones = node_usage(mixed().facts(), "node-a")
    assert [(zone.free[DRIVER], zone.allocatable[DRIVER]) for zone in zones] == [(1, 2), (1, 2)]
    assert (node.free[DRIVER], node.allocatable[DRIVER]) == (2, 5)


def test_devices_beside_which_no_cpus_are_left_are_stranded() -> None:
    """As those of device plugins are."""
    world = two_zones("single-numa-node")
    world.run(pod("full", cpu="7", memory="1Gi"), "node-a")
    node, zones = node_usage(world.facts(), "node-a")
    assert zones[0].stranded[DRIVER] == 2
    assert DRIVER not in zones[1].stranded
    assert node.stranded[DRIVER] == 2


def test_a_pod_is_spread_if_its_claimed_device_is_elsewhere() -> None:
    """The kubelet does not know; the claim tells."""
    facts = mixed().facts()
    train, one, _ = pod_usages(facts, facts.pods)
    assert (train.words, train.devices) == ("spread over 2 zones", {DRIVER: 1})
    assert (one.words, one.zones) == ("aligned", (0,))


def test_devices_that_cannot_be_had_say_why() -> None:
    """A taint of the driver, a rule of an administrator, a pool that is invalid."""
    world = two_zones()
    taint = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
    add_slice(world, "node-a", [device("a", 0, taints=[taint]), device("b", 0), device("c", 1)])
    rule = {"metadata": {"name": "r"}, "spec": {
        "taint": {"key": "off", "effect": "NoExecute"},
        "deviceSelector": {"driver": DRIVER, "pool": "node-a", "device": "b"},
    }}  # fmt: skip
    world.objects.device_taint_rules["r"] = convert(DeviceTaintRule, rule)
    troubles = [one.trouble for one in world.facts().dra_devices("node-a")]
    assert troubles == ["taint broken=yes:NoSchedule", "taint off:NoExecute", ""]
    node, _ = node_usage(world.facts(), "node-a")
    assert (node.free[DRIVER], node.allocatable[DRIVER]) == (1, 1)

    add_slice(world, "node-a", [device("a", 0), device("a", 1)])
    first, _ = world.facts().dra_devices("node-a")
    assert (first.is_free, first.trouble) == (
        False,
        "its pool is invalid: duplicate device name a",
    )


def test_partitions_of_a_device_that_is_held_are_not_free() -> None:
    """They draw on the same counters; nobody holds them, and the map says so."""
    world = two_zones()
    consumes = [{"counterSet": "gpu", "counters": {"slices": {"value": "4"}}}]
    half = [{"counterSet": "gpu", "counters": {"slices": {"value": "2"}}}]
    sets = [{"name": "gpu", "counters": {"slices": {"value": "4"}}}]
    pool = {"name": "node-a", "generation": 1, "resourceSliceCount": 2}
    add_slice(world, "counters", [], nodeName="node-a", pool=pool, sharedCounters=sets)
    devices = [
        device("whole", 0, consumesCounters=consumes),
        device("half-0", 0, consumesCounters=half),
        device("half-1", 0, consumesCounters=half),
    ]
    add_slice(world, "node-a", devices, pool=pool)
    add_claim(world, "part", "node-a/half-0")
    found = {one.id.device: one for one in world.facts().dra_devices("node-a")}
    assert [name for name, one in found.items() if one.is_free] == ["half-1"]
    assert found["whole"].is_blocked
    assert "x parts of it are held" in text_of(node_picture(world.facts(), "node-a"))


def test_a_device_for_many_is_free_while_capacity_is_left() -> None:
    """Consumable capacity."""
    world = two_zones()
    add_slice(
        world,
        "node-a",
        [device("nic", 0, allowMultipleAllocations=True, capacity={"bw": {"value": "10"}})],
    )
    add_claim(world, "a", "node-a/nic", shareID="1", consumedCapacity={"bw": "6"})
    (nic,) = world.facts().dra_devices("node-a")
    assert (nic.is_free, nic.claims) == (True, ("default/a",))
    add_claim(world, "b", "node-a/nic", shareID="2", consumedCapacity={"bw": "4"})
    (nic,) = world.facts().dra_devices("node-a")
    assert (nic.is_free, nic.claims) == (False, ("default/a", "default/b"))


def test_amounts_that_cannot_be_read_end_nothing() -> None:
    """A bundle may have anything in it."""
    world = two_zones()
    add_claim(world, "odd", "node-a/gpu-0", shareID="1", consumedCapacity={"bw": "much"})
    assert world.facts().dra_devices("node-a") == ()


def test_devices_that_several_nodes_reach_are_on_none() -> None:
    """They would be counted once a node."""
    world = two_zones()
    add_slice(world, "node-a", [device("far", 0)], nodeName=None, allNodes=True)
    assert world.facts().dra_devices("node-a") == ()


def test_devices_of_claims_are_paired_with_those_of_plugins() -> None:
    """By the PCI addresses that their driver publishes and the node's report knows."""
    world = World()
    shape = "1 socket, 8 cores, 32Gi, gpu 2, nic 2, 2 switches"
    kubelet = world.add_node("node-a", "best-effort", machine=shape)
    cards = [
        {"name": f"card-{number}", "attributes": {PCI: {"string": one.pci}, NUMA: {"int": 0}}}
        for number, one in enumerate(kubelet.machine.devices["vendor.example/nic"])
    ]
    add_slice(world, "node-a", cards)
    add_claim(world, "far", "node-a/card-1", pods=["train"])
    world.run(claiming("train", "far", also={"vendor.example/gpu": "1"}), "node-a")

    node, (zone,) = node_usage(world.facts(), "node-a")

    pair = DRIVER, "vendor.example/gpu"
    (found,) = [other for other in node.pairs if other.resources == pair]
    assert found in zone.pairs
    assert (found.total, found.free, found.best) == (2, 0, Closeness.NODE)
    (train,) = pod_usages(world.facts(), world.facts().pods)
    assert train.closeness == "NODE"


def _with_card(zones: list[int]) -> World:
    """Return a pod with CPUs on the first NUMA node and a card that is local to *zones*."""
    world = two_zones("single-numa-node")
    add_slice(world, "node-a", [device("card", zones), device("free", zones), device("gpu", 1)])
    world.run(claiming("train", "nic", cpu="4", memory="1Gi"), "node-a")
    add_claim(world, "nic", "node-a/card", pods=["train"])
    return world


def test_a_pod_is_aligned_with_a_device_that_is_local_to_its_zone_among_others() -> None:
    """In the list, in the audit and in the explanation."""
    facts = _with_card([1, 0]).facts()
    (train,) = pod_usages(facts, facts.pods)
    assert (train.alignment, train.zones) == (Alignment.ALIGNED, (0,))
    assert audit(facts, facts.pods).misaligned == ()
    text = text_of(node_picture(facts, "node-a"))
    assert "A default/train  zone 0 · " in text
    node = engine_of(facts).cluster.snapshot().node("node-a")
    assert node is not None
    placement = placement_of(facts, node, facts.pods[0])
    assert placement.zones == (0,)
    assert "gpu.example card (zones 0+1)" in placement.words[-1]


def test_a_pod_is_spread_if_its_device_is_local_to_other_zones_alone() -> None:
    """The list makes nothing near that is not in it."""
    facts = _with_card([1, 7]).facts()
    (train,) = pod_usages(facts, facts.pods)
    assert (train.alignment, train.zones) == (Alignment.SPREAD, (0, 1))


def test_a_device_of_several_zones_is_drawn_in_each_and_counted_once() -> None:
    """By node; by zone it is there for both."""
    facts = _with_card([0, 1]).facts()
    node, zones = node_usage(facts, "node-a")
    assert [(zone.free[DRIVER], zone.allocatable[DRIVER]) for zone in zones] == [(1, 2), (2, 3)]
    assert (node.free[DRIVER], node.allocatable[DRIVER]) == (2, 3)
    drawn = [entry.get("id") for zone in _document(facts)["zones"] for entry in zone["devices"]]
    assert drawn.count("card") == 2


def _document(facts: ClusterFacts) -> dict[str, Any]:
    return picture_document(node_picture(facts, "node-a"))


def test_devices_are_told_to_be_in_as_few_zones_as_can_be() -> None:
    """Beside given ones first."""
    cards = [
        DraDevice(id=DeviceId("d", "p", str(number)), zones=zones)
        for number, zones in enumerate([(4, 5, 6), (5, 7), (6, 7), ()])
    ]
    assert zones_of_devices(cards, {6}) == {5, 6}
    assert zones_of_devices(cards) == {5, 6}
    assert zones_of_devices(cards[:2]) == {5}
    assert zones_of_devices(cards[3:]) == set()
    assert zones_needed(cards[:2], cards) == 1
    assert zones_needed(cards[:3], cards) == 2


def test_a_free_device_is_not_stranded_while_one_of_its_zones_has_cpus() -> None:
    """It counts if none has, and then once."""
    world = two_zones("single-numa-node")
    add_slice(world, "node-a", [device("card", [0, 1])])
    world.run(pod("full", "7"), "node-a")
    assert DRIVER not in node_usage(world.facts(), "node-a")[0].stranded
    world.run(pod("too", "8"), "node-a")
    assert node_usage(world.facts(), "node-a")[0].stranded[DRIVER] == 1
