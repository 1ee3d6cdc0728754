"""Reading a machine from a sysfs tree on disk, and writing such a tree.

``/sys`` of a real node, a copy of one, and a fake one look the same: the root is a parameter.
What the files mean is decided in `numakube.kubelet.machines.sysfs_files`; here they are only moved.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.errors import MalformedObject
from numakube.kubelet.machines.sysfs_files import CPUS, NODES, from_sysfs, to_sysfs
from numakube.node.bounded_files import read_regular_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from numakube.kubelet.machine import Device, Machine

_PATTERNS = (
    f"{NODES}/node[0-9]*/cpulist",
    f"{NODES}/node[0-9]*/meminfo",
    f"{NODES}/node[0-9]*/distance",
    f"{NODES}/node[0-9]*/hugepages/hugepages-*kB/nr_hugepages",
    f"{CPUS}/online",
    f"{CPUS}/cpu[0-9]*/topology/core_id",
    f"{CPUS}/cpu[0-9]*/topology/physical_package_id",
    f"{CPUS}/cpu[0-9]*/cache/index[0-9]*/id",
    f"{CPUS}/cpu[0-9]*/cache/index[0-9]*/level",
    f"{CPUS}/cpu[0-9]*/cache/index[0-9]*/size",
    f"{CPUS}/cpu[0-9]*/cache/index[0-9]*/shared_cpu_list",
)


def read_machine(root: Path, *, devices: Mapping[str, Sequence[Device]] | None = None) -> Machine:
    """Return the machine that the sysfs tree under *root* (such as ``/sys``) describes.

    Raises:
        MalformedObject: *root* has no such tree, or a file in it makes no sense.
    """
    files = dict(_read(root))
    if not files:
        raise MalformedObject(str(root), f"is not a sysfs tree: it has no {CPUS}/cpu0/topology")
    return from_sysfs(files, devices=devices, subject=str(root))


def online_cpus(root: Path) -> str:
    """Return which CPUs are online, as the kernel writes it; empty if it does not say."""
    try:
        return (root / CPUS / "online").read_text(encoding="ascii")
    except OSError:
        return ""


def write_tree(machine: Machine, root: Path) -> None:
    """Write the sysfs tree of *machine* under *root*, which is created if need be."""
    files = {root / path: text for path, text in to_sysfs(machine).items()}
    for directory in {path.parent for path in files}:
        directory.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        path.write_text(text, encoding="ascii")
    for node in machine.nodes:
        for core in node.cores:
            for cpu in core.threads:
                _link(root / NODES / f"node{node.id}" / f"cpu{cpu}", f"../../cpu/cpu{cpu}")


def _read(root: Path) -> Iterator[tuple[str, str]]:
    for pattern in _PATTERNS:
        for path in root.glob(pattern):
            try:
                yield path.relative_to(root).as_posix(), read_regular_file(path).decode("ascii")
            except OSError:
                # A CPU or node may go offline between listing and reading: as if never there.
                continue


def _link(link: Path, target: str) -> None:
    """Make the link to a CPU that the kernel keeps in every node's directory."""
    link.unlink(missing_ok=True)
    link.symlink_to(target)
