"""Notice that files change: at once where inotify tells, otherwise by looking now and then.

    watch = FileWatch([state / "cpu_manager_state"], changed, clock=clock)
    await watch.run()

Looking is what counts: every file's inode, size and times are compared with the last look, so that
nothing is missed on file systems without inotify, in directories that do not exist yet, or when a
directory is replaced. Inotify only makes the next look come at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.node.inotify import Inotify

if TYPE_CHECKING:
    from pathlib import Path

    from numakube.kube.clock import Clock

Changed: TypeAlias = Callable[["Path"], None]

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
        clock: Clock,
        inotify: bool = True,
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        """Prepare a watch; changes count from now on.

        Args:
            files: what to watch.
            changed: called with a file that was made, written, touched, replaced or removed.
            clock: for the pauses between looks.
            inotify: let the kernel tell.
            poll_seconds: the pause between looks where it does not.
        """
        self._changed = changed
        self._clock = clock
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
                await self._clock.sleep(self._pause)
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
