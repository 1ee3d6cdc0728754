"""``cpu_manager_state`` as it stands on disk, and the Go structs that its checksum is made of."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from numakube.api.checkpoints.checksum import GoType, MapType, StructType, pointer_to
from numakube.api.codec import Wire
from numakube.values.cpuset import CpuSet


class PodEntry(Wire, frozen=True):
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
    pod_entries: dict[str, PodEntry] = {}
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
    MapType("map[string]map[string]string", _TEXT, MapType("map[string]string", _TEXT, _TEXT)),
)
_CPUSET: Final = StructType(
    "cpuset.CPUSet",
    (
        (
            "elems",
            lambda entry: dict.fromkeys(CpuSet.parse(entry.cpu_set)),
            MapType("map[int]struct {}", GoType("int"), StructType("struct {}", ())),
        ),
    ),
)
_POD_ENTRIES: Final = (
    "PodEntries",
    attrgetter("pod_entries"),
    MapType(
        "state.PodCPUAssignments",
        _TEXT,
        StructType("state.PodEntry", (("CPUSet", lambda entry: entry, _CPUSET),)),
    ),
)


def _checkpoint(name: str, *fields: tuple[str, Callable[[Any], Any], GoType]) -> GoType:
    return pointer_to(StructType(f"state.{name}", (*_HEAD, *fields, _NO_CHECKSUM)))


_LEGACY_NAME: Final = "CPUManagerCheckpoint"
GO_V1: Final = _checkpoint(
    _LEGACY_NAME, ("Entries", attrgetter("entries"), MapType("map[string]string", _TEXT, _TEXT))
)
GO_V2: Final = _checkpoint(_LEGACY_NAME, _ENTRIES)
GO_V3: Final = _checkpoint(_LEGACY_NAME, _ENTRIES, _POD_ENTRIES)
GO_V2_NAMES: Final = (GO_V2, _checkpoint("CPUManagerCheckpointV2", _ENTRIES))
GO_V3_NAMES: Final = (GO_V3, _checkpoint("CPUManagerCheckpointV3", _ENTRIES, _POD_ENTRIES))
