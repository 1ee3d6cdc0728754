"""Scans of nodes with a tree of files and a modelled kubelet: every odd kind of machine and pod."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.apps.exporter.build import GIB, Figures, figures, inputs_of
from tests.apps.exporter.model_zones import model_zones
from tests.kubelet.build import admit, container, guaranteed, pod, start, static_settings

from numakube.api.pod import Pod
from numakube.apps.exporter.node_scan import NodeInputs
from numakube.apps.exporter.numa_hardware import HardwareReader
from numakube.apps.exporter.report import Report, topology_of
from numakube.apps.exporter.report_options import ReportOptions
from numakube.apps.exporter.scan_wakeups import ScanCause
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machine import Device, Machine
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.node.sysfs_machine import write_tree
from numakube.topology.exact_report import ExactReport
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.cpuset import CpuSet
from numakube.values.resources import hugepage_bytes, hugepage_name

GPU = "vendor.example/gpu"
SHAPES = (
    "1 socket, 4 cores, 8Gi",
    "1 socket, 8 cores, smt 2, 8Gi, gpu 2",
    "1 socket, 2p+4e cores, smt 2, numbering adjacent, 8Gi",
    "1 socket, 2 numa each, 4 cores, smt 2, 4Gi, gpu 1, nic 2",
    "1 socket, 4 numa each, 2 cores, smt 2, 2Gi, distances 10 12",
    "2 sockets, 4 cores, 8Gi",
    "2 sockets, 4 cores, smt 2, 8Gi, hugepages-2Mi 512, gpu 2",
    "2 sockets, 4 cores, smt 2, 8Gi, hugepages-2Mi 256, hugepages-1Gi 2, nic 4",
    "2 sockets, 8 cores, smt 2, uncore 4, 16Gi, gpu 4, nic 4",
    "2 sockets, 2 numa each, 4 cores, smt 2, 4Gi, distances 10 12 21, gpu 1",
    "2 sockets, 4 numa each, 2 cores, smt 2, 2Gi, distances 10 12 32",
    "2 sockets, 4 numa each, 2 cores, smt 2, uncore 1, 4Gi, gpu 1",
    "2 sockets, 4 cores, smt 4, numbering adjacent, 8Gi, ids 0 8, gpu 2",
    "2 sockets, 2 cores, 4Gi, ids 1 3",
    "2 sockets, 4 cores, 8Gi, 1 cxl 4Gi, distances 10 21 21 24",
    "2 sockets, 4 cores, smt 2, 8Gi, hugepages-1Gi 1/1/0/0, 2 cxl 4Gi, distances 10 21 21 24,"
    " gpu 1",
    "4 sockets, 2 cores, smt 2, 4Gi, distances 10 21 31, nic 1",
    "4 sockets, 2 numa each, 2 cores, 2Gi, gpu 1",
    "8 sockets, 2 cores, 2Gi, distances 10 21",
    "2 sockets, 6 cores, 8Gi, hugepages-64Ki 1000, gpu 3, nic 1",
)


def scanned(tmp_path: Path, node: KubeletNode, pods: dict[str, Pod]) -> NodeInputs:
    """Return what a scan reads: hardware from files, the rest from the kubelet."""
    root = tmp_path / "sys"
    write_tree(node.machine, root)
    return replace(inputs_of(node, pods), hardware=HardwareReader(root).read())


def report(read: NodeInputs) -> Report:
    """Return the report of a scan."""
    return topology_of(read, ReportOptions(node_name="worker"), cause=ScanCause.PERIODIC)


def zones(read: NodeInputs) -> Figures:
    """Return the amounts of all zones."""
    return figures(report(read).zones)


def settings_for(machine: Machine, random: Random) -> KubeletSettings:
    """Policies at random; the first CPU and some memory of the first NUMA node are reserved."""
    first = min(cpu for node in machine.nodes for core in node.cores for cpu in core.threads)
    lowest = min(node.id for node in machine.nodes if node.memory_bytes)
    return static_settings(
        random.choice(("none", "best-effort", "restricted", "single-numa-node")),
        topology_scope=random.choice(("container", "pod")),
        reserved_cpus=CpuSet.of([first]),
        memory_policy=random.choice(("Static", "Static", "None")),
        reserved_memory={lowest: {"memory": GIB}},
    )


def random_pod(machine: Machine, uid: str, random: Random) -> Pod:
    """A pod of one or two containers, at times after an init container or beside a sidecar."""

    def wanted() -> dict[str, str]:
        amounts = {
            "cpu": random.choice("1234"),
            "memory": random.choice(("256Mi", "1Gi", "3Gi", "5Gi")),
        }
        pages = {hugepage_name(pool.page_bytes) for pool in machine.nodes[0].hugepages}
        if pages and random.random() < 0.3:
            name = random.choice(sorted(pages))
            amounts[name] = str(random.choice((1, 2)) * hugepage_bytes(name))
        if machine.devices and random.random() < 0.5:
            amounts[random.choice(sorted(machine.devices))] = random.choice("12")
        return amounts

    init = []
    if random.random() < 0.3:
        init.append(container("init", **wanted()))
    if random.random() < 0.3:
        init.append(container("sidecar", **wanted(), restart="Always"))
    apps = [container(f"c{number}", **wanted()) for number in range(random.choice((1, 1, 2)))]
    return pod(*apps, init=tuple(init), uid=uid)


@pytest.mark.parametrize("shape", SHAPES)
def test_zones_converge_to_the_model_as_pods_come_and_go(tmp_path: Path, shape: str) -> None:
    """On each of twenty shapes, for several kubelets; and what is published reads back whole."""
    machine = from_shape(shape)
    write_tree(machine, tmp_path)
    reader = HardwareReader(tmp_path)
    for seed in range(2):
        random = Random(f"{shape} {seed}")
        node = start(machine, settings_for(machine, random), devices=dict(machine.devices))
        pods: dict[str, Pod] = {}
        for number in range(8):
            uid = f"pod-{number}"
            pods[uid] = random_pod(machine, uid, random)
            node.admit(pods[uid])
            if random.random() < 0.4:
                node.remove(random.choice(sorted(pods)))
            found = report(replace(inputs_of(node, pods), hardware=reader.read()))
            assert figures(found.zones) == model_zones(node)
        view = view_of(found.topology("worker"))
        assert isinstance(view, NodeTopology)
        assert isinstance(view.report, ExactReport)
        assert {zone.id for zone in view.zones} == {node.id for node in machine.nodes}


def test_memory_without_cpus_is_a_zone_without_cpus(tmp_path: Path) -> None:
    """A CXL expander, with the distances to it."""
    machine = from_shape("2 sockets, 2 cores, 8Gi, 1 cxl 4Gi, distances 10 21 21 24")
    node = start(
        machine, static_settings(memory_policy="Static", reserved_memory={0: {"memory": GIB}})
    )
    found = report(scanned(tmp_path, node, {}))
    assert figures(found.zones)["node-2"] == {"memory": (4 * GIB, 4 * GIB, 4 * GIB)}
    assert [cost.value for cost in found.zones[0].costs] == [10, 21, 24]


def test_ids_with_holes_are_the_names_of_zones(tmp_path: Path) -> None:
    """In costs too."""
    machine = from_shape("2 sockets, 2 cores, 8Gi, ids 0 8, distances 10 40 40")
    found = report(scanned(tmp_path, start(machine), {}))
    assert [zone.name for zone in found.zones] == ["node-0", "node-8"]
    assert [cost.name for cost in found.zones[1].costs] == ["node-0", "node-8"]


def test_a_cpu_that_is_offline_is_in_no_capacity(tmp_path: Path) -> None:
    """The kubelet does not know it either, unless it was switched off since its start."""
    machine = from_shape("2 sockets, 2 cores, 8Gi")
    read = scanned(tmp_path, start(machine), {})
    (tmp_path / "sys/devices/system/cpu/online").write_text("0-2\n", encoding="ascii")
    off = replace(read, hardware=HardwareReader(tmp_path / "sys").read())
    # Three of four CPUs may be given out, one of them is off.
    assert zones(off)["node-1"]["cpu"] == (1, 1, 1)
    assert any("3" in problem.detail for problem in report(off).problems)


def test_devices_whose_plugin_tells_no_topology_are_in_no_zone(tmp_path: Path) -> None:
    """Exact data has them: the kubelet gives them out all the same."""
    node = start(from_shape("2 sockets, 2 cores, 8Gi"), devices={GPU: (Device("g0"), Device("g1"))})
    one = pod(guaranteed("c", "1", gpu="1"))
    admit(node, one)
    found = report(scanned(tmp_path, node, {"uid": one}))
    assert all(GPU not in amounts for amounts in figures(found.zones).values())
    view = view_of(found.topology("worker"))
    assert isinstance(view, NodeTopology)
    assert view.report is not None
    assert view.report.devices[GPU].numa_nodes == ((), ())


def test_hugepages_of_several_sizes_are_resources_of_their_own(tmp_path: Path) -> None:
    """A pod's are taken off on its NUMA node."""
    machine = from_shape("2 sockets, 2 cores, 8Gi, hugepages-2Mi 512, hugepages-1Gi 2")
    settings = static_settings(
        "single-numa-node", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    node = start(machine, settings)
    one = pod(guaranteed("c", "1", "1Gi", **{"hugepages-1Gi": "1Gi", "hugepages-2Mi": "4Mi"}))
    admit(node, one)
    found = zones(scanned(tmp_path, node, {"uid": one}))["node-0"]
    assert found["hugepages-1Gi"] == (2 * GIB, 2 * GIB, GIB)
    assert found["hugepages-2Mi"] == (GIB, GIB, GIB - (4 << 20))
    # Pages are no ordinary memory any more.
    assert found["memory"] == (8 * GIB, 4 * GIB, 3 * GIB)


def test_what_a_finished_init_container_keeps_is_not_available(tmp_path: Path) -> None:
    """PodResources does not list it; the kubelet gives it to nobody else while the pod lives."""
    node = start(from_shape("1 socket, 8 cores, 8Gi"))
    one = pod(guaranteed("c", "2"), init=(guaranteed("i", "4"),))
    admit(node, one)
    read = scanned(tmp_path, node, {"uid": one})
    assert len(read.pods[0].containers) == 1
    assert zones(read)["node-0"]["cpu"] == (8, 7, 3)
    # Without uids nobody knows whose they are: then it looks as to RTE.
    assert zones(replace(read, uids={}))["node-0"]["cpu"] == (8, 7, 5)


def test_a_sidecar_holds_what_it_asked_for(tmp_path: Path) -> None:
    """It is listed as a container and shares nothing with the others."""
    node = start(from_shape("1 socket, 8 cores, 8Gi"))
    one = pod(guaranteed("c", "2"), init=(guaranteed("s", "3", restart="Always"),))
    admit(node, one)
    read = scanned(tmp_path, node, {"uid": one})
    assert len(read.pods[0].containers) == 2
    assert zones(read)["node-0"]["cpu"] == (8, 7, 2)


def test_a_pod_with_resources_as_a_whole_holds_them_once(tmp_path: Path) -> None:
    """Its containers share the CPUs that none of them has for itself."""
    settings = static_settings(
        "single-numa-node", topology_scope="pod", feature_gates={"PodLevelResourceManagers": True}
    )
    node = start(from_shape("2 sockets, 8 cores, 8Gi"), settings, kubernetes="1.36")
    one = pod(guaranteed("own", "2"), container("shared"), level={"cpu": "4", "memory": "1Gi"})
    admit(node, one)
    read = scanned(tmp_path, node, {"uid": one})
    assert len(read.pods[0].cpu_ids) == 4
    assert zones(read)["node-0"]["cpu"] == (8, 7, 3)


def test_a_terminal_pod_that_is_still_listed_holds_nothing(tmp_path: Path) -> None:
    """And is in no fingerprint; kubelets before 1.34 list it."""
    node = start(from_shape("1 socket, 8 cores, 8Gi"))
    one = pod(guaranteed("c", "2"))
    admit(node, one)
    read = scanned(tmp_path, node, {"uid": one})
    done = replace(read, terminal=frozenset({("default", "uid")}))
    assert zones(done)["node-0"]["cpu"] == (8, 7, 7)
    assert report(done).pods == ()


def test_memory_that_spans_numa_nodes_lies_where_the_books_say(tmp_path: Path) -> None:
    """Of two pods on the same two NUMA nodes the first goes; the second stays where it is."""
    settings = static_settings(
        "best-effort", memory_policy="Static", reserved_memory={0: {"memory": GIB}}
    )
    node = start(from_shape("2 sockets, 4 cores, 8Gi"), settings)
    pods = {
        uid: pod(guaranteed("c", "1", size), uid=uid) for uid, size in (("a", "9Gi"), ("b", "3Gi"))
    }
    for one in pods.values():
        admit(node, one)
    node.remove("a")
    read = scanned(tmp_path, node, pods)
    assert {name: found["memory"][2] // GIB for name, found in zones(read).items()} == {
        name: found["memory"][2] // GIB for name, found in model_zones(node).items()
    }
    guessed = zones(replace(read, uids={}))
    assert sum(entry["memory"][2] for entry in guessed.values()) == 12 * GIB
