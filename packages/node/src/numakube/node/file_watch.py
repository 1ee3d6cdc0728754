"""Notice that files change: at once where inotify tells, otherwise by looking now and then.

    watch = FileWatch([state / "cpu_manager_state"], changed, sleep=asyncio.sleep)
    await watch.run()

Looking is what counts: every file's inode, size and times are compared with the last look, so that
nothing is missed on file systems without inotify, in directories that do not exist yet, or when a
directory is replaced. Inotify only makes the next look come at once.

`Inotify` is Linux' inotify by its system calls, as much as watching a handful of directories needs.
`Inotify.open` gives ``None`` where the kernel has no inotify or has no more of it to give; callers
then look by themselves from time to time.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


Changed: TypeAlias = Callable[["Path"], None]
Sleep: TypeAlias = Callable[[float], Awaitable[None]]

POLL_SECONDS: Final = 1.0
"""How often to look where inotify does not tell."""

_CHECK_SECONDS: Final = 5.0
"""How often to look where it does, for what it cannot tell."""

_Look: TypeAlias = tuple[int, int, int, int]


class FileWatch:
    """Watches a few files, which need not exist.

    Attributes:
        by_inotify: whether the kernel tells of changes.
    """

    def __init__(
        self,
        files: Iterable[Path],
        changed: Changed,
        *,
        sleep: Sleep,
        inotify: bool = True,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Prepare a watch; changes count from now on.

        Args:
            files: what to watch.
            changed: called with a file that was made, written, touched, replaced or removed.
            sleep: makes a pause of so many seconds between two looks.
            inotify: let the kernel tell.
            poll_seconds: the pause between looks where it does not.
        """
        self._changed = changed
        self._sleep = sleep
        self._seen = {path: _look(path) for path in files}
        self._inotify = Inotify.open() if inotify else None
        self.by_inotify = self._inotify is not None
        self._pause = _CHECK_SECONDS if self.by_inotify else poll_seconds

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()
        inotify = self._inotify
        try:
            if inotify is not None:
                loop.add_reader(inotify.fileno(), self._told)
            while True:
                self._watch_directories()
                self.look()
                await self._sleep(self._pause)
        finally:
            if inotify is not None:
                loop.remove_reader(inotify.fileno())
                inotify.close()

    def look(self) -> None:
        """Compare every file with what it was."""
        for path, before in tuple(self._seen.items()):
            now = _look(path)
            if now != before:
                self._seen[path] = now
                self._changed(path)

    def _watch_directories(self) -> None:
        if self._inotify is not None:
            for directory in {path.parent for path in self._seen}:
                self._inotify.watch(directory)

    def _told(self) -> None:
        """Report what the kernel says."""
        if self._inotify is None:
            return
        touched: set[Path] = set()
        for change in self._inotify.changes():
            if change is None:
                self.look()
                continue
            directory, name = change
            touched.add(directory / name)
            if not name:
                self._watch_directories()
        for path in touched & self._seen.keys():
            self._seen[path] = _look(path)
            self._changed(path)


def _look(path: Path) -> _Look | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


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
