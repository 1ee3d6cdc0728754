"""Specifications of the Container Device Interface: files in which runtimes look devices up.

A pool has one file with all its devices. It is written before the kubelet hears of the devices, and
stays when the plugin ends: containers that restart meanwhile still need it.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.sriov.config_types import DeviceType

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from numakube.apps.sriov.config_types import Pool
    from numakube.apps.sriov.device_needs import Description

DEFAULT_FOLDER: Final = "/var/run/cdi"
VERSION: Final = "0.5.0"
_FILES: Final = "sriov-dp"
_CLASSES: Final = MappingProxyType(
    {
        DeviceType.NETWORK: "net-pci",
        DeviceType.ACCELERATOR: "net-accel",
        DeviceType.AUXILIARY: "net-sf",
        DeviceType.PCI: "pci",
        DeviceType.STATIC: "static",
    }
)


def kind_of(pool: Pool) -> str:
    """Return vendor and class, which all pools of one prefix and type share."""
    return f"{pool.prefix}/{_CLASSES[pool.type]}"


def qualified_name(pool: Pool, id_: str) -> str:
    """Return the full name of a device."""
    return f"{kind_of(pool)}={id_}"


def file_name(pool: Pool) -> str:
    """Return the name of a pool's file."""
    return f"{_FILES}-{pool.prefix}-{_CLASSES[pool.type]}-{pool.name}.yaml"


def specification(pool: Pool, devices: Mapping[str, Description]) -> str:
    """Return the text of a pool's file."""
    from numakube.api.yaml_text import dump_yaml  # only plugins that use CDI need it

    return dump_yaml(
        {
            "cdiVersion": VERSION,
            "kind": kind_of(pool),
            "devices": [
                {"name": id_, "containerEdits": _edits(description)}
                for id_, description in devices.items()
            ],
        }
    )


def write_specification(folder: Path, pool: Pool, devices: Mapping[str, Description]) -> None:
    """Bring a pool's file up to date; one without devices is removed.

    Raises:
        OSError: it cannot be written.
    """
    path = folder / file_name(pool)
    if not devices:
        path.unlink(missing_ok=True)
        return
    text = specification(pool, devices)
    if not _says(path, text):
        replace_file(path, text, mode=0o644)


def remove_others(folder: Path, pools: Iterable[Pool]) -> None:
    """Remove the files of pools that are not configured any more.

    Raises:
        OSError: they cannot be removed.
    """
    keep = {file_name(pool) for pool in pools}
    for path in folder.glob(f"{_FILES}-*.yaml"):
        if path.name not in keep:
            path.unlink(missing_ok=True)


def replace_file(path: Path, text: str, *, mode: int) -> None:
    """Write a file as a whole: half of it is never visible.

    Raises:
        OSError: it cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.unlink(missing_ok=True)
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(mode)
    temporary.replace(path)


def _says(path: Path, text: str) -> bool:
    try:
        return path.read_text(encoding="utf-8") == text
    except (OSError, UnicodeDecodeError):
        return False


def _edits(description: Description) -> dict[str, Any]:
    edits: dict[str, Any] = {}
    if description.nodes:
        edits["deviceNodes"] = [
            {
                "path": node.container_path,
                "hostPath": node.host_path,
                "permissions": node.permissions,
            }
            for node in description.nodes
        ]
    if description.mounts:
        edits["mounts"] = [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": ["bind", "ro" if mount.read_only else "rw"],
            }
            for mount in description.mounts
        ]
    return edits
