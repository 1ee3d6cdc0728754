"""Where a running lab keeps its files, and how other commands find it.

One folder a lab below the user's runtime folder: ``pid`` of its process, which keeps it locked,
``progress`` of its start, ``lab.json`` with the addresses once it is up, ``kubeconfig``,
``control.sock``, ``log`` of a detached lab, ``nodes/`` with what each kubelet keeps on disk and
``pods/`` with the volumes of pods that really run. It is removed when the lab ends. Paths are short
because unix sockets allow 107 bytes.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import stat
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from io import FileIO

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")
_PID = "pid"
_PROGRESS = "progress"
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


class LabInfo(msgspec.Struct, frozen=True):
    """What other processes need to know of a lab.

    Attributes:
        notes: what is other than in the dump that it is made from.
    """

    name: str
    pid: int
    server: str
    dashboard: str
    kubeconfig: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of one lab."""

    path: Path

    @classmethod
    def of(cls, name: str, environment: Mapping[str, str]) -> RunDir:
        """Return the folder of the lab called *name*."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"lab name {name!r}: use lower-case letters, digits and dashes")
        return cls(_own_folder(runtime_root(environment)) / name)

    @property
    def kubeconfig(self) -> Path:
        """The kubeconfig to reach the lab with."""
        return self.path / "kubeconfig"

    @property
    def control_socket(self) -> Path:
        """The socket over which the lab is steered."""
        return self.path / "control.sock"

    @property
    def log(self) -> Path:
        """What a detached lab prints."""
        return self.path / "log"

    @property
    def nodes(self) -> Path:
        """What the kubelets keep on disk."""
        return self.path / "nodes"

    @property
    def pods(self) -> Path:
        """The volumes of pods that really run."""
        return self.path / "pods"

    def create(self) -> None:
        """Make the folder; only its owner may look into it."""
        if self.info() is not None or self.owner() is not None:
            raise ConfigError(
                f"a lab called {self.path.name!r} is running already; "
                f"stop it with: numakube lab down --name {self.path.name}"
            )
        self.remove()
        self.path.parent.mkdir(mode=0o700, exist_ok=True)
        _own_folder(self.path.parent)
        self.path.mkdir(mode=0o700)

    def claim(self) -> FileIO:
        """Make this process the lab's, for as long as it or a fork of it keeps the result open."""
        file = (self.path / _PID).open("w+b", buffering=0)
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(str(os.getpid()).encode())
        return file

    def owner(self) -> int | None:
        """Return the id of the lab's process, however far it is; ``None`` if there is none."""
        try:
            with (self.path / _PID).open("rb") as file:
                return int(file.read() or 0) or None if _is_locked(file.fileno()) else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write_progress(self, text: str) -> None:
        """Say how far the start is."""
        partial = self.path / ".progress"
        partial.write_text(text, encoding="utf-8")
        partial.rename(self.path / _PROGRESS)

    def progress(self) -> str:
        """Return how far the start is."""
        try:
            return (self.path / _PROGRESS).read_text(encoding="utf-8")
        except (FileNotFoundError, NotADirectoryError):
            return ""

    def write_info(self, info: LabInfo) -> None:
        """Make the lab known."""
        partial = self.path / ".lab.json"
        partial.write_bytes(msgspec.json.encode(info))
        partial.rename(self.path / "lab.json")

    def info(self) -> LabInfo | None:
        """Return what is known of the lab if its process is alive."""
        try:
            info = msgspec.json.decode((self.path / "lab.json").read_bytes(), type=LabInfo)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{self.path / 'lab.json'}: {error}; remove the folder") from None
        return info if _alive(info.pid) else None

    def remove(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self.path, ignore_errors=True)


def runtime_root(environment: Mapping[str, str]) -> Path:
    """Return the folder of all labs of this user."""
    runtime = environment.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir() and Path(runtime).stat().st_uid == os.getuid():
        return Path(runtime) / "numakube"
    return Path(tempfile.gettempdir()) / f"numakube-{os.getuid()}"


def _own_folder(path: Path) -> Path:
    """Return *path* if it is a folder of this user's alone, or nothing yet.

    In a temporary folder that users share, another one may have made it first, and could replace
    the kubeconfigs in it by his own, which may name programs to run.

    Raises:
        ConfigError: somebody else could change what is in it.
    """
    try:
        found = path.lstat()
    except FileNotFoundError:
        return path
    if not stat.S_ISDIR(found.st_mode):
        problem = "it is not a folder"
    elif found.st_uid != os.getuid():
        problem = f"it belongs to the user with id {found.st_uid}"
    elif found.st_mode & _OTHERS_WRITE:
        problem = "other users may write to it"
    else:
        return path
    raise ConfigError(
        f"{path}: {problem}, so labs cannot be kept there;"
        " remove it, or name a folder of your own with XDG_RUNTIME_DIR"
    )


def labs_here(environment: Mapping[str, str]) -> list[str]:
    """Return the names of this user's labs that run or are about to."""
    root = _own_folder(runtime_root(environment))
    folders = sorted(root.iterdir()) if root.is_dir() else []
    found = (RunDir(folder) for folder in folders)
    return [one.path.name for one in found if one.owner() is not None or one.info() is not None]


def _is_locked(descriptor: int) -> bool:
    """Tell whether another process has locked a file: a number alone may be anybody's by now."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
