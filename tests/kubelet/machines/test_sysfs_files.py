"""A sysfs tree is read as cAdvisor reads it, and written so that it reads back the same."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from tests.strategies.machines import machines, shapes

from numakube.errors import MalformedObject
from numakube.kubelet.machine import Core, Device, HugePages, Machine, in_kernel_order
from numakube.kubelet.machines.shape_build import build
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.machines.sysfs_files import from_sysfs, to_sysfs

if TYPE_CHECKING:
    from numakube.kubelet.machines.shape import Shape

CPU = "devices/system/cpu"
NODE = "devices/system/node"


def without_devices(machine: Machine) -> Machine:
    """Return *machine* as sysfs can know it."""
    return in_kernel_order(replace(machine, devices=MappingProxyType({})))


@given(machines())
def test_what_is_written_reads_back_the_same_or_is_refused(machine: Machine) -> None:
    """No machine changes on its way through the files."""
    try:
        files = to_sysfs(machine)
    except MalformedObject:
        return

    assert from_sysfs(files) == without_devices(machine)


@given(shapes())
def test_every_regular_machine_without_uncore_caches_can_be_written(shape: Shape) -> None:
    """Refusals are for caches and odd memory only, never for nodes, ids or numbering."""
    machine = build(replace(shape, uncore=None))

    assert from_sysfs(to_sysfs(machine)) == without_devices(machine)


@pytest.mark.parametrize("shape", ["epyc-9654-2s-nps4", "xeon-8480-2s-snc4", "laptop"])
def test_uncore_caches_of_real_machines_survive(shape: str) -> None:
    """Caches of part of a node, of several nodes, and of hybrid cores are uncore caches."""
    machine = from_shape(shape)

    assert from_sysfs(to_sysfs(machine)) == without_devices(machine)


def test_a_cache_over_the_whole_node_is_not_an_uncore_cache() -> None:
    """CAdvisor books it on the node, so the kubelet never sees it; writing it is refused."""
    files = to_sysfs(from_shape("4 cores, 1Gi"))
    for cpu in range(4):
        path = f"{CPU}/cpu{cpu}/cache/index3"
        files |= {f"{path}/id": "7\n", f"{path}/level": "3\n", f"{path}/size": "32768K\n"}
        files[f"{path}/shared_cpu_list"] = "0-3\n"

    assert {core.uncore_cache for core in from_sysfs(files).nodes[0].cores} == {None}
    with pytest.raises(MalformedObject, match="cache over a whole NUMA node counts as the node's"):
        to_sysfs(from_shape("4 cores, 1Gi, uncore 4"))


def test_offline_cpus_do_not_exist() -> None:
    """A CPU that is offline, or that has no topology, belongs to no core."""
    files = to_sysfs(from_shape("2 cores, smt 2, 1Gi"))
    files[f"{CPU}/online"] = "0-2\n"
    del files[f"{CPU}/cpu2/topology/core_id"]

    machine = from_sysfs(files)

    assert machine.cpu_count == 2
    assert machine.nodes[0].cores == (Core(0, (0,), 0), Core(1, (1,), 0))


def test_without_a_list_of_online_cpus_all_are_online() -> None:
    """A kernel without CPU hot-plug has no such file."""
    files = to_sysfs(from_shape("2 cores, 1Gi"))
    del files[f"{CPU}/online"]

    assert from_sysfs(files).cpu_count == 2


def test_without_node_directories_each_package_is_a_node() -> None:
    """A kernel without NUMA: cAdvisor makes a node of each package and knows no memory."""
    files = to_sysfs(from_shape("2 sockets, 2 cores, smt 2, 8Gi"))
    files = {path: text for path, text in files.items() if not path.startswith(NODE)}

    machine = from_sysfs(files)

    assert [(node.id, node.memory_bytes, len(node.cores)) for node in machine.nodes] == [
        (0, 0, 2),
        (1, 0, 2),
    ]


def test_a_cache_of_the_second_level_is_no_uncore_cache() -> None:
    """However many cores share it: cAdvisor books it on the core."""
    files = to_sysfs(from_shape("4 cores, 1Gi, uncore 2"))
    levels = {path: "2\n" for path in files if path.endswith("index1/level")}
    assert levels
    cores = from_sysfs(files | levels).nodes[0].cores
    assert {core.uncore_cache for core in cores} == {None}


def test_caches_without_an_id_are_no_uncore_caches() -> None:
    """Some virtual machines describe caches without ids; cAdvisor then stops looking."""
    files = to_sysfs(from_shape("4 cores, 1Gi, uncore 2"))
    files = {path: text for path, text in files.items() if not path.endswith("index1/id")}

    assert {core.uncore_cache for core in from_sysfs(files).nodes[0].cores} == {None}


def test_devices_are_passed_through() -> None:
    """Devices come from elsewhere and are added to the machine."""
    files = to_sysfs(from_shape("1 core, 1Gi"))
    devices = {"vendor.example/gpu": [Device("a", (0,))]}

    assert from_sysfs(files, devices=devices).devices == {
        "vendor.example/gpu": (Device("a", (0,)),)
    }


def test_missing_memory_and_distances_are_unknown() -> None:
    """Optional files may lack; hugepages of every size are read."""
    files = to_sysfs(from_shape("1 core, 1Gi, hugepages-1Gi 2, hugepages-2Mi 3"))
    del files[f"{NODE}/node0/meminfo"]
    del files[f"{NODE}/node0/distance"]

    (node,) = from_sysfs(files).nodes

    assert (node.memory_bytes, node.distances) == (0, ())
    assert node.hugepages == (HugePages(1 << 30, 2), HugePages(2 << 20, 3))


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        (f"{NODE}/node0/meminfo", "MemFree: 1 kB", "has no line `MemTotal: ... kB`"),
        (f"{NODE}/node0/distance", "10 x", "'10 x' is not a list of numbers"),
        (f"{NODE}/node0/cpulist", "0-", "'0-' is not a list of CPUs"),
        (f"{NODE}/node0/hugepages/hugepages-2048kB/nr_hugepages", "", "'' is not a number"),
        (f"{CPU}/cpu0/topology/core_id", "one", "'one' is not a number"),
        (f"{CPU}/online", "none", "'none' is not a list of CPUs"),
        (f"{CPU}/cpu0/cache/index0/level", "", "'' is not a number"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(path: str, text: str, message: str) -> None:
    """The error has the subject, the path of the file and its problem."""
    files = to_sysfs(from_shape("1 core, 1Gi"))

    with pytest.raises(MalformedObject) as caught:
        from_sysfs(files | {path: text}, subject="/sys")

    assert (caught.value.subject, caught.value.path) == ("/sys", path)
    assert message in caught.value.detail


def test_a_missing_cpulist_is_an_error() -> None:
    """A node without a CPU list is a damaged tree, not a node without CPUs."""
    files = to_sysfs(from_shape("1 core, 1Gi"))
    del files[f"{NODE}/node0/cpulist"]

    with pytest.raises(MalformedObject, match=r"node0/cpulist: is missing"):
        from_sysfs(files)


def test_a_tree_without_cpus_is_an_error() -> None:
    """Nothing can be said of a machine without CPUs."""
    with pytest.raises(MalformedObject, match="no CPU is described there"):
        from_sysfs({})


def test_memory_that_is_not_a_whole_number_of_kib_is_refused() -> None:
    """The kernel reports KiB; rounding would change the machine."""
    with pytest.raises(MalformedObject, match="memory_bytes is 1000, not 0"):
        to_sysfs(from_shape("1 core, 1000B"))


def test_caches_tell_their_level_and_their_cpus_as_the_kernel_does() -> None:
    """A mask has 32 CPUs a group, the highest first."""
    files = to_sysfs(from_shape("2 sockets, 24 cores, 1Gi, uncore 12, smt 1"))
    path = f"{CPU}/cpu40/cache"
    levels = [files[f"{path}/index{index}/level"].strip() for index in (0, 1)]
    assert levels == ["1", "3"]
    masks = [files[f"{path}/index{index}/shared_cpu_map"].strip() for index in (0, 1)]
    assert masks == ["00000100,00000000", "0000fff0,00000000"]
    assert files[f"{CPU}/cpu3/cache/index0/shared_cpu_map"].strip() == "00000008"
