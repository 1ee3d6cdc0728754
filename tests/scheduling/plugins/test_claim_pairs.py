"""Devices of claims of different drivers are as close to each other as any choice has them."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.plugins.mixed_pods import (
    NUMA,
    ROOT,
    SHAPE,
    claiming,
    decide,
    names,
)

from numakube.api.codec import convert
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import DeviceClass, ResourceSlice
from numakube.kubelet.machine import PciPath, tree_of
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.scheduling.cycle import Refused
from numakube.scheduling.plugins.dynamic_resources.kind_verdicts import asker_of
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World

PCI = "resource.kubernetes.io/pciBusID"


def at(name: str, numa: int, root: str = "", address: str = "") -> dict[str, Any]:
    """Return a device of a slice."""
    attributes: dict[str, Any] = {NUMA: {"int": numa}}
    attributes |= {ROOT: {"string": root}} if root else {}
    attributes |= {PCI: {"string": address}} if address else {}
    return {"name": name, "attributes": attributes}


def world_with(gpus: list[dict[str, Any]], nics: list[dict[str, Any]], **claims: int) -> World:
    """Return a node with devices of two drivers, and claims for some of each."""
    world = World()
    world.add_node("n", "none", machine=SHAPE)
    for driver, devices in (("gpu.example", gpus), ("nic.example", nics)):
        tree = {
            "metadata": {"name": driver},
            "spec": {
                "driver": driver,
                "nodeName": "n",
                "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }
        world.objects.resource_slices[driver] = convert(ResourceSlice, tree)
        kind = driver.partition(".")[0]
        cel = {"cel": {"expression": f'device.driver == "{driver}"'}}
        spec = {"metadata": {"name": kind}, "spec": {"selectors": [cel]}}
        world.objects.device_classes[kind] = convert(DeviceClass, spec)
    for kind, count in claims.items():
        request = {"name": "r", "exactly": {"deviceClassName": kind, "count": count}}
        body: dict[str, Any] = {
            "metadata": {"name": kind, "namespace": "default", "uid": kind},
            "spec": {"devices": {"requests": [request]}},
        }
        world.objects.resource_claims[f"default/{kind}"] = convert(ResourceClaim, body)
    return world


def test_pairs_share_roots_though_no_root_has_all_devices() -> None:
    """Two GPUs and two cards, the cards in another order than the GPUs."""
    gpus = [at("g0", 0, "a"), at("g1", 0, "b"), at("g2", 0, "c")]
    nics = [at("n0", 0, "d"), at("n1", 0, "c"), at("n2", 0, "b")]
    world = world_with(gpus, nics, gpu=2, nic=2)
    assert sorted(names(decide(world, claiming("p", "gpu", "nic")))) == ["g1", "g2", "n1", "n2"]


def test_pairs_are_looked_for_on_all_numa_nodes_if_the_pod_is_on_none() -> None:
    """NUMA node 0 is the fuller one, but its GPU and its card are below different roots."""
    gpus = [at("g0", 0, "a"), at("g1", 1, "c"), at("g2", 1, "d")]
    nics = [at("n0", 0, "b"), at("n1", 1, "d"), at("n2", 1, "e")]
    world = world_with(gpus, nics, gpu=1, nic=1)
    world.add_node("n", machine=SHAPE, settings=KubeletSettings())
    assert names(decide(world, claiming("p", "gpu", "nic"))) == ["g2", "n1"]


def test_devices_that_cannot_all_be_near_the_cpus_are_near_each_other() -> None:
    """The kubelet gives CPUs of NUMA node 0, where there is no card."""
    gpus, nics = [at("g0", 0, "a"), at("g1", 1, "b")], [at("n1", 1, "b")]
    world = world_with(gpus, nics, gpu=1, nic=1)
    assert names(decide(world, claiming("p", "gpu", "nic"))) == ["g1", "n1"]


def test_paths_of_the_report_tell_switches_apart_below_one_root() -> None:
    """The drivers publish PCI addresses, NVIDIA's with eight digits of domain."""
    paths = [
        PciPath(
            f"0000:{bus}:00.0",
            "pci0000:10",
            ("0000:10:01.0", f"0000:{switch}:00.0", f"0000:{switch}:{bus}.0"),
            0,
        )
        for bus, switch in (("11", "20"), ("12", "30"), ("13", "20"))
    ]
    gpus = [at("g0", 0, address="00000000:11:00.0")]
    nics = [at("n0", 0, address="0000:12:00.0"), at("n1", 0, address="0000:13:00.0")]
    world = world_with(gpus, nics, gpu=1, nic=1)
    assert names(decide(world, claiming("p", "gpu", "nic"))) == ["g0", "n0"]
    machine = replace(from_shape(SHAPE), tree=tree_of(paths))
    world.add_node("n", "none", machine=machine)
    assert names(decide(world, claiming("p", "gpu", "nic"))) == ["g0", "n1"]


@pytest.mark.parametrize(
    ("closeness", "message"),
    [
        ("same-root", "devices of claims not close enough (same-root: NODE at best)"),
        ("same-numa", ""),
    ],
)
def test_a_pod_that_asks_for_close_devices_is_refused_without(closeness: str, message: str) -> None:
    """In words that say how close they would be."""
    world = world_with([at("g0", 0, "a")], [at("n0", 0, "b")], gpu=1, nic=1)
    pod = claiming("p", "gpu", "nic", annotations={"numakube.dev/closeness": closeness})
    decision = decide(world, pod)
    told = ""
    if isinstance(decision, Refused):
        ((_, status),) = decision.diagnosis.groups()
        told = status.message
    assert told == message


def test_devices_of_one_driver_alone_are_close_enough() -> None:
    """There is no other device that they could be far from."""
    world = world_with([at("g0", 0, "a"), at("g1", 1, "b")], [], gpu=2)
    pod = claiming("p", "gpu", annotations={"numakube.dev/closeness": "same-root"})
    assert sorted(names(decide(world, pod))) == ["g0", "g1"]


def test_devices_of_unknown_roots_count_as_below_different_ones() -> None:
    """Both are on NUMA node 0, which is all that is known of them."""
    world = world_with([at("g0", 0)], [at("n0", 0)], gpu=1, nic=1)
    for closeness, chosen in (("same-root", ()), ("same-numa", ("g0", "n0"))):
        pod = claiming("p", "gpu", "nic", annotations={"numakube.dev/closeness": closeness})
        decision = decide(world, pod)
        assert (() if isinstance(decision, Refused) else tuple(names(decision))) == chosen


def test_what_a_picky_pod_is_refused_another_one_gets() -> None:
    """Refusals are remembered for pods that ask for the same only."""
    picky = {"numakube.dev/closeness": "same-root"}
    askers = {
        asker_of(PodInfo(claiming("p", "gpu", "nic", annotations=one))) for one in ({}, picky)
    }
    assert len(askers) == 2


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_no_choice_on_the_same_numa_nodes_has_closer_pairs(data: st.DataObject) -> None:
    """Compared with all choices by the roots that pairs share."""
    roots = st.lists(st.sampled_from("abcd"), min_size=2, max_size=4)
    gpus = [at(f"g{n}", 0, root) for n, root in enumerate(data.draw(roots))]
    nics = [at(f"n{n}", 0, root) for n, root in enumerate(data.draw(roots))]
    count = data.draw(st.integers(1, 2))
    world = world_with(gpus, nics, gpu=count, nic=count)
    chosen = names(decide(world, claiming("p", "gpu", "nic")))
    root_of = {nic["name"]: nic["attributes"][ROOT]["string"] for nic in (*gpus, *nics)}

    def shared(some: tuple[str, ...], others: tuple[str, ...]) -> bool:
        return sorted(root_of[one] for one in some) == sorted(root_of[other] for other in others)

    possible = any(
        shared(tuple(entry["name"] for entry in some), tuple(other["name"] for other in others))
        for some in combinations(gpus, count)
        for others in combinations(nics, count)
    )
    assert shared(tuple(chosen[:count]), tuple(chosen[count:])) == possible


def pairs_of_links(*taken: str) -> World:
    """Return a node whose GPUs 0 and 1, and 2 and 3, are linked; claims of others have *taken*."""
    machine = from_shape("1 socket, 4 cores, 16Gi, gpu 4, 2 switches, islands 2 gpu")
    (found,) = machine.devices.values()
    gpus = [at(f"g{number}", 0, "", one.pci) for number, one in enumerate(found)]
    world = world_with([one for one in gpus if one["name"] not in taken], [], gpu=2)
    world.add_node("n", machine=machine, settings=KubeletSettings())
    return world


def test_devices_of_claims_are_linked_if_the_pod_asks_for_that() -> None:
    world, asked = pairs_of_links("g0"), {"numakube.dev/linked": "Required"}
    assert names(decide(world, claiming("p", "gpu"))) == ["g1", "g2"]
    assert names(decide(world, claiming("p", "gpu", annotations=asked))) == ["g2", "g3"]
    preferred = {"numakube.dev/linked": "Preferred"}
    assert names(decide(world, claiming("p", "gpu", annotations=preferred))) == ["g2", "g3"]


def test_a_pod_that_needs_linked_devices_waits_for_them() -> None:
    world = pairs_of_links("g0", "g2")
    asked = claiming("p", "gpu", annotations={"numakube.dev/linked": "Required"})
    assert world.scheduler().reasons(asked) == {"no devices of claims that are linked are left"}
    preferred = claiming("p", "gpu", annotations={"numakube.dev/linked": "Preferred"})
    assert names(decide(world, preferred)) == ["g1", "g3"]


class Counted(dict[str, str]):
    """Annotations that count how often a long one is read."""

    reads = 0

    def get(self, key: str, default: Any = None) -> Any:
        """Count, and return the value."""
        self.reads += key == "numakube.dev/zone-spread"
        return super().get(key, default)


def test_annotations_about_links_are_read_once_for_all_nodes() -> None:
    """They may be long, and nodes many."""
    world = pairs_of_links("g0", "g2")
    asked = claiming("p", "gpu", annotations={"numakube.dev/linked": "Required"})
    counted = Counted({"numakube.dev/linked": "Required", "numakube.dev/zone-spread": "app=a"})
    metadata = msgspec.structs.replace(asked.metadata, annotations=counted)
    one = msgspec.structs.replace(asked, metadata=metadata)
    told = world.objects.resource_slices["gpu.example"]
    machine = from_shape("1 socket, 4 cores, 16Gi, gpu 4, 2 switches, islands 2 gpu")
    for number in range(4):
        name = f"m{number}"
        world.add_node(name, machine=machine, settings=KubeletSettings())
        pool = msgspec.structs.replace(told.spec.pool, name=name)
        spec = msgspec.structs.replace(told.spec, node_name=name, pool=pool)
        world.objects.resource_slices[name] = msgspec.structs.replace(told, spec=spec)
    world.scheduler().reasons(one)
    assert counted.reads <= 2
