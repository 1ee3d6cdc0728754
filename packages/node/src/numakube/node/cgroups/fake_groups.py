"""A hierarchy of plain files that looks like one of the kernel's, for the lab and for tests.

    tree = FakeCgroups.make(folder, version=Version.V2, cpus=0xFF, mems=0b11)
    tree.add("kubepods.slice/kubepods-pod1.slice")

Groups are made as a kubelet and a runtime make them: in version 1 with the sets of the group above,
in version 2 with none of their own. Nothing refuses what a kernel would refuse, and nothing follows
by itself: `FakeCgroups.effective_cpus` computes what processes of a group could run on.
"""

from __future__ import annotations

import os
import shutil
import uuid
from typing import TYPE_CHECKING, Final

from numakube.node.cgroups.group_files import (
    CONTROLLERS,
    CPUS,
    MEMS,
    SUBTREE_CONTROL,
    CgroupFiles,
    Hierarchy,
    Version,
    detect,
)
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from pathlib import Path

MOUNT: Final = "fs/cgroup"
"""Where hierarchies are below ``/sys``."""

_CONTROLLERS: Final = "cpuset cpu io memory hugetlb pids"
_UNLIMITED: Final = {Version.V1: "-1", Version.V2: "max 100000"}


class FakeCgroups:
    """A tree of groups on disk.

    Attributes:
        root: where it is.
        files: the groups, to read and to write.
    """

    def __init__(self, root: Path, version: Version) -> None:
        """Use the tree under *root*, which is of this version."""
        self.root = root
        self.version = version
        single = version is Version.V2
        self._cpuset = root if single else root / "cpuset"
        self._cpu = root if single else root / "cpu,cpuacct"
        self.files = CgroupFiles(Hierarchy(version, self._cpuset, self._cpu))

    @classmethod
    def make(cls, root: Path, *, version: Version, cpus: int, mems: int) -> FakeCgroups:
        """Make the root group, on a machine with these CPUs and memory nodes."""
        tree = cls(root, version)
        files = tree._own_files(str(CpuSet(cpus)), str(CpuSet(mems)))
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, text)
        return tree

    @classmethod
    def open(cls, root: Path) -> FakeCgroups:
        """Return the tree that was made under *root*."""
        return cls(root, detect(root).version)

    def add(self, group: str, *, quota: str = "") -> None:
        """Make a group and those above it, if they are not there yet."""
        names = group.split("/")
        for depth in range(1, len(names) + 1):
            one = "/".join(names[:depth])
            if not self.files.identity(one):
                self._add(one, quota=quota if one == group else "")

    def remove(self, group: str) -> None:
        """Remove a group and everything in it."""
        for mount in {self._cpuset, self._cpu}:
            shutil.rmtree(mount / group, ignore_errors=True)

    def reset(self, group: str) -> None:
        """Write what a group has when it is new, as a kubelet does that starts again."""
        for path, text in self._files_of(group, quota="").items():
            _write(path, text)

    def groups(self, group: str = "") -> list[str]:
        """Return every group below *group*."""
        below = (path for path in (self._cpuset / group).rglob("*") if path.is_dir())
        return sorted(path.relative_to(self._cpuset).as_posix() for path in below)

    def cpus(self, group: str) -> str:
        """Return the CPUs that a group is set to."""
        return self.files.read(group, CPUS) or ""

    def mems(self, group: str) -> str:
        """Return the memory nodes that a group is set to."""
        return self.files.read(group, MEMS) or ""

    def quota(self, group: str) -> str:
        """Return what a group's quota file says."""
        return self.files.read(group, self.version.quota) or ""

    def effective_cpus(self, group: str) -> str:
        """Return the CPUs that processes of a group can run on."""
        return str(CpuSet(self._effective(group)))

    def _effective(self, group: str) -> int:
        own = CpuSet.parse(self.cpus(group)).bits
        if not group:
            return own
        above = self._effective(group.rpartition("/")[0])
        return own & above or above

    def _add(self, group: str, *, quota: str) -> None:
        """Make a group; as in a kernel, its folder is not seen without its files."""
        files = self._files_of(group, quota=quota)
        for mount in {path.parent for path in files}:
            new = self.root.with_name(f".new-{uuid.uuid4()}")
            new.mkdir()
            for path, text in files.items():
                if path.parent == mount:
                    _write(new / path.name, text)
            new.rename(mount)

    def _files_of(self, group: str, *, quota: str) -> dict[Path, str]:
        """Return the files of a new group, and what they say."""
        above = group.rpartition("/")[0]
        return {
            self._cpuset / group / CPUS: self._inherited(above, CPUS),
            self._cpuset / group / MEMS: self._inherited(above, MEMS),
            self._cpu / group / self.version.quota: quota or _UNLIMITED[self.version],
        }

    def _inherited(self, above: str, file: str) -> str:
        return (self.files.read(above, file) or "") if self.version is Version.V1 else ""

    def _own_files(self, cpus: str, mems: str) -> dict[Path, str]:
        files = {self._cpuset / CPUS: cpus, self._cpuset / MEMS: mems}
        if self.version is Version.V2:
            return files | {
                self.root / name: _CONTROLLERS for name in (CONTROLLERS, SUBTREE_CONTROL)
            }
        return files | {self._cpu / self.version.quota: "-1"}


def _write(path: Path, text: str) -> None:
    # A lab makes these files by the thousand.
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    os.write(descriptor, f"{text}\n".encode("ascii"))
    os.close(descriptor)
