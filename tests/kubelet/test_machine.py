"""How close two devices are, in the words of ``nvidia-smi topo -m``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from numakube.kubelet.machine import (
    Closeness,
    Connection,
    Core,
    Device,
    DeviceTree,
    HugePages,
    Machine,
    NumaNode,
    PciPath,
    differences,
    path_of,
    tree_of,
)

GPU = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0/0000:18:00.0"
BESIDE_GPU = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.0"
SECOND_PORT = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:01.0/0000:19:00.1"
BELOW_TWO_SWITCHES = (
    "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:02.0/0000:1a:00.0/0000:1b:00.0/0000:1c:00.0"
)
ONE_BRIDGE_DEEPER = "pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:03.0/0000:1d:00.0/0000:1e:00.0"
OTHER_ROOT_PORT = "pci0000:15/0000:15:02.0/0000:30:00.0"
OTHER_HOST_BRIDGE = "pci0000:40/0000:40:01.0/0000:41:00.0"
OTHER_SOCKET = "pci0000:80/0000:80:01.0/0000:81:00.0"
NOWHERE = "pci0000:c0/0000:c0:01.0/0000:c1:00.0"


def machine() -> DeviceTree:
    """Return a tree with something at every distance from the GPU."""
    here = (
        GPU,
        BESIDE_GPU,
        SECOND_PORT,
        BELOW_TWO_SWITCHES,
        ONE_BRIDGE_DEEPER,
        OTHER_ROOT_PORT,
        OTHER_HOST_BRIDGE,
    )
    places = [*((path, 0) for path in here), (OTHER_SOCKET, 1), (NOWHERE, None)]
    paths = [path_of(["sys", "devices", *path.split("/")], node) for path, node in places]
    return tree_of([path for path in paths if path], {("0000:18:00.0", "0000:81:00.0"): 18})


def address(path: str) -> str:
    """Return the function at the end of a path."""
    return path.rpartition("/")[2]


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        (GPU, GPU, "X"),
        (GPU, BESIDE_GPU, "PIX"),
        (BESIDE_GPU, SECOND_PORT, "PIX"),
        (GPU, BELOW_TWO_SWITCHES, "PXB"),
        (GPU, ONE_BRIDGE_DEEPER, "PXB"),
        (GPU, OTHER_ROOT_PORT, "PHB"),
        (GPU, OTHER_HOST_BRIDGE, "NODE"),
        (BESIDE_GPU, OTHER_SOCKET, "SYS"),
        (GPU, OTHER_SOCKET, "NV18"),
    ],
)
def test_two_devices_are_as_close_as_what_lies_between_them(
    one: str, other: str, word: str
) -> None:
    """In both directions."""
    tree = machine()
    for first, second in ((one, other), (other, one)):
        found = tree.between(address(first), address(second))
        assert found is not None
        assert found.text == word


def test_what_the_kernel_does_not_tell_is_not_guessed() -> None:
    """Neither for functions without a NUMA node nor for such that are not there."""
    tree = machine()
    assert tree.between(address(GPU), address(NOWHERE)) is None
    assert tree.between(address(GPU), "0000:ff:00.0") is None
    assert tree.between(address(NOWHERE), address(NOWHERE)) == Connection(Closeness.SELF)


def test_a_function_behind_a_volume_management_device_keeps_its_host_bridge() -> None:
    """Such a device is a bridge into a PCI domain of its own."""
    parts = ["pci0000:64", "0000:64:00.5", "pci10000:e0", "10000:e0:02.0", "10000:e1:00.0"]
    path = path_of(parts, 0)
    assert path is not None
    assert path.root == "pci0000:64"
    assert path.bridges == ("0000:64:00.5", "10000:e0:02.0")


def test_other_devices_have_no_path() -> None:
    """Such as a network interface that no PCI function provides."""
    assert path_of(["virtual", "net", "lo"], None) is None


def test_devices_that_are_local_to_several_numa_nodes_are_close_on_each() -> None:
    """A driver may tell more than the kernel, which knows one."""
    card = PciPath("card", "pci0000:00", (), 4, frozenset({4, 5, 6}))
    for numa_node, closeness in ((6, Closeness.NODE), (4, Closeness.NODE), (7, Closeness.SYS)):
        other = PciPath("other", "pci0000:80", (), numa_node)
        found = tree_of([card, other]).between("card", "other")
        assert found is not None
        assert found.closeness is closeness


# ------------------------------------------------------------------------------------------------
# Where two machines differ.

CORES = (Core(0, (0, 2), 0), Core(1, (1, 3), 0, uncore_cache=1))
NODE = NumaNode(0, 8, CORES, (HugePages(1024, 4),), (10,))
WHOLE = Machine((NODE,), 4, 1, {"example.com/gpu": (Device("a", (0,)), Device("b"))})


def with_node(**fields: Any) -> Machine:
    """Return the machine with one thing of its node changed."""
    return replace(WHOLE, nodes=(replace(NODE, **fields),))


def with_devices(*devices: Device, resource: str = "example.com/gpu") -> Machine:
    """Return the machine with these devices alone."""
    return replace(WHOLE, devices={resource: devices})


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (WHOLE, []),
        (replace(WHOLE, nodes=()), ["1 NUMA nodes, not 0"]),
        (
            replace(WHOLE, cpu_count=5, socket_count=2),
            ["cpu_count is 4, not 5", "socket_count is 1, not 2"],
        ),
        (with_node(memory_bytes=9), ["NUMA node 0: memory_bytes is 8, not 9"]),
        (with_node(distances=()), ["NUMA node 0: distances is (10,), not ()"]),
        (with_node(cores=CORES[:1]), ["NUMA node 0: 2 cores, not 1"]),
        (
            with_node(cores=(CORES[0], replace(CORES[1], uncore_cache=2))),
            ["NUMA node 0: core with CPUs 1,3: uncore_cache is 1, not 2"],
        ),
        (
            with_node(hugepages=(HugePages(1024, 5),)),
            ["NUMA node 0: hugepages of 1024 bytes: count is 4, not 5"],
        ),
        (
            with_devices(Device("a", (1,)), Device("b", healthy=False)),
            [
                "example.com/gpu: device a: numa_nodes is (0,), not (1,)",
                "example.com/gpu: device b: healthy is True, not False",
            ],
        ),
        (with_devices(Device("a", (0,))), ["example.com/gpu: 2 devices, not 1"]),
        (
            with_devices(resource="example.com/nic"),
            ["example.com/gpu: 2 devices, not 0", "device resources"],
        ),
        (replace(WHOLE, tree=machine()), ["how devices are connected"]),
    ],
)
def test_where_two_machines_differ_is_told_part_by_part(other: Machine, told: list[str]) -> None:
    assert differences(WHOLE, other) == told
