"""``kubelet_internal_checkpoint``: the devices that containers hold and that plugins announced."""

from operator import attrgetter
from typing import Any, Final

import msgspec

from numakube.api.checkpoints.checkpoint_loading import (
    CORRUPTED,
    CheckpointMapType,
    GoType,
    SliceType,
    StructType,
    checksum_of,
)
from numakube.api.codec import BROKEN_JSON, to_tree
from numakube.errors import CorruptCheckpoint
from numakube.values.gotext import go_json, sorted_by_text

DEFAULT_PATH: Final = "/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint"
NO_TOPOLOGY: Final = -1
"""The NUMA node of devices whose plugin reported none."""


class PodDevices(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="pascal"):
    """Devices of one resource that a container holds, by NUMA node."""

    pod_uid: str = msgspec.field(default="", name="PodUID")
    container_name: str = ""
    resource_name: str = ""
    device_ids: dict[int, tuple[str, ...]] | None = msgspec.field(
        default_factory=dict, name="DeviceIDs"
    )
    alloc_resp: bytes | None = b""
    """The plugin's answer, a serialised ``ContainerAllocateResponse``."""


class DeviceManagerState(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="pascal"):
    """What the Device Manager remembers."""

    pod_device_entries: tuple[PodDevices, ...] | None = None
    registered_devices: dict[str, tuple[str, ...]] | None = msgspec.field(default_factory=dict)
    """Healthy devices by resource."""


class _DeviceCheckpointFile(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename="pascal"):
    data: DeviceManagerState = DeviceManagerState()
    checksum: int = 0


def read_device_manager_state(data: bytes | str, *, path: str = DEFAULT_PATH) -> DeviceManagerState:
    """Return the state in *data*, which is refused if its checksum is wrong.

    Formats older than Kubernetes 1.20, with a plain list of device ids, are refused as well. The
    kubelet logs such an error and goes on without the file.
    """
    file = _read(data, path)
    if checksum_of(_GO_DATA, file.data) != file.checksum:
        raise CorruptCheckpoint(f"{path}: {CORRUPTED}")
    return file.data


def peek_device_manager_state(data: bytes | str, *, path: str = DEFAULT_PATH) -> DeviceManagerState:
    """Return the state in *data* without the costly check of its checksum, for onlookers."""
    return _read(data, path).data


def write_device_manager_state(state: DeviceManagerState) -> bytes:
    """Return the file of *state*."""
    tree = {"Data": _tree(state), "Checksum": checksum_of(_GO_DATA, state)}
    return go_json(tree, struct=True).encode()


def _read(data: bytes | str, path: str) -> _DeviceCheckpointFile:
    try:
        return msgspec.json.decode(data, type=_DeviceCheckpointFile)
    except BROKEN_JSON as error:
        raise CorruptCheckpoint(f"{path}: {error}") from None


def _tree(state: DeviceManagerState) -> dict[str, Any]:
    """Return *state* with its maps in the order in which Go writes them."""
    tree: dict[str, Any] = to_tree(state)
    for entry in tree["PodDeviceEntries"] or ():
        if entry["DeviceIDs"] is not None:
            entry["DeviceIDs"] = sorted_by_text(entry["DeviceIDs"])
    if tree["RegisteredDevices"] is not None:
        tree["RegisteredDevices"] = dict(sorted(tree["RegisteredDevices"].items()))
    return tree


# The Go structs whose printed form is hashed.
_TEXT: Final = GoType("string")
_TEXTS: Final = SliceType("[]string", _TEXT)
_ENTRY: Final = StructType(
    "checkpoint.PodDevicesEntry",
    (
        ("PodUID", attrgetter("pod_uid"), _TEXT),
        ("ContainerName", attrgetter("container_name"), _TEXT),
        ("ResourceName", attrgetter("resource_name"), _TEXT),
        (
            "DeviceIDs",
            attrgetter("device_ids"),
            CheckpointMapType("checkpoint.DevicesPerNUMA", GoType("int64"), _TEXTS),
        ),
        ("AllocResp", attrgetter("alloc_resp"), SliceType("[]uint8", GoType("uint8"))),
    ),
)
_GO_DATA: Final = StructType(
    "checkpoint.checkpointData",
    (
        (
            "PodDeviceEntries",
            attrgetter("pod_device_entries"),
            SliceType("[]checkpoint.PodDevicesEntry", _ENTRY),
        ),
        (
            "RegisteredDevices",
            attrgetter("registered_devices"),
            CheckpointMapType("map[string][]string", _TEXT, _TEXTS),
        ),
    ),
)
