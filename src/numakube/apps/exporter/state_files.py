"""The kubelet's checkpoint files on disk, read and parsed only when they have changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.apps.exporter.checkpoints import Checkpoints, read_checkpoints
from numakube.kubelet.state_files import StateFiles
from numakube.node.device_choices import FOLDER, read_choices

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from numakube.node.device_choices import PluginChoice

CPU_STATE: Final = "cpu_manager_state"
MEMORY_STATE: Final = "memory_manager_state"
DEVICE_STATE: Final = "device-plugins/kubelet_internal_checkpoint"
CHOICES: Final = f"device-plugins/{FOLDER}"
ALLOCATED_STATE: Final = "allocated_pods_state"
STATE_FILES: Final = (ALLOCATED_STATE, CPU_STATE, MEMORY_STATE, DEVICE_STATE)
"""In the order in which they are read: the kubelet writes the first one last, so that whoever is in
it holds all that the others say."""

_Look: TypeAlias = tuple[int, int, int]


class StateFolder:
    """A kubelet's folder with its checkpoint files."""

    def __init__(self, folder: Path) -> None:
        self._paths = tuple(folder / name for name in STATE_FILES)
        self._choices = folder / CHOICES
        self._seen: tuple[tuple[_Look | None, ...], Mapping[str, PluginChoice]] | None = None
        self._known = Checkpoints()

    def read(self) -> Checkpoints:
        """Return what the files say now; those that cannot be read are not there."""
        choices = read_choices(self._choices)
        seen = tuple(_look(path) for path in self._paths), choices
        if seen != self._seen:
            allocated, cpu, memory, devices = (_content(path) for path in self._paths)
            files = StateFiles(cpu=cpu, memory=memory, devices=devices, allocated=allocated)
            self._known = read_checkpoints(files, choices)
            self._seen = seen
        return self._known


def _look(path: Path) -> _Look | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def _content(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
