"""Reading state files as an onlooker: the same content, without the checksum."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from numakube.api.checkpoints import (
    CpuManagerState,
    DeviceManagerState,
    MemoryBlock,
    MemoryManagerState,
    MemoryTable,
    NumaNodeState,
    PodDevices,
    peek_cpu_manager_state,
    peek_device_manager_state,
    peek_memory_manager_state,
    write_cpu_manager_state,
    write_device_manager_state,
    write_memory_manager_state,
)
from numakube.errors import CorruptCheckpoint
from numakube.values.cpuset import CpuSet

CPUS = CpuManagerState(
    policy="static",
    default_cpus=CpuSet.parse("0-3"),
    entries={"uid": {"main": CpuSet.parse("4-5"), "init": CpuSet.parse("4-7")}},
)
MEMORY = MemoryManagerState(
    policy_name="Static",
    machine_state={
        0: NumaNodeState(
            number_of_assignments=1,
            memory_map={"memory": MemoryTable(total=8, allocatable=8, reserved=3, free=5)},
            cells=(0, 1),
        )
    },
    entries={"uid": {"main": (MemoryBlock(numa_affinity=(0, 1), type="memory", size=3),)}},
)
DEVICES = DeviceManagerState(
    pod_device_entries=(
        PodDevices(
            pod_uid="uid", container_name="main", resource_name="a/b", device_ids={-1: ("d",)}
        ),
    ),
    registered_devices={"a/b": ("d", "e")},
)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_cpus_are_read_from_every_version(version: int) -> None:
    """The newest one keeps its content in a text."""
    assert peek_cpu_manager_state(write_cpu_manager_state(CPUS, version=version)) == CPUS


@pytest.mark.parametrize("version", [1, 2, 3])
def test_memory_is_read_from_every_version(version: int) -> None:
    """Books and blocks."""
    assert peek_memory_manager_state(write_memory_manager_state(MEMORY, version=version)) == MEMORY


def test_devices_are_read() -> None:
    """Also those without NUMA node."""
    assert peek_device_manager_state(write_device_manager_state(DEVICES)) == DEVICES


def test_a_wrong_checksum_does_not_matter() -> None:
    """It only keeps a kubelet from starting."""
    wrong = write_cpu_manager_state(CPUS).replace(b'"checksum":', b'"checksum":1')
    assert peek_cpu_manager_state(wrong) == CPUS


@pytest.mark.parametrize(
    "peek", [peek_cpu_manager_state, peek_memory_manager_state, peek_device_manager_state]
)
@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"entries": 3, "Data": 3}', b"{"])
def test_what_is_no_state_file_is_refused_by_name(
    peek: Callable[[bytes], object], data: bytes
) -> None:
    """With the path of the file."""
    with pytest.raises(CorruptCheckpoint, match="/var/lib/kubelet/"):
        peek(data)
