"""Noticing that folders of nodes change, with one inotify instance for all of them.

A host has few inotify instances to give, and a lab has many nodes. Where none is left,
folders are looked at every second instead, by the host's clock: files change in real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.node.inotify import Inotify

if TYPE_CHECKING:
    from pathlib import Path

Changed: TypeAlias = Callable[[], None]

POLL_SECONDS: Final = 1.0


class FolderWatch:
    """Watches folders that exist."""

    def __init__(self, *, inotify: bool = True) -> None:
        self._wants_inotify = inotify
        self._inotify: Inotify | None = None
        self._polling: asyncio.Task[None] | None = None
        self._folders: dict[Path, Changed] = {}

    def add(self, folder: Path, changed: Changed) -> None:
        """Call *changed* whenever something in *folder* may have changed."""
        self._folders[folder] = changed
        if self._inotify is None and self._polling is None:
            self._begin()
        if self._inotify is not None and not self._inotify.watch(folder):
            self._fall_back()

    def remove(self, folder: Path) -> None:
        """Stop watching a folder."""
        self._folders.pop(folder, None)

    async def aclose(self) -> None:
        """Stop watching altogether."""
        self._folders.clear()
        self._end_inotify()
        if self._polling is not None:
            self._polling.cancel()
            await asyncio.gather(self._polling, return_exceptions=True)
            self._polling = None

    def _begin(self) -> None:
        self._inotify = Inotify.open() if self._wants_inotify else None
        if self._inotify is None:
            self._fall_back()
        else:
            loop = asyncio.get_running_loop()
            loop.add_reader(self._inotify.fileno(), self._told)

    def _fall_back(self) -> None:
        self._end_inotify()
        if self._polling is None:
            self._polling = asyncio.create_task(self._poll())

    def _end_inotify(self) -> None:
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _told(self) -> None:
        if self._inotify is None:
            return
        touched: set[Path] = set()
        for change in self._inotify.changes():
            touched |= self._folders.keys() if change is None else {change[0]}
        self._tell(touched)

    def _tell(self, touched: set[Path]) -> None:
        for folder in touched & self._folders.keys():
            self._folders[folder]()

    async def _poll(self) -> None:
        while True:
            await asyncio.sleep(POLL_SECONDS)
            self._tell(set(self._folders))
