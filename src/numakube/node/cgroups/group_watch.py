"""Noticing that groups come, go and are written, with inotify where it can be had.

The kernel reports what programs do: runtimes create groups, any program may write a file. Where
there is no inotify nothing is noticed, so callers also look from time to time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from numakube.node.inotify import Inotify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path


class GroupWatch:
    """Watches the folders of groups, which may go at any time."""

    def __init__(self, changed: Callable[[], None], *, inotify: bool = True) -> None:
        """Prepare a watch; call `open` inside an event loop, and `close` at the end."""
        self._changed = changed
        self._inotify = Inotify.open() if inotify else None
        self._watched: frozenset[Path] = frozenset()

    def open(self) -> None:
        """Begin to listen."""
        if self._inotify is not None:
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._told)

    def watch(self, folders: Iterable[Path]) -> None:
        """Watch *folders*, again if one of that name was watched before and has gone since.

        What happened in a new one before it was watched counts as a change.
        """
        if self._inotify is None:
            return
        watched = frozenset(folder for folder in folders if self._inotify.watch(folder))
        if not watched <= self._watched:
            self._changed()
        self._watched = watched

    def close(self) -> None:
        """Stop listening."""
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _told(self) -> None:
        if self._inotify is not None and any(True for _ in self._inotify.changes()):
            self._changed()
