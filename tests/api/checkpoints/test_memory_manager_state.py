"""``memory_manager_state``: every version, its checksum, and the kubelet's complaints."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.checkpoints import (
    CheckpointMemoryBlock,
    MemoryManagerState,
    MemoryTable,
    NumaNodeState,
    memory_checkpoint_version,
    read_memory_manager_state,
    write_memory_manager_state,
)
from numakube.api.checkpoints.memory_manager_state import PodMemoryEntry
from numakube.errors import CorruptCheckpoint

BLOCK = CheckpointMemoryBlock(numa_affinity=(0,), type="memory", size=512)
TABLE = MemoryTable(total=2048, system_reserved=512, allocatable=1536, reserved=512, free=1024)
STATE = MemoryManagerState(
    policy_name="static",
    machine_state={0: NumaNodeState(memory_map={"memory": TABLE})},
    entries={"pod": {"container1": (BLOCK,)}},
)
WITH_POD = MemoryManagerState(
    policy_name=STATE.policy_name,
    machine_state=STATE.machine_state,
    entries=STATE.entries,
    pod_entries={"pod": PodMemoryEntry(memory_blocks=(BLOCK,))},
)


def written(state: MemoryManagerState, version: int) -> dict[str, Any]:
    """Return the file of *state* as a tree."""
    tree: dict[str, Any] = json.loads(write_memory_manager_state(state, version=version))
    return tree


def test_checksums_are_those_of_the_kubelet() -> None:
    """Recorded from its own tests."""
    assert written(STATE, 1)["checksum"] == 4215593881
    assert written(WITH_POD, 2)["checksum"] == 1278640530


def test_version_1_is_written_byte_for_byte() -> None:
    """Fields in Go's order; NUMA nodes sorted as text."""
    assert write_memory_manager_state(STATE) == (
        b'{"policyName":"static","machineState":{"0":{"numberOfAssignments":0,"memoryMap":'
        b'{"memory":{"total":2048,"systemReserved":512,"allocatable":1536,"reserved":512,'
        b'"free":1024}},"cells":[]}},"entries":{"pod":{"container1":[{"numaAffinity":[0],'
        b'"type":"memory","size":512}]}},"checksum":4215593881}'
    )
    nodes = MemoryManagerState(machine_state={node: NumaNodeState() for node in (2, 10)})
    assert list(written(nodes, 1)["machineState"]) == ["10", "2"]


def test_version_3_carries_version_1_for_older_kubelets() -> None:
    """Which ignore ``data``."""
    data = write_memory_manager_state(WITH_POD, version=3)

    assert read_memory_manager_state(data) == WITH_POD
    assert read_memory_manager_state(data, versions=(1,)) == STATE


@pytest.mark.parametrize(
    ("version", "change", "reason"),
    [
        (1, {"checksum": 1}, "checkpoint is corrupted"),
        (2, {"checksum": 1}, "checkpoint is corrupted"),
        (3, {"dataChecksum": 1}, "could not load v3 checkpoint: checkpoint is corrupted"),
        (1, {"machineState": []}, "expected an object"),
    ],
)
def test_damage_is_refused_in_the_kubelets_words(
    version: int, change: dict[str, Any], reason: str
) -> None:
    """With the file to delete."""
    tree = written(WITH_POD, version) | change

    with pytest.raises(CorruptCheckpoint, match=reason) as refused:
        read_memory_manager_state(json.dumps(tree))

    assert str(refused.value).endswith(
        "please drain this node and delete the memory manager checkpoint file "
        '"/var/lib/kubelet/memory_manager_state" before restarting Kubelet'
    )


def test_another_policy_is_refused() -> None:
    """The operator must drain the node before changing it."""
    with pytest.raises(CorruptCheckpoint) as refused:
        read_memory_manager_state(write_memory_manager_state(STATE), policy="None")

    assert (
        '[memorymanager] configured policy "None" differs from state checkpoint policy "static"'
        in str(refused.value)
    )


def test_which_version_each_release_writes() -> None:
    """The gate for pod-level managers matters in 1.36 only."""
    assert [memory_checkpoint_version(minor) for minor in (31, 35, 36, 37)] == [1, 1, 1, 3]
    assert memory_checkpoint_version(36, pod_level_managers=True) == 2


sizes = st.integers(0, 2**64 - 1)
names = st.text("abc-", min_size=1, max_size=5)
kinds = st.sampled_from(["memory", "hugepages-2Mi", "hugepages-1Gi"])
cells = st.lists(st.integers(0, 12), max_size=4).map(tuple)
blocks = st.lists(
    st.builds(CheckpointMemoryBlock, numa_affinity=cells, type=kinds, size=sizes), max_size=3
).map(tuple)
tables = st.builds(
    MemoryTable, total=sizes, system_reserved=sizes, allocatable=sizes, reserved=sizes, free=sizes
)
nodes = st.builds(
    NumaNodeState,
    number_of_assignments=st.integers(0, 9),
    memory_map=st.dictionaries(kinds, tables),
    cells=cells,
)
states = st.builds(
    MemoryManagerState,
    policy_name=st.sampled_from(["None", "Static"]),
    machine_state=st.dictionaries(st.integers(0, 12), nodes, max_size=3),
    entries=st.dictionaries(names, st.dictionaries(names, blocks, max_size=2), max_size=3),
    pod_entries=st.dictionaries(names, st.builds(PodMemoryEntry, memory_blocks=blocks), max_size=2),
)


@given(states, st.sampled_from([2, 3]))
def test_states_read_back_as_they_were_written(state: MemoryManagerState, version: int) -> None:
    """Sums of bytes beyond int64 included."""
    data = write_memory_manager_state(state, version=version)

    assert read_memory_manager_state(data) == state
