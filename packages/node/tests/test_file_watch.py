"""Changes of files are noticed, with inotify and without."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from numakube.node.file_watch import FileWatch


class Seen:
    """What was reported."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self._news = asyncio.Event()

    def __call__(self, path: Path) -> None:
        """Take note."""
        self.paths.append(path.name)
        self._news.set()

    async def next(self) -> str:
        """Wait for the next report, and forget those so far."""
        await self._news.wait()
        self._news.clear()
        found = self.paths[-1]
        self.paths.clear()
        return found


class Pauses:
    """Pauses that last until the test ends them."""

    def __init__(self) -> None:
        self._begun, self._ended = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        """Pause, however long it was to be."""
        assert seconds > 0
        self._begun.set()
        await self._ended.wait()
        self._ended.clear()

    async def begun(self) -> None:
        """Return when somebody pauses."""
        await self._begun.wait()

    def end(self) -> None:
        """End the pause."""
        self._ended.set()


@contextlib.asynccontextmanager
async def watching(*files: Path, inotify: bool, poll_seconds: float = 0.01) -> AsyncIterator[Seen]:
    """Watch *files* while the context lasts."""
    seen = Seen()
    watch = FileWatch(files, seen, sleep=asyncio.sleep, inotify=inotify, poll_seconds=poll_seconds)
    task = asyncio.create_task(watch.run())
    try:
        yield seen
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("inotify", [True, False])
async def test_every_way_a_file_changes_is_noticed(tmp_path: Path, *, inotify: bool) -> None:
    """Made, written, touched, replaced, removed, made again."""
    path = tmp_path / "state"
    async with watching(path, inotify=inotify) as seen:
        path.write_text("one")
        assert await seen.next() == "state"
        path.write_text("other")
        assert await seen.next() == "state"
        os.utime(path, (1, 1))
        assert await seen.next() == "state"
        (tmp_path / "new").write_text("three")
        (tmp_path / "new").replace(path)
        assert await seen.next() == "state"
        path.unlink()
        assert await seen.next() == "state"
        path.write_text("again")
        assert await seen.next() == "state"


async def test_other_files_of_the_directory_are_nobodys_business(tmp_path: Path) -> None:
    """A kubelet's directory has many."""
    async with watching(tmp_path / "state", inotify=True) as seen:
        (tmp_path / "other").write_text("x")
        (tmp_path / "state").write_text("x")
        await seen.next()
        assert "other" not in seen.paths


async def test_a_directory_may_come_later(tmp_path: Path) -> None:
    """As with an agent that starts before the kubelet."""
    pauses = Pauses()
    seen = Seen()
    path = tmp_path / "kubelet" / "state"
    task = asyncio.create_task(FileWatch([path], seen, sleep=pauses.sleep).run())
    await pauses.begun()
    path.parent.mkdir()
    path.write_text("x")
    pauses.end()
    assert await seen.next() == "state"
    path.write_text("yy")
    assert await seen.next() == "state"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_directory_that_is_replaced_is_watched_again(tmp_path: Path) -> None:
    """At the next look at the latest."""
    pauses = Pauses()
    seen = Seen()
    path = tmp_path / "kubelet" / "state"
    path.parent.mkdir()
    path.write_text("x")
    task = asyncio.create_task(FileWatch([path], seen, sleep=pauses.sleep).run())
    await pauses.begun()
    shutil.rmtree(path.parent)
    path.parent.mkdir()
    path.write_text("y")
    pauses.end()
    await seen.next()
    path.write_text("zzz")
    assert await seen.next() == "state"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
