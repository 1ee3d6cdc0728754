"""Reading state files: as an onlooker without the checksum, and the text that kubelets hash."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter

import pytest

from numakube.api.checkpoints import (
    CheckpointMemoryBlock,
    CpuManagerState,
    DeviceManagerState,
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
from numakube.api.checkpoints.checkpoint_loading import (
    CheckpointMapType,
    GoType,
    SliceType,
    StructType,
    checksum_of_text,
    fnv1a_32,
    pointer_to,
    spew,
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
    entries={
        "uid": {"main": (CheckpointMemoryBlock(numa_affinity=(0, 1), type="memory", size=3),)}
    },
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


# The text that the kubelet hashes.


INT = GoType("int")
TEXT = GoType("string")
POINT = StructType("p.Point", (("X", itemgetter(0), INT), ("Name", itemgetter(1), TEXT)))


def test_fnv1a_of_known_texts() -> None:
    """The published test values of FNV-1a."""
    assert fnv1a_32(b"") == 0x811C9DC5
    assert fnv1a_32(b"a") == 0xE40C292C
    assert fnv1a_32(b"foobar") == 0xBF9CF968


def test_checksum_of_a_string() -> None:
    """As in the ``dataChecksum`` of newer files."""
    assert checksum_of_text('{"policyName":"none","defaultCPUSet":"4-6"}') == 657950972


def test_elements_hide_their_types_and_fields_show_them() -> None:
    """Types are printed at the top and before the fields of structs."""
    assert spew(SliceType("[]int", INT), [1, 2]) == "([]int)[1 2]"
    assert spew(POINT, (1, "a")) == "(p.Point){X:(int)1 Name:(string)a}"
    points = SliceType("[]p.Point", POINT)
    assert spew(points, [(1, "a")]) == "([]p.Point)[{X:(int)1 Name:(string)a}]"


def test_maps_are_sorted_by_key() -> None:
    """Numbers by value, strings by character."""
    assert (
        spew(CheckpointMapType("map[int]string", INT, TEXT), {10: "b", 9: "a"})
        == "(map[int]string)map[9:a 10:b]"
    )
    assert spew(CheckpointMapType("m", TEXT, INT), {"b": 1, "B": 2}) == "(m)map[B:2 b:1]"


def test_nil_and_empty_differ() -> None:
    """For maps and slices alike."""
    assert spew(SliceType("[]int", INT), None) == "([]int)<nil>"
    assert spew(SliceType("[]int", INT), ()) == "([]int)[]"
    assert spew(CheckpointMapType("m", TEXT, INT), None) == "(m)<nil>"
    assert spew(CheckpointMapType("m", TEXT, INT), {}) == "(m)map[]"


def test_pointers() -> None:
    """Typed at the top, a star inside containers."""
    pointer = pointer_to(POINT)

    assert spew(pointer, (1, "a")) == "(*p.Point){X:(int)1 Name:(string)a}"
    assert spew(pointer, None) == "(*p.Point)<nil>"
    assert spew(SliceType("s", pointer), [(1, "a")]) == "(s)[<*>{X:(int)1 Name:(string)a}]"


def test_a_nil_pointer_in_a_container_hides_the_type_of_what_follows() -> None:
    """An oddity of go-spew, which its users' checksums contain."""
    holder = StructType(
        "p.H", (("L", itemgetter(0), SliceType("l", pointer_to(POINT))), ("N", itemgetter(1), INT))
    )

    assert spew(holder, ([None], 5)) == "(p.H){L:(l)[<nil>] N:5}"
