"""Domains take what their kubelets take, whatever amounts add up to; cliques are two levels."""

from __future__ import annotations

from typing import Any

import pytest
from packages.levels.tests.test_level_search import PREFERRED, RACK, REQUIRED, SMALL, Racks
from packages.levels.tests.test_parts_of_gangs import Planned, member

from numakube.kubelet import KubeletSettings
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import World, pod
from numakube_lab.testing import without_election
from numakube_levels.aligned_counts import AlignedCounts, Deciding
from numakube_levels.placement_choice import choices
from numakube_levels.placement_wish import Area, Slices, Wish

CLIQUE = "nvidia.com/gpu.clique"


def kubelet(policy: str) -> KubeletSettings:
    """Return settings of a kubelet that pins CPUs."""
    return KubeletSettings(topology_policy=policy, cpu_policy="static", reserved_cpu_milli=2000)


def gpus(name: str, cpu: str, memory: str, count: int, **more: Any) -> Any:
    """Return a pod with GPUs."""
    return pod(name, cpu, memory, also={"nvidia.com/gpu": str(count)}, **more)


def takes(world: World, one: Any) -> list[int]:
    """Return how many pods each node takes."""
    engine = world.scheduler(without_election()).engine
    info = PodInfo(one)
    counts: list[int] = AlignedCounts().of(Deciding.of(engine, info), info, 8).takes.tolist()
    return counts


def test_free_devices_on_two_numa_nodes_are_none_for_an_aligned_pod() -> None:
    """Four are free on both machines; only where they are together a pod of four fits."""
    world = World()
    for name in ("split", "whole"):
        world.add_node(name, machine="dgx-h100", settings=kubelet("single-numa-node"))
    world.run(gpus("a", "8", "8Gi", 2), "split")
    world.run(gpus("b", "104", "8Gi", 2), "split")
    world.run(gpus("c", "8", "8Gi", 4), "whole")
    found = takes(world, gpus("x", "8", "64Gi", 4))
    assert found[1] == 1
    assert found[0] <= 1


@pytest.mark.parametrize(("policy", "count"), [("single-numa-node", 0), ("restricted", 1)])
def test_a_whole_tray_fits_only_where_the_kubelet_allows_two_numa_nodes(
    policy: str, count: int
) -> None:
    """An empty tray with four GPUs on two NUMA nodes: amounts alone would say one."""
    world = World()
    world.add_node("tray", machine="gb200", settings=kubelet(policy))
    assert takes(world, gpus("x", "128", "700Gi", 4)) == [count]


def test_a_gang_of_whole_trays_is_told_what_its_kubelets_refuse() -> None:
    world = World()
    for number in range(2):
        settings = kubelet("single-numa-node")
        world.add_node(f"t{number}", machine="gb200", settings=settings, labels={RACK: "r1"})
    pods = [
        member(f"p{n}", "128", 2, {REQUIRED: "rack"}, also={"nvidia.com/gpu": "4"})
        for n in range(2)
    ]
    told = Planned(world, pods).why_not
    assert "2 pods have to fit in one rack" in told
    assert "p0: 0/2 nodes are available" in told


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({REQUIRED: "partition"}, None),
        ({REQUIRED: "nvlink", PREFERRED: "partition"}, [9, 3]),
        (
            {REQUIRED: "nvlink", PREFERRED: "partition", "numakube.dev/gang-balance": "Fewest"},
            [6, 6],
        ),
    ],
)
def test_a_clique_is_a_domain_and_its_partition(
    annotations: dict[str, str], expected: list[int] | None
) -> None:
    """Two partitions of nine nodes in one NVLink domain, and a gang of twelve."""
    world = World()
    for number in range(18):
        labels = {CLIQUE: f"u1.{number // 9 + 1}"}
        world.add_node(f"n{number:02}", machine=SMALL, labels=labels)
    pods = [member(f"p{n}", "6", 12, annotations) for n in range(12)]
    where = Planned(world, pods, args={"preset": "nvidia"}).where
    if expected is None:
        assert where == {}
        return
    first = sum(int(node[1:]) < 9 for node in where.values())
    assert sorted((first, len(where) - first), reverse=True) == expected


def test_late_members_stay_in_the_domain_and_wait_for_the_rest() -> None:
    """Room for two beside those that run: two are placed, two wait, nobody is evicted."""
    racks = Racks({"d1": 3, "d2": 5})
    racks.world.run(pod("old", "6"), "d1-0")
    again = Planned(
        racks.world,
        [member(f"p{n}", "6", 1, {REQUIRED: "rack"}) for n in range(4)],
        placed=[],
    )
    assert len(again.where) == 4
    racks = Racks({"d1": 3, "d2": 5})
    placed = [(member("old", "6", 1, {REQUIRED: "rack"}), "d1-0")]
    late = [member(f"p{n}", "6", 1, {REQUIRED: "rack"}) for n in range(4)]
    assert sorted(Planned(racks.world, late, placed=placed).where.values()) == ["d1-1", "d1-2"]


def test_eight_domains_get_sixteen_and_none_gets_a_rest() -> None:
    """128 pods on twelve domains of which two nodes stay free."""
    parts = tuple(Area(0, f"d{number:02}", 16) for number in range(12))
    whole = Area(-1, "", 12 * 16, parts)
    wish = Wish(needed=128, wanted=128, slices=(Slices(0, 16),))
    assert [count for _, count in choices(whole, wish)[0].shares] == [16] * 8


def test_of_two_gangs_for_one_domain_one_is_placed() -> None:
    """The other is refused, and holds nothing."""
    world = World()
    for number in range(18):
        world.add_node(f"d1-{number:02}", machine=SMALL, labels={RACK: "d1"})
    first = [member(f"a{n}", "6", 12, {REQUIRED: "rack"}) for n in range(12)]
    where = Planned(world, first).where
    assert len(where) == 12
    for one in first:
        world.run(one, where[one.metadata.name])
    second = Planned(world, [member(f"b{n}", "6", 12, {REQUIRED: "rack"}) for n in range(12)])
    assert second.why_not == (
        "gang default/g: 12 pods have to fit in one rack; the best, d1, takes 6"
    )
    counted = [one for node in second.engine.cluster.nodes() for one in node.pods.values()]
    assert len(counted) == 12
