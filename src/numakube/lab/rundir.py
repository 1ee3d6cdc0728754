"""Where a running lab keeps its files, and how other commands find it.

One folder a lab below the user's runtime folder: ``kubeconfig``, ``control.sock``, ``lab.json``
with the process id and addresses, ``log`` of a detached lab, ``nodes/`` with what each kubelet
keeps on disk and ``pods/`` with the volumes of pods that really run. It is removed when the lab
ends. Paths are short because unix sockets allow 107 bytes.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


class LabInfo(msgspec.Struct, frozen=True):
    """What other processes need to know of a lab."""

    name: str
    pid: int
    server: str
    dashboard: str
    kubeconfig: str


@dataclass(frozen=True, slots=True)
class RunDir:
    """The folder of one lab."""

    path: Path

    @classmethod
    def of(cls, name: str, environment: Mapping[str, str]) -> RunDir:
        """Return the folder of the lab called *name*."""
        if not _NAME.fullmatch(name):
            raise ConfigError(f"lab name {name!r}: use lower-case letters, digits and dashes")
        return cls(runtime_root(environment) / name)

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
        if self.info() is not None:
            raise ConfigError(
                f"a lab called {self.path.name!r} is running already; "
                f"stop it with: numakube lab down --name {self.path.name}"
            )
        self.remove()
        self.path.mkdir(parents=True, mode=0o700)

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
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "numakube"
    return Path(tempfile.gettempdir()) / f"numakube-{os.getuid()}"


def running_labs(environment: Mapping[str, str]) -> list[LabInfo]:
    """Return the labs of this user that are running."""
    root = runtime_root(environment)
    folders = sorted(root.iterdir()) if root.is_dir() else []
    infos = (RunDir(folder).info() for folder in folders)
    return [info for info in infos if info is not None]


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
