"""RDMA devices of PCI functions, their character devices and their partition keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.node.pci.sysfs_files import names_in, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DEVICE_FOLDER: Final = "/dev/infiniband"
_MANAGER: Final = "rdma_cm"
# Class of sysfs and what its entries' names contain, in the order in which containers get them.
_KINDS: Final = (
    ("infiniband_cm", "ucm"),
    ("infiniband_mad", "issm"),
    ("infiniband_mad", "umad"),
    ("infiniband_verbs", "uverbs"),
)


def rdma_devices(folder: Path) -> tuple[str, ...]:
    """Return the RDMA devices of the function described in *folder*."""
    return names_in(folder / "infiniband")


def character_devices(sysfs: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the names of character devices by the RDMA device that they belong to."""
    found: dict[str, list[str]] = {}
    for class_name, kind in _KINDS:
        folder = sysfs / "class" / class_name
        for name in names_in(folder):
            owner = text_of(folder / name / "ibdev") if kind in name else None
            if owner:
                found.setdefault(owner, []).append(name)
    return {owner: tuple(names) for owner, names in found.items()}


def connection_manager(dev: Path) -> tuple[str, ...]:
    """Return the one character device that all RDMA devices share, if there is one."""
    return (_MANAGER,) if (dev / "infiniband" / _MANAGER).exists() else ()


def default_partition_key(folder: Path) -> str:
    """Return the partition key at index 0 of the first port that has one; empty if none has."""
    for device in rdma_devices(folder):
        ports = folder / "infiniband" / device / "ports"
        for port in names_in(ports):
            key = text_of(ports / port / "pkeys" / "0")
            if key:
                return key
    return ""
