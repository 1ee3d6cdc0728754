"""``cpu_manager_state``: the CPU Manager's checkpoint, in every form that kubelets write.

| version | differs by | written by |
|---|---|---|
| 1 | entries by container id | up to 1.17 |
| 2 | entries by pod and container | 1.18 to 1.35, 1.36 without pod-level managers |
| 3 | entries of whole pods | 1.36 with pod-level managers |
| 4 | all of it again in ``data``, a string with a checksum of its own | 1.37 |

A file without ``data`` may be of version 3 with no pod entries or of version 2: only the checksum
tells, so each version is tried in turn, as the kubelet does.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import Any, Final, TypeVar

from numakube.api.checkpoints.checkpoint_loading import (
    CORRUPTED,
    CheckpointMapType,
    GoType,
    Seal,
    StructType,
    cannot_restore,
    checksum_of,
    checksum_of_text,
    decode_as_written,
    first_that_loads,
    is_any_of,
    parse_object,
    parse_sealed,
    pointer_to,
    read_fields,
    require,
    require_policy,
)
from numakube.api.codec import Wire
from numakube.errors import CorruptCheckpoint, InvalidValue
from numakube.values.cpuset import NO_CPUS, CpuMask, CpuSet, union
from numakube.values.gotext import go_json, go_quote

# ``cpu_manager_state`` as it stands on disk, and the Go structs that its checksum is made of.


class PodCpuEntry(Wire, frozen=True):
    """CPUs of a whole pod."""

    cpu_set: str = ""


class Baseline(Wire, frozen=True):
    """CPUs of a container when it was admitted."""

    baseline: str = ""


class FileV1(Wire, frozen=True):
    """Version 1."""

    policy_name: str = ""
    default_cpu_set: str = ""
    entries: dict[str, str] = {}
    checksum: int = 0


class File(Wire, frozen=True):
    """Versions 2 to 4; and, without the checksums, what ``data`` contains."""

    policy_name: str = ""
    default_cpu_set: str = ""
    entries: dict[str, dict[str, str]] = {}
    pod_entries: dict[str, PodCpuEntry] = {}
    baselines: dict[str, dict[str, Baseline]] = {}
    checksum: int = 0
    data: str = ""
    data_checksum: int = 0


# The Go structs whose printed form is hashed. The checksum field itself is zero at that time.
_TEXT: Final = GoType("string")
_NO_CHECKSUM: Final = ("Checksum", lambda _: 0, GoType("checksum.Checksum"))
_HEAD: Final = (
    ("PolicyName", attrgetter("policy_name"), _TEXT),
    ("DefaultCPUSet", attrgetter("default_cpu_set"), _TEXT),
)
_ENTRIES: Final = (
    "Entries",
    attrgetter("entries"),
    CheckpointMapType(
        "map[string]map[string]string", _TEXT, CheckpointMapType("map[string]string", _TEXT, _TEXT)
    ),
)
_CPUSET: Final = StructType(
    "cpuset.CPUSet",
    (
        (
            "elems",
            lambda entry: dict.fromkeys(CpuSet.parse(entry.cpu_set)),
            CheckpointMapType("map[int]struct {}", GoType("int"), StructType("struct {}", ())),
        ),
    ),
)
_POD_ENTRIES: Final = (
    "PodEntries",
    attrgetter("pod_entries"),
    CheckpointMapType(
        "state.PodCPUAssignments",
        _TEXT,
        StructType("state.PodEntry", (("CPUSet", lambda entry: entry, _CPUSET),)),
    ),
)


def _checkpoint(name: str, *fields: tuple[str, Callable[[Any], Any], GoType]) -> GoType:
    return pointer_to(StructType(f"state.{name}", (*_HEAD, *fields, _NO_CHECKSUM)))


_LEGACY_NAME: Final = "CPUManagerCheckpoint"
GO_V1: Final = _checkpoint(
    _LEGACY_NAME,
    ("Entries", attrgetter("entries"), CheckpointMapType("map[string]string", _TEXT, _TEXT)),
)
GO_V2: Final = _checkpoint(_LEGACY_NAME, _ENTRIES)
GO_V3: Final = _checkpoint(_LEGACY_NAME, _ENTRIES, _POD_ENTRIES)
GO_V2_NAMES: Final = (GO_V2, _checkpoint("CPUManagerCheckpointV2", _ENTRIES))
GO_V3_NAMES: Final = (GO_V3, _checkpoint("CPUManagerCheckpointV3", _ENTRIES, _POD_ENTRIES))


DEFAULT_PATH: Final = "/var/lib/kubelet/cpu_manager_state"
ALL_VERSIONS: Final = (4, 3, 1, 2)

V = TypeVar("V")
_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class CpuManagerState:
    """What the CPU Manager remembers."""

    policy: str
    default_cpus: CpuSet
    entries: Mapping[str, Mapping[str, CpuSet]] = field(default_factory=dict)
    """CPUs by pod uid and container name."""
    pod_entries: Mapping[str, CpuSet] = field(default_factory=dict)
    """CPUs of whole pods by uid (pod-level managers)."""
    baselines: Mapping[str, Mapping[str, CpuSet]] = field(default_factory=dict)
    """CPUs at admission by pod uid and container name (in-place resize of exclusive CPUs)."""
    by_container_id: Mapping[str, CpuSet] = field(default_factory=dict)
    """CPUs by container id; only version 1 knows no more."""

    @property
    def by_pod(self) -> dict[str, CpuMask]:
        """CPUs that were given out, by pod uid."""
        given = {
            uid: union(cpus.mask for cpus in containers.values())
            for uid, containers in self.entries.items()
        }
        for uid, cpus in self.pod_entries.items():
            given[uid] = given.get(uid, NO_CPUS) | cpus.mask
        return given


def read_cpu_manager_state(
    data: bytes | str,
    *,
    path: str = DEFAULT_PATH,
    policy: str | None = None,
    versions: Iterable[int] = ALL_VERSIONS,
) -> CpuManagerState:
    """Return the state in *data*.

    Args:
        data: the content of the file.
        path: where the file is, for the error.
        policy: the configured policy, which must be the one that wrote the file.
        versions: the versions to try, in this order; if none fits, the last one's complaint
            is raised.

    Raises:
        CorruptCheckpoint: with the text that the kubelet would refuse to start with.
    """
    loaders = {4: _load_v4, 3: _load_v3, 2: _load_v2, 1: _load_v1}
    try:
        tree = parse_object(data)
        tries = list(versions)
        if 4 in tries and read_fields(Seal, tree).has_data:
            tries = [4]
        state = first_that_loads(tree, [loaders[version] for version in tries])
        require_policy(state.policy, policy)
    except CorruptCheckpoint as reason:
        raise cannot_restore(reason, manager="CPU manager", path=path) from None
    return state


def peek_cpu_manager_state(data: bytes | str, *, path: str = DEFAULT_PATH) -> CpuManagerState:
    """Return the state in *data* without the costly check of its checksum.

    For onlookers, who read the file often: it is replaced as a whole, so that there is no half one,
    and a damaged one only matters to a kubelet that starts. Version 1 is refused.
    """
    try:
        file = decode_as_written(File, data)
        return _state(decode_as_written(File, file.data) if file.data else file)
    except CorruptCheckpoint as reason:
        raise CorruptCheckpoint(f"{path}: {reason}") from None


def write_cpu_manager_state(state: CpuManagerState, *, version: int = 2) -> bytes:
    """Return the file of *state* in the format of *version* (1 to 4)."""
    head = {"policyName": state.policy, "defaultCpuSet": str(state.default_cpus)}
    if version == 1:
        texts = {"entries": _texts(state.by_container_id)}
        return _sealed({**head, **_nonempty(texts)}, GO_V1, FileV1)
    entries = _nonempty({"entries": _nested(state.entries, str)})
    if version == 2:
        return _sealed({**head, **entries}, GO_V2, File)
    pods = {uid: _nonempty({"cpuSet": str(cpus)}) for uid, cpus in _sorted(state.pod_entries)}
    pod_entries = _nonempty({"podEntries": pods})
    if version == 3:
        return _sealed({**head, **entries, **pod_entries}, GO_V3, File)
    baselines = _nested(state.baselines, lambda cpus: {"baseline": str(cpus)})
    inner = go_json(
        {**head, **entries, **pod_entries, **_nonempty({"baselines": baselines})}, struct=True
    )
    tail = {"data": inner, "dataChecksum": checksum_of_text(inner)}
    return _sealed({**head, **entries}, GO_V2, File, tail)


def cpu_checkpoint_version(minor: int, *, pod_level_managers: bool = False) -> int:
    """Return the version that the kubelet of Kubernetes 1.*minor* writes."""
    if minor >= 37:
        return 4
    if minor == 36:
        return 3 if pod_level_managers else 2
    return 2 if minor >= 18 else 1


def _sealed(
    tree: dict[str, Any],
    go_type: GoType,
    kind: type[File] | type[FileV1],
    tail: Mapping[str, Any] = _NOTHING,
) -> bytes:
    """Return *tree* with its checksum, which is computed over the file as it will be read."""
    checksum = checksum_of(go_type, read_fields(kind, tree))
    return go_json({**tree, "checksum": checksum, **tail}, struct=True).encode()


def _sorted(mapping: Mapping[str, V]) -> list[tuple[str, V]]:
    return sorted(mapping.items(), key=lambda item: item[0])


def _texts(cpus: Mapping[str, CpuSet]) -> dict[str, str]:
    return {name: str(one) for name, one in _sorted(cpus)}


def _nested(
    cpus: Mapping[str, Mapping[str, CpuSet]], write: Callable[[CpuSet], object]
) -> dict[str, dict[str, object]]:
    return {
        uid: {name: write(one) for name, one in _sorted(containers)}
        for uid, containers in _sorted(cpus)
    }


def _nonempty(tree: dict[str, Any]) -> dict[str, Any]:
    """Return *tree* without what Go leaves out because it is empty."""
    return {key: value for key, value in tree.items() if value}


def _load_v4(tree: dict[str, Any]) -> CpuManagerState:
    file = read_fields(File, tree)
    try:
        content = read_fields(File, parse_sealed(file.data, file.data_checksum))
    except CorruptCheckpoint as reason:
        raise CorruptCheckpoint(f"could not load v4 checkpoint: {reason}") from None
    return _state(content)


def _load_v3(tree: dict[str, Any]) -> CpuManagerState:
    file = read_fields(File, tree)
    _pod_entries(file)  # the checksum is made of them
    require(is_any_of(file.checksum, file, GO_V3_NAMES), CORRUPTED)
    return _state(file)


def _load_v2(tree: dict[str, Any]) -> CpuManagerState:
    file = read_fields(File, tree)
    # An ancient kubelet wrote no checksum.
    require(file.checksum == 0 or is_any_of(file.checksum, file, GO_V2_NAMES), CORRUPTED)
    return _state(file, pods=False)


def _load_v1(tree: dict[str, Any]) -> CpuManagerState:
    file = read_fields(FileV1, tree)
    require(file.checksum in (0, checksum_of(GO_V1, file)), CORRUPTED)
    return CpuManagerState(
        policy=file.policy_name,
        default_cpus=_default_cpus(file.default_cpu_set),
        by_container_id={
            container: _parse(text, f"cpuset {go_quote(text)} for container {go_quote(container)}")
            for container, text in file.entries.items()
        },
    )


def _state(file: File, *, pods: bool = True) -> CpuManagerState:
    return CpuManagerState(
        policy=file.policy_name,
        default_cpus=_default_cpus(file.default_cpu_set),
        entries={
            uid: {name: _parse_of(text, "cpuset", name, uid) for name, text in containers.items()}
            for uid, containers in file.entries.items()
        },
        pod_entries=_pod_entries(file) if pods else {},
        baselines={
            uid: {
                name: _parse_of(one.baseline, "Baseline cpuset", name, uid)
                for name, one in containers.items()
            }
            for uid, containers in file.baselines.items()
        },
    )


def _pod_entries(file: File) -> dict[str, CpuSet]:
    return {
        uid: _parse(entry.cpu_set, f"cpuset {go_quote(entry.cpu_set)} of pod {go_quote(uid)}")
        for uid, entry in file.pod_entries.items()
    }


def _default_cpus(text: str) -> CpuSet:
    return _parse(text, f"default CPU set {go_quote(text)}")


def _parse_of(text: str, what: str, container: str, pod: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except InvalidValue as error:
        place = f"for container {go_quote(container)} in pod {go_quote(pod)}"
        raise _unreadable(f"{what} {go_quote(text)} {place}", error) from None


def _parse(text: str, what: str) -> CpuSet:
    try:
        return CpuSet.parse(text)
    except InvalidValue as error:
        raise _unreadable(what, error) from None


def _unreadable(what: str, error: InvalidValue) -> CorruptCheckpoint:
    return CorruptCheckpoint(f"could not parse {what}: {error.reason or error}")
