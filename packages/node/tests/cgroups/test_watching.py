"""Noticing that groups come, go and are written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from numakube.node.cgroups.fake_groups import FakeCgroups
from numakube.node.cgroups.group_files import CPUS, Version
from numakube.node.cgroups.group_scan import GroupWatch
from numakube.node.file_watch import Inotify

pytestmark = pytest.mark.timeout(120)


async def changed(news: asyncio.Event) -> None:
    """Wait for a change."""
    async with asyncio.timeout(60):
        await news.wait()
    news.clear()


async def test_new_groups_and_writes_are_noticed(tmp_path: Path) -> None:
    """Also in a group that was created again under its old name."""
    probe = Inotify.open()
    if probe is None:
        pytest.skip("no inotify instance is left on this machine")
    probe.close()
    tree = FakeCgroups.make(tmp_path, version=Version.V2, cpus=0b11, mems=1)
    tree.add("kubepods")
    news = asyncio.Event()
    watch = GroupWatch(news.set)
    watch.open()
    try:
        watch.watch([tmp_path / "kubepods"])
        await changed(news)  # what happened before counts

        tree.add("kubepods/pod1")
        await changed(news)
        watch.watch([tmp_path / "kubepods", tmp_path / "kubepods/pod1"])
        await changed(news)
        tree.files.write("kubepods/pod1", CPUS, "1")
        await changed(news)

        tree.remove("kubepods/pod1")
        await changed(news)
        tree.add("kubepods/pod1")
        await changed(news)
        watch.watch([tmp_path / "kubepods", tmp_path / "kubepods/pod1"])
        news.clear()
        tree.files.write("kubepods/pod1", CPUS, "0")
        await changed(news)
    finally:
        watch.close()


async def test_without_inotify_nothing_is_noticed_and_nothing_breaks(tmp_path: Path) -> None:
    """Its users look now and then anyway."""
    watch = GroupWatch(lambda: pytest.fail("noticed something"), inotify=False)
    watch.open()
    watch.watch([tmp_path])
    (tmp_path / "new").mkdir()
    watch.close()
