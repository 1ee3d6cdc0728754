"""Device-info files: what CNI plugins want to know of a device that a pod has got.

The form is that of the Network Plumbing Working Group's device information specification 1.1. A
file is replaced when its device is given out again, and removed when the pool forgets the device.
Upstream removes all files whenever it starts or ends, also of devices in use; we do not.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.apps.sriov.cdi_files import replace_file
from numakube.node.pci.vdpa import VHOST
from numakube.values.gotext import go_json

if TYPE_CHECKING:
    from pathlib import Path

    from numakube.apps.sriov.config_types import Pool
    from numakube.apps.sriov.device_needs import Description

DEFAULT_FOLDER: Final = "/var/run/k8s.cni.cncf.io/devinfo/dp"
VERSION: Final = "1.1.0"
_MODE: Final = 0o444


def path_of(folder: Path, pool: Pool, id_: str) -> Path:
    """Return the file of a device."""
    resource, device = pool.resource.replace("/", "-"), id_.replace("/", "-")
    return folder / f"{resource}-{device}-device.json"


def content(address: str, description: Description) -> str:
    """Return what a file says."""
    if description.vdpa is not None:
        device = description.vdpa
        entry: dict[str, Any] = {"parent-device": device.name, "driver": device.kind}
        if device.kind == VHOST and device.path:
            entry["path"] = device.path
        return _document("vdpa", {**entry, "pci-address": address})
    entry = {"pci-address": address}
    if description.rdma:
        entry["rdma-device"] = ",".join(description.rdma)
    return _document("pci", entry)


def save(folder: Path, pool: Pool, id_: str, address: str, description: Description) -> None:
    """Write the file of a device.

    Raises:
        OSError: it cannot be written.
    """
    replace_file(path_of(folder, pool, id_), content(address, description), mode=_MODE)


def forget(folder: Path, pool: Pool, id_: str) -> None:
    """Remove the file of a device, if there is one.

    Raises:
        OSError: it cannot be removed.
    """
    path_of(folder, pool, id_).unlink(missing_ok=True)


def _document(kind: str, entry: dict[str, Any]) -> str:
    return go_json({"type": kind, "version": VERSION, kind: entry}, struct=True)
