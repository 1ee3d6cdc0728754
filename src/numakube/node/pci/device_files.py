"""Device files that belong to a PCI function: VFIO groups, UIO, and whatever its driver made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.node.pci.sysfs_files import names_in, text_of

if TYPE_CHECKING:
    from pathlib import Path

VFIO: Final = "/dev/vfio/vfio"
_NO_IOMMU: Final = "vfio-noiommu"


@dataclass(frozen=True, slots=True)
class VfioGroup:
    """The device file of a function's IOMMU group, where containers and where the host see it."""

    container_path: str
    host_path: str


def vfio_group(folder: Path) -> VfioGroup | None:
    """Return the group of the function described in *folder*; ``None`` if it has none."""
    link = folder / "iommu_group"
    try:
        if not link.is_symlink():
            return None
        group = link.resolve(strict=True)
    except OSError:
        return None
    path = f"/dev/vfio/{group.name}"
    if text_of(group / "name") == _NO_IOMMU:
        return VfioGroup(path, f"/dev/vfio/noiommu-{group.name}")
    return VfioGroup(path, path)


def uio_device(folder: Path) -> str:
    """Return the UIO device file of a function; empty if it has none."""
    names = names_in(folder / "uio")
    return f"/dev/{names[0]}" if names else ""


def driver_devices(folder: Path) -> tuple[str, ...]:
    """Return the device files that a function's driver made, such as those of a GPU.

    They are what has a number (``dev``) one step below the function's folder of a class, as in
    ``drm/renderD128``; the kernel tells the file's name in ``uevent``.
    """
    found = []
    for class_name in names_in(folder):
        # Other links lead out of the function: to its driver, its parent, its group.
        if (folder / class_name).is_symlink() or not (folder / class_name).is_dir():
            continue
        for name in names_in(folder / class_name):
            found += _node(folder / class_name / name)
    return tuple(found)


def _node(folder: Path) -> list[str]:
    if text_of(folder / "dev") is None:
        return []
    lines = (text_of(folder / "uevent") or "").splitlines()
    return [f"/dev/{line[8:]}" for line in lines if line.startswith("DEVNAME=")]
