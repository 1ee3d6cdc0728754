"""Linux' inotify, by its system calls: which names in which directories have changed.

Only what watching a handful of directories needs. `Inotify.open` gives ``None`` where the kernel
has no inotify or has no more of it to give; callers then look by themselves from time to time.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_CLOEXEC: Final = os.O_CLOEXEC
_NONBLOCK: Final = os.O_NONBLOCK

# linux/inotify.h: what happens to names in a directory, and to the directory itself.
_ATTRIB: Final = 0x4
_CLOSE_WRITE: Final = 0x8
_MOVED_FROM: Final = 0x40
_MOVED_TO: Final = 0x80
_CREATE: Final = 0x100
_DELETE: Final = 0x200
_ONLY_DIRECTORIES: Final = 0x01000000
_MASK: Final = (
    _ATTRIB | _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _DELETE | _ONLY_DIRECTORIES
)
_GONE: Final = 0x8000
_OVERFLOW: Final = 0x4000

_HEADER: Final = struct.Struct("iIII")
_BUFFER_BYTES: Final = 64 << 10


class Inotify:
    """One inotify instance."""

    def __init__(self, libc: ctypes.CDLL, descriptor: int) -> None:
        self._libc = libc
        self._descriptor = descriptor
        self._directories: dict[int, Path] = {}

    @classmethod
    def open(cls) -> Inotify | None:
        """Return an instance, or ``None`` if the host has no more to give."""
        try:
            libc = ctypes.CDLL(None, use_errno=True)
            descriptor = libc.inotify_init1(_CLOEXEC | _NONBLOCK)
        except (OSError, AttributeError):
            return None
        return None if descriptor < 0 else cls(libc, descriptor)

    def fileno(self) -> int:
        """Return the descriptor to wait on."""
        return self._descriptor

    def watch(self, directory: Path) -> bool:
        """Watch *directory*, again if it is watched already; tell whether it exists."""
        number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(directory), _MASK)
        if number >= 0:
            self._directories[number] = directory
        return bool(number >= 0)

    def changes(self) -> Iterator[tuple[Path, str] | None]:
        """Return directory and name of each change since; ``None`` if some were lost."""
        try:
            data = os.read(self._descriptor, _BUFFER_BYTES)
        except BlockingIOError:
            return
        position = 0
        while position < len(data):
            number, mask, _, length = _HEADER.unpack_from(data, position)
            start = position + _HEADER.size
            position = start + length
            if mask & _OVERFLOW:
                yield None
                continue
            directory = self._directories.get(number)
            if mask & _GONE:
                self._directories.pop(number, None)
            if directory is not None:
                yield directory, os.fsdecode(data[start:position].rstrip(b"\0"))

    def close(self) -> None:
        """Let go of everything."""
        os.close(self._descriptor)
