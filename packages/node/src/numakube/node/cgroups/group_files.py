"""Reading and writing the files of groups.

A group that vanishes in between is nothing special: containers end at any time. What the kernel
refuses is returned as a text, for people.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final, Protocol

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from pathlib import Path

CPUS: Final = "cpuset.cpus"
MEMS: Final = "cpuset.mems"
CONTROLLERS: Final = "cgroup.controllers"
SUBTREE_CONTROL: Final = "cgroup.subtree_control"
EVENTS: Final = "cgroup.events"

_CPUSET: Final = "cpuset"
_CPU_MOUNTS: Final = ("cpu,cpuacct", "cpu")
_HYBRID: Final = "unified"
_MOST_BYTES: Final = 1 << 16
"""More than the list of all CPUs that a kernel can have, one by one."""
_GONE: Final = frozenset({errno.ENOENT, errno.ENODEV, errno.ENOTDIR})


class Version(IntEnum):
    """Which kind of hierarchy has the cpuset controller."""

    V1 = 1
    V2 = 2

    @property
    def quota(self) -> str:
        """The file with how much CPU time a group gets."""
        return "cpu.cfs_quota_us" if self is Version.V1 else "cpu.max"

    @property
    def unlimited(self) -> str:
        """What is written to that file so that the group is not throttled."""
        return "-1" if self is Version.V1 else "max"


class Groups(Protocol):
    """Groups that can be read and written; the root is the empty name."""

    @property
    def version(self) -> Version:
        """Which kind of hierarchy they are in."""
        ...

    def identity(self, group: str) -> int:
        """Return a number that another group of that name has not; 0 if there is no such group."""
        ...

    def children(self, group: str) -> list[str]:
        """Return the groups right below *group*, in the order of their names."""
        ...

    def read(self, group: str, file: str) -> str | None:
        """Return the one line of a file, without white space; ``None`` if it is not there."""
        ...

    def write(self, group: str, file: str, text: str) -> str:
        """Write a file; return why that was refused, or the empty text.

        Writing to a group that is gone is not refused.
        """
        ...


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where the controllers are mounted; with version 2 all of them are in one place."""

    version: Version
    cpuset: Path
    cpu: Path | None

    def place(self, file: str) -> Path | None:
        """Return the mount that has *file* in its groups."""
        return self.cpu if file.startswith("cpu.") else self.cpuset


def detect(root: Path) -> Hierarchy:
    """Return the hierarchy with the cpuset controller below *root*, such as ``/sys/fs/cgroup``.

    Raises:
        ConfigError: there is none.
    """
    if (root / CONTROLLERS).is_file():
        if _CPUSET in _words(root / CONTROLLERS):
            return Hierarchy(Version.V2, root, root)
        raise ConfigError(f"{root}: the kernel offers no cpuset controller here")
    if (root / _CPUSET / CPUS).is_file():
        cpu = next((root / name for name in _CPU_MOUNTS if (root / name).is_dir()), None)
        return Hierarchy(Version.V1, root / _CPUSET, cpu)
    hybrid = " (only the unified part of a hybrid set-up)" if (root / _HYBRID).is_dir() else ""
    raise ConfigError(f"{root}: no cgroup hierarchy with a cpuset controller{hybrid}")


class CgroupFiles:
    """The groups of a real hierarchy, or of a tree of files that looks like one."""

    def __init__(self, hierarchy: Hierarchy) -> None:
        self._hierarchy = hierarchy
        self._cpuset = str(hierarchy.cpuset)
        self._cpu = None if hierarchy.cpu is None else str(hierarchy.cpu)

    @property
    def version(self) -> Version:
        """Which kind of hierarchy they are in."""
        return self._hierarchy.version

    def path(self, group: str) -> Path:
        """Return the folder of a group."""
        return self._hierarchy.cpuset / group

    def identity(self, group: str) -> int:
        """Return a number that another group of that name has not; 0 if there is no such group."""
        try:
            return os.stat(f"{self._cpuset}/{group}").st_ino  # noqa: PTH116 - see `read`
        except OSError as error:
            if error.errno in _GONE:
                return 0
            raise

    def children(self, group: str) -> list[str]:
        """Return the groups right below *group*, in the order of their names."""
        try:
            with os.scandir(self.path(group)) as entries:
                names = sorted(entry.name for entry in entries if entry.is_dir())
        except OSError as error:
            if error.errno in _GONE:
                return []
            raise
        return [f"{group}/{name}" if group else name for name in names]

    def read(self, group: str, file: str) -> str | None:
        """Return the one line of a file, without white space; ``None`` if it is not there."""
        place = self._cpu if file.startswith("cpu.") else self._cpuset
        if place is None:
            return None
        # A pass reads a thousand files: plain strings and calls cost a fifth of pathlib's.
        try:
            descriptor = os.open(f"{place}/{group}/{file}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise
        try:
            text = os.read(descriptor, _MOST_BYTES).decode("ascii")
            # One line; what follows in a fake tree is the end of a longer one just overwritten.
            return text.partition("\n")[0].strip()
        except OSError as error:
            if error.errno in _GONE:
                return None
            raise
        finally:
            os.close(descriptor)

    def write(self, group: str, file: str, text: str) -> str:
        """Write a file; return why that was refused, or the empty text."""
        place = self._hierarchy.place(file)
        if place is None:
            return ""
        try:
            # Never create a file: in a real hierarchy one cannot, and in a fake one must not.
            with (place / group / file).open("r+b", buffering=0) as target:
                # An empty write says nothing to the kernel; a line end alone means "inherit".
                target.write(f"{text}\n".encode("ascii"))
                target.truncate()
        except OSError as error:
            return "" if error.errno in _GONE else _refusal(error, file, text)
        return ""


_REASONS: Final = {
    errno.EACCES: "the group above does not have them",
    errno.EBUSY: "a group below or a deadline task still needs others",
    errno.EINVAL: "the machine does not have them, or another group has them for itself",
    errno.ENOSPC: "processes would be left without any",
    errno.EROFS: "the hierarchy is mounted read-only",
    errno.EPERM: "no right to do so",
}


def _refusal(error: OSError, file: str, text: str) -> str:
    known = _REASONS.get(error.errno or 0, "")
    reason = f"{error.strerror} ({known})" if known else str(error.strerror)
    return f"{file} = {text or '(inherit)'}: {reason}"


def _words(path: Path) -> list[str]:
    return path.read_text(encoding="ascii").split()
