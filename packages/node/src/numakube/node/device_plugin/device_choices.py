"""What our device plugin tells exporters on its node: how it chooses among devices.

A plugin keeps a file a resource in ``device-plugins/numakube``, which the kubelet leaves alone, and
holds a lock on it. A file without a lock was left behind by a plugin that died, maybe to be
followed by another one, and counts as not there.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.kubelet.preferred_allocation import Preference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FOLDER: Final = "numakube"
"""In the kubelet's folder ``device-plugins``."""

_VERSION: Final = 1
_MOST_BYTES: Final = 1 << 20


class PluginChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the plugin of a resource chooses.

    Attributes:
        policy: by which rule.
        groups: ids of devices that belong together, in the order in which they are taken.
        near: whether those near to other devices of the pod, or to free ones, come first.
    """

    resource: str
    policy: str
    groups: tuple[tuple[str, ...], ...]
    v: int = _VERSION
    near: bool = False


class ChoiceFile:
    """The file of one resource, held by the plugin that serves it."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.json"
        self._told: PluginChoice | None = None
        self._lock: int | None = None

    def tell(self, choice: PluginChoice | None) -> None:
        """Let the file say so, or be gone.

        Raises:
            OSError: it cannot be written.
        """
        if choice == self._told:
            return
        if choice is None:
            self._remove()
        lock = None if choice is None else self._write(choice)
        if self._lock is not None:
            os.close(self._lock)
        self._told, self._lock = choice, lock

    def _remove(self) -> None:
        """Leave nothing behind: the folder goes with the last file."""
        self._path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._path.parent.rmdir()

    def _write(self, choice: PluginChoice) -> int:
        """Put a new file in the place of the old one; return what holds it."""
        self._path.parent.mkdir(mode=0o750, exist_ok=True)
        fresh = self._path.with_name(f".{self._path.name}")
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(descriptor, msgspec.json.encode(choice))
            fresh.replace(self._path)
        except OSError:
            os.close(descriptor)
            raise
        return descriptor


def read_choices(folder: Path) -> Mapping[str, PluginChoice]:
    """Return how running plugins choose, by resource; what cannot be understood is left out."""
    return {
        choice.resource: choice
        for choice in _held(folder)
        if choice.v == _VERSION and _is_known(choice)
    }


def _is_known(choice: PluginChoice) -> bool:
    return choice.policy in set(Preference)


def _held(folder: Path) -> Iterator[PluginChoice]:
    for path in sorted(folder.glob("[!.]*.json")):
        if not path.is_file():
            continue  # opening a pipe would wait for ever
        try:
            with path.open("rb") as file:
                if _is_locked(file.fileno()):
                    yield msgspec.json.decode(file.read(_MOST_BYTES), type=PluginChoice)
        except (OSError, msgspec.MsgspecError):
            continue


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
