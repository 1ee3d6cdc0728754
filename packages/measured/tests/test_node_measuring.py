"""What is measured of a node, against what its pods were promised."""

from __future__ import annotations

from pathlib import Path

import pytest
from packages.measured.tests.build import CARD, GIB, FakeNode, container_id, holding, running

from numakube.node.cgroups import Version
from numakube.node.usage.group_usage import MEMORY_BY_NODE
from numakube.node.usage.running_threads import THREADS
from numakube.topology.exact_report import uid_hash
from numakube_measured.measurement import MeasuredPod, Measurement
from numakube_measured.node_measuring import CGROUPS, MOST_OTHERS

BOTH = pytest.mark.parametrize("version", list(Version))


def pod_in(measurement: Measurement, name: str) -> MeasuredPod:
    """Return what was measured of a pod."""
    (found,) = (one for one in measurement.pods if one.uid == uid_hash(f"uid-{name}"))
    return found


@BOTH
def test_memory_elsewhere_than_promised_is_seen(tmp_path: Path, version: Version) -> None:
    node = FakeNode(tmp_path, version)
    group = node.run(running("db"), holding("db", cpus=(1, 9), memory=0))
    node.use(group, {0: 930, 1: 70})
    found = pod_in(node.measure(), "db")
    assert (found.zones, found.cpu_zones) == ((0,), (0,))
    assert found.memory_mi == {0: 930, 1: 70}
    assert found.local == pytest.approx(0.93)
    assert found.is_spilled


def test_memory_that_is_not_promised_is_expected_near_the_cpus(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    group = node.run(running("db"), holding("db", cpus=(4, 5)))
    node.use(group, {0: 500, 1: 500})
    found = pod_in(node.measure(), "db")
    assert (found.zones, found.local) == ((1,), 0.5)


def test_it_is_said_since_when_memory_is_elsewhere(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    group = node.run(running("db"), holding("db", memory=0))
    node.use(group, {0: 1000})
    assert pod_in(node.measure(), "db").since == ""
    node.use(group, {0: 500, 1: 500})
    first = pod_in(node.measure(), "db").since
    assert first == "2026-11-19T12:00:00Z"
    node.use(group, {0: 400, 1: 600})
    assert pod_in(node.measure(), "db").since == first
    node.use(group, {0: 1000})
    assert pod_in(node.measure(), "db").since == ""


@BOTH
def test_threads_are_counted_by_numa_node(tmp_path: Path, version: Version) -> None:
    node = FakeNode(tmp_path, version)
    node.run(running("db"), holding("db", cpus=(1, 9)))
    node.usage.threads(node.container("db"), {100: [1, 9, 1], 200: [4]})
    found = pod_in(node.measure(), "db")
    assert found.threads == {0: 3, 1: 1}
    assert found.near_threads == 0.75


def test_processes_that_are_not_seen_are_unknown(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.run(running("db"), holding("db", cpus=(1, 9)))
    found = node.measure()
    assert pod_in(found, "db").near_threads is None
    assert any(line.startswith(THREADS) for line in found.untold)


@BOTH
def test_others_on_the_cpus_of_a_pod_are_noticed(tmp_path: Path, version: Version) -> None:
    """In 15 seconds two CPUs were busy for 20 of 30; the pod itself ran for 14."""
    node = FakeNode(tmp_path, version)
    group = node.container("db")
    node.run(running("db"), holding("db", cpus=(1, 9)))
    node.usage.confine(group, cpus="1,9", mems="0")
    node.usage.cpu_time(group, 100.0)
    assert pod_in(node.measure(), "db").others is None
    node.usage.cpu_time(group, 114.0)
    node.usage.cpus({1: (12.0, 1.5), 9: (8.0, 0.0)})
    found = pod_in(node.measure(), "db")
    assert found.others == pytest.approx(0.2)
    assert found.stolen == pytest.approx(0.05)
    assert found.confined


@pytest.mark.parametrize(("mems", "confined"), [("0", True), ("0-1", False), ("1", False)])
def test_a_pod_is_confined_if_its_memory_can_come_from_nowhere_else(
    tmp_path: Path, mems: str, confined: bool
) -> None:
    node = FakeNode(tmp_path)
    node.run(running("db"), holding("db", memory=0))
    node.usage.confine(node.container("db"), cpus="1,9", mems=mems)
    assert pod_in(node.measure(), "db").confined is confined


def test_a_container_that_may_run_elsewhere_says_nothing_of_others(tmp_path: Path) -> None:
    """Its time cannot be told from that on other CPUs."""
    node = FakeNode(tmp_path)
    group = node.container("db")
    node.run(running("db"), holding("db", cpus=(1, 9)))
    node.usage.confine(group, cpus="0-15", mems="0-1")
    node.usage.cpu_time(group, 100.0)
    node.measure()
    node.usage.cpus({1: (12.0, 0.0), 9: (8.0, 0.0)})
    assert pod_in(node.measure(), "db").others is None


def test_a_counter_that_started_again_tells_nothing_this_time(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    group = node.container("db")
    pod = node.run(running("db"), holding("db", cpus=(1, 9)))
    node.usage.confine(group, cpus="1,9", mems="0")
    node.usage.cpu_time(group, 100.0)
    node.usage.cpu_time(pod, 100.0, stopped=50, periods=100)
    node.measure()
    node.usage.cpu_time(group, 1.0)
    node.usage.cpu_time(pod, 1.0, stopped=0, periods=1)
    found = pod_in(node.measure(), "db")
    assert (found.others, found.throttled) == (None, None)


@BOTH
def test_quotas_that_stop_a_pod_are_a_share_of_its_periods(
    tmp_path: Path, version: Version
) -> None:
    node = FakeNode(tmp_path, version)
    pod = node.run(running("db"), holding("db", cpus=(1, 9)))
    node.usage.cpu_time(pod, 1.0, stopped=10, periods=100)
    node.measure()
    node.usage.cpu_time(pod, 2.0, stopped=40, periods=200)
    assert pod_in(node.measure(), "db").throttled == 0.3


def test_interrupts_far_from_the_pod_are_named(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.run(running("db"), holding("db", cpus=(1, 9), device=CARD))
    node.usage.device(CARD, [57, 58])
    node.usage.affinity(57, "0-15", effective="5")
    node.usage.affinity(58, "0-15", effective="1")
    node.usage.interrupts(16, {57: {5: 0}, 58: {1: 10}})
    node.measure()
    node.usage.interrupts(16, {57: {5: 3000}, 58: {1: 20}})
    (far,) = pod_in(node.measure(), "db").far_interrupts
    assert (far.device, far.count, far.numbers, far.zones) == (CARD, 1, (57,), (1,))
    assert far.per_second == 200


def test_memory_of_guests_is_told_by_zone(tmp_path: Path) -> None:
    """What pods use on a zone where they have no place."""
    node = FakeNode(tmp_path)
    node.use(node.run(running("db"), holding("db", memory=0)), {0: 1000, 1: 200})
    node.use(node.run(running("web")), {1: 3000})
    first, second = node.measure().zones
    assert (first.guests_mi, second.guests_mi) == (0, 3200)
    assert [guest.uid for guest in second.guests] == [uid_hash("uid-web"), uid_hash("uid-db")]


def test_only_the_largest_pods_without_a_place_are_told(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    for number in range(MOST_OTHERS + 5):
        node.use(node.run(running(f"web-{number}")), {0: 100 + number})
    found = node.measure()
    assert len(found.pods) == MOST_OTHERS
    assert found.left_out == 5
    assert pod_in(found, f"web-{MOST_OTHERS + 4}").memory_mi == {0: 100 + MOST_OTHERS + 4}


def test_containers_are_told_apart_by_their_place(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.use(node.run(running("db", "app", "side"), holding("db", memory=0)), {0: 100, 1: 50})
    node.use(node.container("db", "app"), {0: 100})
    node.use(node.container("db", "side"), {1: 50})
    assert pod_in(node.measure(), "db").containers == {0: {0: 100}, 1: {1: 50}}


def test_traffic_is_told_by_zone_and_by_pod(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.run(running("db"), holding("db", memory=0))
    node.usage.traffic("", {0: (0, 0, 0), 1: (0, 0, 0)})
    node.usage.traffic(container_id("db"), {0: (0, 0, 0)})
    node.measure()
    node.usage.traffic("", {0: (15 * GIB, 12 * GIB, 0), 1: (0, 0, 0)})
    node.usage.traffic(container_id("db"), {0: (15 * GIB, 12 * GIB, 0)})
    found = node.measure()
    pod = pod_in(found, "db")
    assert (pod.traffic_mi_per_second, pod.remote_mi_per_second) == (1024, 205)


def test_a_pod_that_vanishes_while_it_is_measured_is_unknown(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.run(running("db"), holding("db", memory=0))
    found = node.measure()
    assert pod_in(found, "db").local is None
    assert any(line.startswith(MEMORY_BY_NODE) for line in found.untold)


def test_a_node_without_groups_says_so(tmp_path: Path) -> None:
    node = FakeNode(tmp_path)
    node.run(running("db"), holding("db", memory=0))
    (tmp_path / "sys/fs/cgroup/cgroup.controllers").unlink()
    found = node.measure()
    assert not found.pods
    assert any(line.startswith(CGROUPS) for line in found.untold)
