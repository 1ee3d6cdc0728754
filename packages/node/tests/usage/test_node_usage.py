"""What NUMA nodes, CPUs, threads, interrupts and caches are busy with, read from fake trees."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.cgroups import Version
from numakube.node.sysfs_machine import write_tree
from numakube.node.usage.fake_usage import FakeUsage
from numakube.node.usage.interrupts import INTERRUPTS, InterruptReader, counts_in
from numakube.node.usage.kernel_files import Untold, cpus_of
from numakube.node.usage.node_memory import (
    CpuSeconds,
    ZoneMemoryReader,
    read_cpu_seconds,
    read_settings,
)
from numakube.node.usage.resctrl import BANDWIDTH, ResctrlReader
from numakube.node.usage.running_threads import MOST_THREADS, THREADS, ThreadSampler, last_cpu

GIB = 1 << 30
CARD = "0000:3b:00.1"


@pytest.fixture
def usage(tmp_path: Path) -> FakeUsage:
    """Return an empty tree."""
    return FakeUsage(tmp_path / "sys", tmp_path / "proc")


@pytest.mark.parametrize("nodes", [1, 2, 8, 34])
def test_memory_of_numa_nodes_is_read(usage: FakeUsage, nodes: int) -> None:
    usage.online(f"0-{nodes - 1}" if nodes > 1 else "0")
    for node in range(nodes):
        usage.zone(
            node,
            total=32 * GIB,
            free=node * GIB,
            cache=4 * GIB,
            shared=GIB,
            counters={"numa_foreign": 7},
        )
    zones = ZoneMemoryReader(usage.sysfs, Untold()).read()
    assert [zone.id for zone in zones] == list(range(nodes))
    assert zones[-1].free == (nodes - 1) * GIB
    assert zones[-1].available == (nodes - 1) * GIB + 3 * GIB
    assert zones[0].allocations["numa_foreign"] == 7


def test_numa_nodes_may_have_holes_and_lack_files(usage: FakeUsage) -> None:
    usage.online("0,2")
    usage.zone(2, total=GIB, free=GIB)
    empty, full = ZoneMemoryReader(usage.sysfs, Untold()).read()
    assert (empty.id, empty.total, empty.available) == (0, None, None)
    assert (full.id, full.total) == (2, GIB)


def test_pools_of_huge_pages_are_found(tmp_path: Path) -> None:
    write_tree(from_shape("2 sockets, 2 cores, 8Gi, hugepages-2Mi 512"), tmp_path)
    reader = ZoneMemoryReader(tmp_path, Untold())
    assert reader.page_kib() == {2048}
    assert reader.read()[0].huge_total[2048] == GIB


def test_the_hosts_own_files_can_be_read(host_sysfs: Path) -> None:
    untold = Untold()
    zones = ZoneMemoryReader(host_sysfs, untold).read()
    if not (host_sysfs / "devices/system/node").exists():
        pytest.skip("this kernel has no NUMA nodes")
    assert all(zone.total for zone in zones)
    assert read_cpu_seconds(Path("/proc"), untold)


def test_settings_of_the_kernel_are_read(usage: FakeUsage) -> None:
    usage.settings(numa_balancing=1, huge="always", reclaim=4)
    found = read_settings(usage.sysfs, usage.proc)
    assert (found.numa_balancing, found.transparent_huge_pages, found.zone_reclaim) == (
        "1",
        "always",
        "4",
    )


def test_settings_that_are_not_there_are_unknown(usage: FakeUsage) -> None:
    found = read_settings(usage.sysfs, usage.proc)
    assert (found.numa_balancing, found.transparent_huge_pages, found.zone_reclaim) == ("", "", "")


def test_time_of_cpus_is_in_seconds(usage: FakeUsage) -> None:
    usage.cpus({0: (1.5, 0.0), 12: (3.0, 0.25)})
    assert read_cpu_seconds(usage.proc, Untold()) == {
        0: CpuSeconds(1.5, 0.0),
        12: CpuSeconds(3.0, 0.25),
    }


def sampler(usage: FakeUsage, untold: Untold, budget: int = 100) -> ThreadSampler:
    """Return what looks at threads."""
    return ThreadSampler(usage.proc, Random(1), untold, budget)


def test_threads_tell_where_they_ran_last(usage: FakeUsage) -> None:
    usage.threads("pod", {10: [1, 1, 2], 20: [7]})
    assert sampler(usage, Untold()).last_cpus([10, 20, 30]) == Counter({1: 2, 2: 1, 7: 1})


def test_only_some_threads_are_looked_at(usage: FakeUsage) -> None:
    usage.threads("pod", {1000: range(100)})
    looks = sampler(usage, Untold(), budget=10_000)
    assert looks.last_cpus([1000]).total() == MOST_THREADS
    looks.refill(3)
    assert looks.last_cpus([1000]).total() == 3
    assert looks.last_cpus([1000]).total() == 0


@pytest.mark.parametrize("version", list(Version))
def test_processes_are_found_by_their_container(tmp_path: Path, version: Version) -> None:
    usage = FakeUsage(tmp_path / "sys", tmp_path / "proc", version=version)
    own, other = "a" * 64, "b" * 64
    usage.threads(f"kubepods.slice/pod1.slice/cri-containerd-{own}.scope", {10: [0], 11: [0]})
    usage.threads(f"kubepods.slice/pod2.slice/crio-{other}.scope/nested/deep", {12: [0]})
    usage.threads("system.slice/sshd.service", {13: [0]})
    found = sampler(usage, Untold()).by_container()
    assert {name: sorted(pids) for name, pids in found.items()} == {own: [10, 11], other: [12]}


def test_a_proc_without_processes_of_containers_is_said_to_be_wrong(usage: FakeUsage) -> None:
    untold = Untold()
    assert not sampler(usage, untold).by_container()
    assert "is it the host's?" in untold.reasons[THREADS]


@pytest.mark.parametrize("name", ["a", "a b) S 1", ") " * 40, "\n"])
def test_names_of_threads_mislead_nobody(name: str) -> None:
    words = ["S", *["0"] * 35, "17", *["0"] * 5]
    assert last_cpu(f"5 ({name}) {' '.join(words)}\n") == 17


def test_interrupts_of_a_function_are_read(usage: FakeUsage) -> None:
    usage.device(CARD, [57, 58])
    usage.affinity(57, "0-63", effective="40")
    usage.affinity(58, "32-33")
    usage.interrupts(64, {57: {40: 900}, 58: {}, 99: {0: 1}})
    reader = InterruptReader(usage.sysfs, usage.proc, Untold())
    assert [(irq.number, sorted(irq.cpus)) for irq in reader.of(CARD)] == [
        (57, [40]),
        (58, [32, 33]),
    ]
    assert reader.counts({57, 58}) == {57: {40: 900}, 58: {}}


def test_a_device_that_is_no_function_has_no_interrupts(usage: FakeUsage) -> None:
    assert InterruptReader(usage.sysfs, usage.proc, Untold()).of("../../etc") == ()


def test_an_unreadable_list_of_interrupts_is_said_once(usage: FakeUsage) -> None:
    untold = Untold()
    path = usage.proc / "interrupts"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"x" * (17 << 20))
    assert InterruptReader(usage.sysfs, usage.proc, untold).counts({1}) == {}
    assert untold.reasons.keys() == {INTERRUPTS}


def test_traffic_is_read_by_group_and_added_up(usage: FakeUsage) -> None:
    usage.traffic("", {0: (100, 90, 5), 1: (10, 10, 1)})
    usage.traffic("web", {0: (60, 30, 2), 1: (0, 0, 0)})
    reader = ResctrlReader(usage.sysfs, Untold())
    groups = reader.groups()
    assert (groups["web"].total[0], groups["web"].local[0]) == (60, 30)
    assert reader.by_cache(groups).total == {0: 100, 1: 10}


def test_a_machine_without_resctrl_says_so(usage: FakeUsage) -> None:
    untold = Untold()
    assert ResctrlReader(usage.sysfs, untold).groups() == {}
    assert untold.reasons.keys() == {BANDWIDTH}


def test_a_counter_that_is_not_available_is_left_out(usage: FakeUsage) -> None:
    usage.traffic("", {0: (100, 90, 5)})
    path = usage.sysfs / "fs/resctrl/mon_data/mon_L3_00/mbm_local_bytes"
    path.write_text("Unavailable\n")
    groups = ResctrlReader(usage.sysfs, Untold()).groups()
    assert (dict(groups[""].total), dict(groups[""].local)) == ({0: 100}, {})


def test_a_cache_belongs_to_the_numa_node_of_its_cpus(tmp_path: Path) -> None:
    write_tree(from_shape("2 sockets, 2 cores, smt 2, 8Gi"), tmp_path)
    nodes = {0: 0, 1: 0, 4: 0, 5: 0, 2: 1, 3: 1, 6: 1, 7: 1}
    found = ResctrlReader(tmp_path, Untold()).nodes_of_caches(nodes)
    assert set(found.values()) in ({0, 1}, set())


@given(st.text(max_size=300))
def test_no_text_breaks_the_parsers(text: str) -> None:
    counts_in(text, {1})
    last_cpu(text)
    list(cpus_of(text))
