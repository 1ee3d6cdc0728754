"""``memory_manager_state``: which memory each container holds, and the tables of every NUMA node.

| version | differs by | written by |
|---|---|---|
| 1 | entries by pod and container | up to 1.35, 1.36 without pod-level managers |
| 2 | entries of whole pods | 1.36 with pod-level managers |
| 3 | all of it again in ``data``, a string with a checksum of its own | 1.37 |
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Any, Final

from numakube.api.checkpoints.checkpoint_loading import (
    CORRUPTED,
    CheckpointMapType,
    GoType,
    Seal,
    SliceType,
    StructType,
    cannot_restore,
    checksum_of,
    checksum_of_text,
    decode_as_written,
    first_that_loads,
    parse_object,
    parse_sealed,
    pointer_to,
    read_fields,
    require,
    require_policy,
)
from numakube.api.codec import Wire, to_tree
from numakube.errors import CorruptCheckpoint
from numakube.values.gotext import go_json, sorted_by_text

DEFAULT_PATH: Final = "/var/lib/kubelet/memory_manager_state"
ALL_VERSIONS: Final = (3, 2, 1)


class MemoryTable(Wire, frozen=True, omit_defaults=False):
    """One kind of memory on one NUMA node, in bytes."""

    total: int = 0
    system_reserved: int = 0
    allocatable: int = 0
    reserved: int = 0
    free: int = 0


class NumaNodeState(Wire, frozen=True, omit_defaults=False):
    """A NUMA node; ``cells`` are the nodes of the group that it allocates memory with."""

    number_of_assignments: int = 0
    memory_map: dict[str, MemoryTable] = {}
    cells: tuple[int, ...] = ()


class CheckpointMemoryBlock(Wire, frozen=True, omit_defaults=False):
    """Memory of one kind that a container holds on a group of NUMA nodes."""

    numa_affinity: tuple[int, ...] = ()
    type: str = ""
    size: int = 0


class PodMemoryEntry(Wire, frozen=True):
    """Memory of a whole pod (pod-level managers)."""

    memory_blocks: tuple[CheckpointMemoryBlock, ...] = ()


class MemoryManagerState(Wire, frozen=True):
    """What the Memory Manager remembers."""

    policy_name: str = ""
    machine_state: dict[int, NumaNodeState] = {}
    entries: dict[str, dict[str, tuple[CheckpointMemoryBlock, ...]]] = {}
    """Blocks by pod uid and container name."""
    pod_entries: dict[str, PodMemoryEntry] = {}
    """Blocks of whole pods by uid."""


def read_memory_manager_state(
    data: bytes | str,
    *,
    path: str = DEFAULT_PATH,
    policy: str | None = None,
    versions: Iterable[int] = ALL_VERSIONS,
) -> MemoryManagerState:
    """Return the state in *data*.

    Args:
        data: the content of the file.
        path: where the file is, for the error.
        policy: the configured policy, which must be the one that wrote the file.
        versions: the versions to try, in this order.

    Raises:
        CorruptCheckpoint: with the text that the kubelet would refuse to start with.
    """
    loaders = {3: _load_v3, 2: _load_v2, 1: _load_v1}
    try:
        tree = parse_object(data)
        tries = list(versions)
        if 3 in tries and read_fields(Seal, tree).has_data:
            tries = [3]
        state = first_that_loads(tree, [loaders[version] for version in tries])
        require_policy(state.policy_name, policy, prefix="[memorymanager] ")
    except CorruptCheckpoint as reason:
        raise cannot_restore(reason, manager="memory manager", path=path) from None
    return state


def peek_memory_manager_state(data: bytes | str, *, path: str = DEFAULT_PATH) -> MemoryManagerState:
    """Return the state in *data* without the costly check of its checksum, for onlookers."""
    try:
        sealed = decode_as_written(Seal, data).data
        return decode_as_written(MemoryManagerState, sealed or data)
    except CorruptCheckpoint as reason:
        raise CorruptCheckpoint(f"{path}: {reason}") from None


def write_memory_manager_state(state: MemoryManagerState, *, version: int = 1) -> bytes:
    """Return the file of *state* in the format of *version* (1 to 3)."""
    content = _tree(state)
    old = {key: value for key, value in content.items() if key != "podEntries"}
    if version == 2:
        return go_json({**content, "checksum": checksum_of(_GO_V2, state)}, struct=True).encode()
    sealed = {**old, "checksum": checksum_of(_GO_V1, state)}
    if version == 1:
        return go_json(sealed, struct=True).encode()
    inner = go_json(content, struct=True)
    return go_json(
        {**sealed, "data": inner, "dataChecksum": checksum_of_text(inner)}, struct=True
    ).encode()


def memory_checkpoint_version(minor: int, *, pod_level_managers: bool = False) -> int:
    """Return the version that the kubelet of Kubernetes 1.*minor* writes."""
    if minor >= 37:
        return 3
    return 2 if minor == 36 and pod_level_managers else 1


def _tree(state: MemoryManagerState) -> dict[str, Any]:
    """Return *state* in the order in which Go writes it."""
    machine = {
        node: {**to_tree(one), "memoryMap": dict(sorted(to_tree(one.memory_map).items()))}
        for node, one in state.machine_state.items()
    }
    tree: dict[str, Any] = {
        "policyName": state.policy_name,
        "machineState": sorted_by_text(machine),
    }
    if state.entries:
        tree["entries"] = {
            uid: {name: to_tree(blocks) for name, blocks in sorted(containers.items())}
            for uid, containers in sorted(state.entries.items())
        }
    if state.pod_entries:
        tree["podEntries"] = {uid: to_tree(one) for uid, one in sorted(state.pod_entries.items())}
    return tree


def _load_v3(tree: dict[str, Any]) -> MemoryManagerState:
    seal = read_fields(Seal, tree)
    try:
        return read_fields(MemoryManagerState, parse_sealed(seal.data, seal.data_checksum))
    except CorruptCheckpoint as reason:
        raise CorruptCheckpoint(f"could not load v3 checkpoint: {reason}") from None


def _load_v2(tree: dict[str, Any]) -> MemoryManagerState:
    state = read_fields(MemoryManagerState, tree)
    require(read_fields(Seal, tree).checksum == checksum_of(_GO_V2, state), CORRUPTED)
    return state


def _load_v1(tree: dict[str, Any]) -> MemoryManagerState:
    state = read_fields(MemoryManagerState, tree)
    require(read_fields(Seal, tree).checksum == checksum_of(_GO_V1, state), CORRUPTED)
    return MemoryManagerState(
        policy_name=state.policy_name,
        machine_state=state.machine_state,
        entries=state.entries,
    )


# The Go structs whose printed form is hashed. The checksum field itself is zero at that time.
_TEXT: Final = GoType("string")
_UINT64: Final = GoType("uint64")
_RESOURCE: Final = GoType("v1.ResourceName")
_INTS: Final = SliceType("[]int", GoType("int"))
_TABLE: Final = StructType(
    "state.MemoryTable",
    (
        ("TotalMemSize", attrgetter("total"), _UINT64),
        ("SystemReserved", attrgetter("system_reserved"), _UINT64),
        ("Allocatable", attrgetter("allocatable"), _UINT64),
        ("Reserved", attrgetter("reserved"), _UINT64),
        ("Free", attrgetter("free"), _UINT64),
    ),
)
_NODE: Final = StructType(
    "state.NUMANodeState",
    (
        ("NumberOfAssignments", attrgetter("number_of_assignments"), GoType("int")),
        (
            "MemoryMap",
            attrgetter("memory_map"),
            CheckpointMapType(
                "map[v1.ResourceName]*state.MemoryTable", _RESOURCE, pointer_to(_TABLE)
            ),
        ),
        ("Cells", attrgetter("cells"), _INTS),
    ),
)
_BLOCKS: Final = SliceType(
    "[]state.Block",
    StructType(
        "state.Block",
        (
            ("NUMAAffinity", attrgetter("numa_affinity"), _INTS),
            ("Type", attrgetter("type"), _RESOURCE),
            ("Size", attrgetter("size"), _UINT64),
        ),
    ),
)
_FIELDS: Final = (
    ("PolicyName", attrgetter("policy_name"), _TEXT),
    (
        "MachineState",
        attrgetter("machine_state"),
        CheckpointMapType("state.NUMANodeMap", GoType("int"), pointer_to(_NODE)),
    ),
    (
        "Entries",
        attrgetter("entries"),
        CheckpointMapType(
            "state.ContainerMemoryAssignments",
            _TEXT,
            CheckpointMapType("map[string][]state.Block", _TEXT, _BLOCKS),
        ),
    ),
)
_POD_ENTRIES: Final = (
    "PodEntries",
    attrgetter("pod_entries"),
    CheckpointMapType(
        "state.PodMemoryAssignments",
        _TEXT,
        StructType("state.PodEntry", (("MemoryBlocks", attrgetter("memory_blocks"), _BLOCKS),)),
    ),
)
_CHECKSUM: Final = ("Checksum", lambda _: 0, GoType("checksum.Checksum"))
_NAME: Final = "state.MemoryManagerCheckpoint"
_GO_V1: Final = pointer_to(StructType(_NAME, (*_FIELDS, _CHECKSUM)))
_GO_V2: Final = pointer_to(StructType(_NAME, (*_FIELDS, _POD_ENTRIES, _CHECKSUM)))
