"""What the processes of a control group use, read from trees of both versions."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.node.cgroups import Version
from numakube.node.usage.fake_usage import FakeUsage
from numakube.node.usage.group_usage import (
    MEMORY_BY_NODE,
    PRESSURE,
    CpuTime,
    GroupPlaces,
    GroupReader,
    pressure_of,
)
from numakube.node.usage.kernel_files import Untold, by_node, lists_by_node, pairs

MIB = 1 << 20
POD = "kubepods.slice/kubepods-pod1.slice"
BOTH = pytest.mark.parametrize("version", list(Version))


def tree(root: Path, version: Version) -> FakeUsage:
    """Return an empty hierarchy of a version."""
    sysfs = root / "sys"
    if version is Version.V2:
        (sysfs / "fs/cgroup").mkdir(parents=True)
        (sysfs / "fs/cgroup/cgroup.controllers").write_text("cpuset cpu memory\n")
    else:
        for controller in ("cpuset", "cpu,cpuacct", "memory", "hugetlb"):
            (sysfs / "fs/cgroup" / controller).mkdir(parents=True)
    return FakeUsage(sysfs, root / "proc", version=version)


def reader(
    usage: FakeUsage, untold: Untold | None = None, pages: Iterable[int] = ()
) -> GroupReader:
    """Return what reads the groups of a tree."""
    places = GroupPlaces.below(usage.sysfs / "fs/cgroup")
    assert places is not None
    return GroupReader(places, page_kib=pages, untold=untold or Untold())


@BOTH
@pytest.mark.parametrize("nodes", [1, 2, 8, 34])
def test_memory_is_told_by_numa_node(tmp_path: Path, version: Version, nodes: int) -> None:
    usage = tree(tmp_path, version)
    mapped = {node: (node + 1) * MIB for node in range(nodes)}
    usage.memory(POD, mapped=mapped, cache={0: 3 * MIB})
    found = reader(usage).memory(POD)
    assert found is not None
    assert dict(found.mapped) == mapped
    assert sum(found.cache.values()) == 3 * MIB


@BOTH
def test_huge_pages_count_as_mapped_memory(tmp_path: Path, version: Version) -> None:
    usage = tree(tmp_path, version)
    usage.memory(POD, mapped={0: MIB, 1: 0}, huge={"2MB": {1: 4 * MIB}, "1GB": {1: 1024 * MIB}})
    found = reader(usage, pages=(2048, 1 << 20)).memory(POD)
    assert found is not None
    assert found.mapped == {0: MIB, 1: 1028 * MIB}


def test_mapped_files_are_a_programs_memory_and_no_cache(tmp_path: Path) -> None:
    usage = tree(tmp_path, Version.V2)
    usage.memory(POD, mapped={0: 0})
    path = usage.sysfs / "fs/cgroup" / POD / "memory.numa_stat"
    path.write_text(
        "anon N0=10 N1=1\nfile N0=100 N1=0\nfile_mapped N0=60 N1=0\nslab_reclaimable N0=5\n"
    )
    found = reader(usage).memory(POD)
    assert found is not None
    assert (dict(found.mapped), dict(found.cache)) == ({0: 70, 1: 1}, {0: 40, 1: 0})
    assert found.all() == {0: 115, 1: 1}


def test_the_first_version_counts_pages_and_what_is_below(tmp_path: Path) -> None:
    """As a kernel 6.18 writes it."""
    usage = tree(tmp_path, Version.V1)
    usage.memory(POD, mapped={0: 0})
    path = usage.sysfs / "fs/cgroup/memory" / POD / "memory.numa_stat"
    path.write_text(
        "total=6396 N0=6396\nfile=364 N0=364\nanon=374 N0=374\nunevictable=5658 N0=5658\n"
        "hierarchical_total=1823295 N0=1823295\nhierarchical_file=1666805 N0=1666805\n"
        "hierarchical_anon=150832 N0=150832\nhierarchical_unevictable=5658 N0=5658\n"
    )
    found = reader(usage).memory(POD)
    assert found is not None
    assert found.mapped == {0: (150832 + 5658) * os.sysconf("SC_PAGE_SIZE")}


@BOTH
def test_cpu_time_is_in_seconds(tmp_path: Path, version: Version) -> None:
    usage = tree(tmp_path, version)
    usage.cpu_time(POD, 12.5, throttled=0.25, stopped=3, periods=40)
    assert reader(usage).cpu_time(POD) == CpuTime(12.5, 0.25, 3, 40)


@BOTH
def test_cpus_and_numa_nodes_in_force_are_read(tmp_path: Path, version: Version) -> None:
    usage = tree(tmp_path, version)
    usage.confine(POD, cpus="0-3,8", mems="0-1")
    found = reader(usage)
    assert str(found.cpus(POD)) == "0-3,8"
    assert found.memory_nodes(POD) == (0, 1)


def test_pressure_is_a_share_of_the_last_minute(tmp_path: Path) -> None:
    usage = tree(tmp_path, Version.V2)
    usage.pressure(POD, memory=0.125, cpu=0.5)
    found = reader(usage).usage(POD)
    assert (found.memory_pressure, found.cpu_pressure) == (0.125, 0.5)


def test_what_the_first_version_has_not_is_said_once(tmp_path: Path) -> None:
    untold = Untold()
    found = reader(tree(tmp_path, Version.V1), untold)
    assert found.usage(POD).memory_pressure is None
    assert found.usage(POD).memory_pressure is None
    assert untold.lines() == (f"{PRESSURE}: only version 2 of control groups has it",)


@BOTH
def test_a_group_that_is_gone_is_unknown_and_no_complaint(tmp_path: Path, version: Version) -> None:
    untold = Untold()
    found = reader(tree(tmp_path, version), untold)
    assert found.memory(POD) is None
    assert found.cpu_time(POD) == CpuTime()
    assert not untold.lines()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"anon N0=12\n",
        b"anon\xff\xfe N0=1\nfile N0=1\n",
        b"anon N0=1 N1=\nfile N0=1\n",
        b"anon N0=-1\nfile N0=1\n",
        b"anon N0=99999999999999999999999\nfile N0=1\n",
        b"anon N0=1\nfile N0=1",
        b"\0" * 4096,
        b"anon " + b"N0=1 " * 100_000 + b"\nfile N0=1\n",
    ],
    ids=["empty", "part", "encoding", "cut", "negative", "huge", "half-written", "zeros", "long"],
)
def test_a_file_that_makes_no_sense_is_unknown(tmp_path: Path, content: bytes) -> None:
    usage, untold = tree(tmp_path, Version.V2), Untold()
    usage.memory(POD, mapped={0: 1})
    (usage.sysfs / "fs/cgroup" / POD / "memory.numa_stat").write_bytes(content)
    assert reader(usage, untold).memory(POD) is None
    assert untold.reasons.keys() == {MEMORY_BY_NODE}


def test_neither_a_pipe_nor_a_folder_holds_the_reader_up(tmp_path: Path) -> None:
    usage = tree(tmp_path, Version.V2)
    folder = usage.sysfs / "fs/cgroup" / POD
    (folder / "cpu.stat").mkdir(parents=True)
    os.mkfifo(folder / "memory.numa_stat")
    assert reader(usage).memory(POD) is None
    assert reader(usage).cpu_time(POD) == CpuTime()


@given(st.text(max_size=200))
def test_no_text_breaks_the_parsers(text: str) -> None:
    pairs(text)
    lists_by_node(text)
    pressure_of(text)
    by_node(text.split())
