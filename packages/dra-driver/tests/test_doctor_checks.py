"""What the doctor says of claims for CPUs and memory."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from test_explaining_amounts import claim, offering

from numakube.api.codec import convert
from numakube.api.kubelet_config import KubeletConfiguration
from numakube.api.meta import ObjectMeta, ServerVersion
from numakube.api.nodes import Node
from numakube.api.pod import Container, PodResourceClaim
from numakube.api.resource_claims import ResourceClaim
from numakube.api.resource_slices import Device, ResourceSlice
from numakube.api.workloads import Namespace
from numakube.insight.doctor.all_checks import diagnose
from numakube.testing import World, pod
from numakube_dra_driver.claims.claim_writing import POLICY

DRIVER_POD = Container(name="dra-driver", image="x/numakube:1", args=("dra-driver",))


def found(world: World, purpose: str = "", **facts: Any) -> dict[str, list[str]]:
    """Return the details of findings about claims, by rule."""
    diagnosis = diagnose(world.facts(**facts), only=["NUMA-CLAIMS"], purpose=purpose)
    return {
        entry.rule.id.removeprefix("NUMA-CLAIMS-"): [one.detail for one in entry.findings]
        for entry in diagnosis.entries
    }


def served() -> World:
    """Return a node with the driver, whose kubelet reserves as many CPUs."""
    world = offering()
    world.run(pod("driver", guaranteed=False, containers=(DRIVER_POD,)), "node-a")
    return world


def using(world: World, cpu: str = "4", memory: str = "8Gi", **more: Any) -> None:
    """Run a pod that has 4 CPUs and 8Gi by claim."""
    claim(world, "mine", 4, 8, zone=0)
    uses = (PodResourceClaim(name="numa", resource_claim_name="mine"),)
    world.run(pod("web", cpu=cpu, memory=memory, resource_claims=uses, **more), "node-a")


def changed(world: World, **parts: Any) -> None:
    """Give the node other fields."""
    tree = msgspec.to_builtins(world.nodes["node-a"])
    world.nodes["node-a"] = convert(Node, {**tree, **parts})


def test_a_node_whose_claims_are_in_order_has_no_finding() -> None:
    world = served()
    using(world)
    assert found(world) == {}


def test_a_pod_that_has_more_by_claim_than_it_requests_is_named() -> None:
    world = served()
    using(world, cpu="1", memory="1Gi")
    assert found(world) == {
        "NOT-MIRRORED": ["4 of cpu by claim, 1 requested; 8Gi of memory by claim, 1Gi requested"]
    }


def test_a_kubelet_that_gives_cpus_out_itself_is_named() -> None:
    config = KubeletConfiguration(cpu_manager_policy="static", memory_manager_policy="Static")
    details = found(served(), kubelet_configs={"node-a": config})
    assert details == {
        "STATIC-KUBELET": ["cpuManagerPolicy is static and memoryManagerPolicy is Static"]
    }


def test_a_node_without_its_driver_is_named() -> None:
    assert found(offering()) == {"NO-DRIVER": ["4 devices, and no pod of the driver"]}


def test_driver_and_enforcer_do_not_go_together() -> None:
    world = served()
    enforcer = Container(name="enforcer", image="x/numakube:1", args=("enforcer",))
    world.run(pod("enforcer", guaranteed=False, containers=(enforcer,)), "node-a")
    assert found(world) == {"AND-ENFORCER": ["both run there"]}


def test_two_drivers_of_one_node_are_named() -> None:
    world = served()
    piece = world.objects.resource_slices["slice"]
    spec = msgspec.structs.replace(piece.spec, driver="dra.cpu")
    world.objects.resource_slices["other"] = ResourceSlice(
        metadata=ObjectMeta(name="other"), spec=spec
    )
    assert found(world) == {"TWO-DRIVERS": ["slices of several drivers have CPUs or memory"]}


def test_a_reservation_that_the_driver_does_not_know_of_is_found() -> None:
    world = served()
    status = msgspec.to_builtins(world.nodes["node-a"].status)
    status["allocatable"]["cpu"] = "14"
    changed(world, status=status)
    assert found(world) == {"RESERVED": ["16 CPUs for claims, 14 allocatable"]}


def test_a_label_that_nobody_understands_is_found() -> None:
    labels = {POLICY: "singel"}
    namespaces = {
        "shop": Namespace(metadata=ObjectMeta(name="shop", labels=labels)),
        "bar": Namespace(metadata=ObjectMeta(name="bar", labels={POLICY: "socket"})),
    }
    (detail,) = found(served(), namespaces=namespaces)["LABEL"]
    assert "singel" in detail


def test_hugepages_without_a_limit_are_found() -> None:
    world = served()
    using(world)
    tree: Any = msgspec.to_builtins(world.objects.resource_claims["default/mine"])
    pages = {"deviceClassName": "numa-hugepages-2mi", "count": 1}
    given = {
        "request": "pages",
        "driver": "numakube.dev",
        "pool": "node-a/compute",
        "device": "hugepages-2mi-numa0",
        "shareID": "p",
        "consumedCapacity": {"numakube.dev/hugepages": "64Mi"},
    }
    for part, key, more in (
        (tree["spec"]["devices"], "requests", {"name": "pages", "exactly": pages}),
        (tree["status"]["allocation"]["devices"], "results", given),
    ):
        part[key] = [*part[key], more]
    world.objects.resource_claims["default/mine"] = convert(ResourceClaim, tree)
    assert found(world) == {"HUGEPAGES-LIMIT": ["no limit for hugepages-2Mi"]}


def test_nodes_that_offer_single_cores_are_told_of() -> None:
    """The server has dropped what makes devices shareable, and the driver follows."""
    world = served()
    piece = world.objects.resource_slices["slice"]
    cores = tuple(Device(name=f"core-000{number}") for number in range(4))
    spec = msgspec.structs.replace(piece.spec, devices=cores)
    world.objects.resource_slices["slice"] = msgspec.structs.replace(piece, spec=spec)
    assert found(world) == {"CORES-ONLY": ["4 cores"]}


def test_a_kubelet_of_which_nothing_is_known_is_told_of() -> None:
    world = World()
    world.nodes["node-b"] = Node(metadata=ObjectMeta(name="node-b"))
    assert found(world, "dra")["KUBELET-UNKNOWN"] == ["no configuration, no report"]


def test_a_cluster_is_looked_at_before_there_is_a_driver() -> None:
    """Only if somebody asks: a cluster that wants no claims lacks nothing."""
    world = World()
    world.add_node("node-a", "single-numa-node")
    node = world.nodes["node-a"]
    info = {
        "containerRuntimeVersion": "containerd://1.7.24",
    }
    changed(world, status={**msgspec.to_builtins(node.status), "nodeInfo": info})
    assert found(world) == {}
    details = found(world, "dra")
    assert details["CDI"] == ["containerd://1.7.24"]
    assert details["STATIC-KUBELET"][0].startswith("cpuManagerPolicy is static")
    assert "NO-CLASS" in details


@pytest.mark.parametrize("minor", ["35", "36"])
def test_old_clusters_are_told_so(minor: str) -> None:

    details = found(served(), "dra", version=ServerVersion(git_version=f"v1.{minor}.0"))
    assert ("VERSION" in details) == (minor == "35")
