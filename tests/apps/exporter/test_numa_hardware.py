"""Zones from trees of files, whole and damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from tests.strategies.machines import machines

from numakube.apps.exporter.numa_hardware import Hardware, HardwareReader, hardware_of
from numakube.apps.exporter.report_options import Trouble
from numakube.errors import MalformedObject
from numakube.kubelet.machine import Machine, in_kernel_order
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.pci.fake_pci import FakePci
from numakube.node.sysfs_machine import write_tree
from numakube.values.cpuset import CpuSet

NODE0 = Path("devices/system/node/node0")
NODE1 = Path("devices/system/node/node1")


def written(root: Path, shape: str) -> Path:
    """Write the tree of a machine."""
    write_tree(from_shape(shape), root)
    return root


def kinds(hardware: Hardware) -> set[Trouble]:
    """Return the kinds of problems that came up."""
    return {problem.kind for problem in hardware.problems}


@pytest.mark.parametrize(
    "shape",
    [
        "2 sockets, 4 numa each, 2 cores, smt 2, uncore socket, 2Gi, distances 10 12 21",
        "2 sockets, 4 numa each, 4 cores, smt 2, uncore 2, 2Gi, distances 10 12 32",
        "2 sockets, 2 cores, smt 4, numbering adjacent, 2Gi, ids 0 8, distances 10 40 40",
        "2 sockets, 2 cores, 2Gi, hugepages-1Gi 0, 2 cxl 1Gi, distances 10 21 21 24",
        "1 socket, 1p+2e cores, smt 2, numbering adjacent, 2Gi, hugepages-2Mi 3, hugepages-64Ki 9",
    ],
    ids=["snc4", "nps4", "holes", "cxl", "hybrid"],
)
def test_machines_like_real_ones_read_back_as_they_are(tmp_path: Path, shape: str) -> None:
    """Sub-NUMA clusters, quarters of a socket, ids with holes, memory without CPUs."""
    read = HardwareReader(written(tmp_path, shape)).read()
    expected = hardware_of(from_shape(shape))
    assert [(zone.id, zone.cpus, zone.memory_bytes) for zone in read.zones] == [
        (zone.id, zone.cpus, zone.memory_bytes) for zone in expected.zones
    ]
    assert [zone.distances for zone in read.zones] == [zone.distances for zone in expected.zones]
    assert [dict(zone.hugepages or {}) for zone in read.zones] == [
        dict(zone.hugepages or {}) for zone in expected.zones
    ]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(machine=machines(max_nodes=4))
def test_any_machine_reads_back_as_it_is(tmp_path: Path, machine: Machine) -> None:
    """With its cores and caches, for exact data."""
    root = tmp_path / "sys"
    shutil.rmtree(root, ignore_errors=True)
    try:
        write_tree(machine, root)
    except MalformedObject:
        return  # no tree looks like it
    read = HardwareReader(root).read()
    assert [zone.cpus for zone in read.zones] == [zone.cpus for zone in hardware_of(machine).zones]
    assert read.machine is not None
    assert in_kernel_order(read.machine).nodes == in_kernel_order(machine).nodes


def test_cpus_that_are_switched_off_are_told_apart(tmp_path: Path) -> None:
    """The kernel keeps their links and takes them off the lists."""
    root = written(tmp_path, "2 sockets, 2 cores, 8Gi")
    (root / "devices/system/cpu/online").write_text("0-2\n", encoding="ascii")
    (root / NODE1 / "cpulist").write_text("2\n", encoding="ascii")
    hardware = HardwareReader(root).read()
    assert hardware.zones[1].cpus == CpuSet.of([2])
    assert hardware.zones[1].offline_cpus == CpuSet.of([3])
    assert (hardware.numa_of(2), hardware.numa_of(3)) == (1, None)


def test_a_zone_without_distances_is_still_a_zone(tmp_path: Path) -> None:
    """RTE loses it and all that come after it."""
    root = written(tmp_path, "2 sockets, 2 cores, 8Gi, distances 10 20 20")
    (root / NODE0 / "distance").unlink()
    hardware = HardwareReader(root).read()
    assert [zone.distances for zone in hardware.zones] == [None, (20, 10)]
    assert Trouble.NO_DISTANCES in kinds(hardware)


def test_a_zone_without_hugepages_is_still_a_zone(tmp_path: Path) -> None:
    """RTE does not start on it."""
    root = written(tmp_path, "2 sockets, 2 cores, 8Gi, hugepages-2Mi 4, hugepages-1Gi 1")
    shutil.rmtree(root / NODE1 / "hugepages")
    hardware = HardwareReader(root).read()
    assert hardware.zones[0].hugepages == {"hugepages-2Mi": 8 << 20, "hugepages-1Gi": 1 << 30}
    assert hardware.zones[1].hugepages is None
    assert kinds(hardware) == {Trouble.NO_HUGEPAGES}


def test_a_pool_that_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    """The other sizes count."""
    root = written(tmp_path, "1 socket, 2 cores, 8Gi, hugepages-2Mi 4, hugepages-1Gi 1")
    pool = root / NODE0 / "hugepages/hugepages-2048kB/nr_hugepages"
    pool.write_text("many\n", encoding="ascii")
    hardware = HardwareReader(root).read()
    assert hardware.zones[0].hugepages == {"hugepages-1Gi": 1 << 30}
    assert Trouble.NO_HUGEPAGES in kinds(hardware)


def test_a_zone_without_memory_size_is_still_a_zone(tmp_path: Path) -> None:
    """Its memory is then what the kubelet gives out; a kubelet model cannot be made of it."""
    root = written(tmp_path, "2 sockets, 2 cores, 8Gi")
    (root / NODE0 / "meminfo").write_text("nothing\n", encoding="ascii")
    hardware = HardwareReader(root).read()
    assert [zone.memory_bytes for zone in hardware.zones] == [None, 8 << 30]
    assert kinds(hardware) >= {Trouble.NO_MEMORY_SIZE, Trouble.NO_CPU_DETAILS}
    assert hardware.machine is None


def test_packages_are_zones_on_a_kernel_without_numa(tmp_path: Path) -> None:
    """As the kubelet sees such a machine."""
    root = written(tmp_path, "2 sockets, 2 cores, 8Gi")
    shutil.rmtree(root / "devices/system/node")
    hardware = HardwareReader(root).read()
    assert [(zone.id, str(zone.cpus)) for zone in hardware.zones] == [(0, "0-1"), (1, "2-3")]


def test_an_empty_tree_has_no_zones(tmp_path: Path) -> None:
    """That is a problem, and no crash."""
    hardware = HardwareReader(tmp_path).read()
    assert hardware.zones == ()
    assert hardware.problems


def test_a_cpu_that_comes_online_is_seen_at_the_next_reading(tmp_path: Path) -> None:
    """What is kept between readings is kept as long as nothing changes."""
    root = written(tmp_path, "1 socket, 4 cores, 8Gi")
    online = root / "devices/system/cpu/online"
    online.write_text("0-2\n", encoding="ascii")
    reader = HardwareReader(root)
    first = reader.read()
    assert reader.read().machine is first.machine
    online.write_text("0-3\n", encoding="ascii")
    second = reader.read()
    assert first.machine is not None
    assert second.machine is not None
    assert (first.machine.cpu_count, second.machine.cpu_count) == (3, 4)


def test_places_of_pci_functions_are_read_where_a_dra_driver_runs(tmp_path: Path) -> None:
    """Only there, and only if there are several NUMA nodes; new functions are noticed."""
    root, kubelet = written(tmp_path, "2 sockets, 2 cores, 8Gi"), tmp_path / "kubelet"
    pci = FakePci(root)
    pci.function("0000:3b:00.0", numa_node=0)
    pci.function("0000:d8:00.0", numa_node=1)
    reader = HardwareReader(root, kubelet)
    assert not reader.read().pci
    (kubelet / "plugins/csi.example").mkdir(parents=True)
    (kubelet / "plugins/csi.example/csi.sock").touch()
    assert not reader.read().pci
    (kubelet / "plugins/gpu.example").mkdir()
    (kubelet / "plugins/gpu.example/dra-1f2e.sock").touch()
    assert reader.read().pci == "0000:3b=0 0000:d8=1"
    pci.function("0000:f0:00.0", numa_node=None)
    assert reader.read().pci == "0000:3b=0 0000:d8=1 0000:f0=-1"
    assert not HardwareReader(root).read().pci


def test_this_machine_can_be_read() -> None:
    """Whatever it is."""
    hardware = HardwareReader(Path("/sys")).read()
    assert hardware.zones or hardware.problems
