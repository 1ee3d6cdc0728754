"""What a container is given of its host: mounts, device files, and variables that tell of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.values.gotext import go_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_ODD: Final = re.compile(r"[^A-Z0-9_]")


@dataclass(frozen=True, slots=True)
class HostMount:
    """A path of the host that a container sees."""

    container_path: str
    host_path: str
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class DeviceFile:
    """A device file of the host that a container may use; permissions of ``r``, ``w``, ``m``."""

    container_path: str
    host_path: str
    permissions: str = "rw"


INFO_FOLDER: Final = "/var/run/k8s.cni.cncf.io/devinfo/dp"
"""Where CNI plugins look for what is to know of a device."""


def info_file(folder: Path, resource: str, id_: str) -> Path:
    """Return the file about a device of *resource*."""
    return folder / f"{resource}-{id_}-device.json".replace("/", "-")


def cdi_edits(nodes: Iterable[DeviceFile], mounts: Iterable[HostMount]) -> dict[str, Any]:
    """Return what a device of the Container Device Interface (0.5.0) adds to a container."""
    files = [
        {"path": node.container_path, "hostPath": node.host_path, "permissions": node.permissions}
        for node in nodes
    ]
    paths = [
        {
            "hostPath": mount.host_path,
            "containerPath": mount.container_path,
            "options": ["bind", "ro" if mount.read_only else "rw"],
        }
        for mount in mounts
    ]
    return {**({"deviceNodes": files} if files else {}), **({"mounts": paths} if paths else {})}


def device_variables(
    resource: str, devices: Mapping[str, Mapping[str, Mapping[str, str]]]
) -> dict[str, str]:
    """Return the variables that tell a container of its devices of *resource*.

    Args:
        resource: with its prefix, such as ``intel.com/sriov``.
        devices: information about each by its id, by who provides it.
    """
    ids, info = ",".join(devices), go_json(devices)
    variables: dict[str, str] = {}
    for name in variable_names(resource):
        variables |= {name: ids, f"{name}_INFO": info}
    return variables


def variable_names(resource: str) -> tuple[str, ...]:
    """Return the variable of a resource, and one with letters that a shell can take if it differs.

    Upstream replaces dots only, so that a hyphen makes a variable that no shell can name.
    """
    name = f"PCIDEVICE_{resource}".replace("/", "_").replace(".", "_").upper()
    return tuple(dict.fromkeys((name, _ODD.sub("_", name))))
