"""No tool says of a pod that it fits if nothing is known of the NUMA zones that it needs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.insight.node_map.nodes import bundle

from numakube.insight.facts import ClusterFacts
from numakube.testing import World, pod

Run = Callable[..., Ended]
NOTHING = "nothing is known of any NUMA zone"


def _facts(*reporting: str) -> ClusterFacts:
    """Return two nodes of eight CPUs by zone, of which only those *reporting* have reports."""
    world = World()
    for name in ("node-a", "node-b"):
        world.add_node(name, machine="2 sockets, 8 cores, 32Gi")
    world.run(pod("busy", cpu="2"), "node-b")
    facts = world.facts()
    known = {name: one for name, one in facts.topologies.items() if name in reporting}
    return replace(facts, topologies=known, pods=(*facts.pods, pod("web")))


@pytest.fixture
def blind(tmp_path: Path) -> Path:
    """Return a bundle of a cluster in which no node reports."""
    return bundle(tmp_path / "blind.tar.gz", _facts())


@pytest.mark.parametrize(
    "arguments",
    [
        ("explain", "pod", "web"),
        ("fits", "--shape", "cpu=2,memory=1Gi"),
        ("plan", "advise", "pod/web"),
        ("plan", "defrag", "--shape", "cpu=2,memory=1Gi"),
        ("plan", "defrag", "--for", "pod/web"),
        ("plan", "defrag", "--reduce-stranded"),
        (
            "check",
            "pods",
        ),
    ],
)
def test_without_reports_the_answer_is_that_nothing_is_known(
    numakube: Run, blind: Path, arguments: tuple[str, ...]
) -> None:
    """At its beginning, and with the exit code of "not known"."""
    ended = numakube(*arguments, "--from", blind)
    beginning = "".join((ended.out + ended.err).splitlines()[:2])
    assert (ended.code, NOTHING in beginning) == (1, True), ended


def test_top_says_that_it_does_not_know_how_many_fit(numakube: Run, blind: Path) -> None:
    """For each node and for all of them."""
    ended = numakube("top", "--from", blind, "--shape", "cpu=2,memory=1Gi", "-o", "json")
    document = json.loads(ended.out)
    counts = [entry["fits"] for entry in (*document["items"], document["total"])]
    assert counts == [None, None, None]


def test_a_pod_that_nobody_aligns_fits_without_reports(numakube: Run, tmp_path: Path) -> None:
    """Its kubelet looks at the amounts of the whole node only."""
    loose = pod("loose", guaranteed=False)
    facts = replace(_facts(), pods=(loose,))
    ended = numakube("explain", "pod", "loose", "--from", bundle(tmp_path / "b.tar.gz", facts))
    assert ended.code == 0
    assert ended.out.splitlines()[1].startswith("It fits on 2 of 2 nodes")


def test_room_on_nodes_without_zones_is_counted_apart(numakube: Run, tmp_path: Path) -> None:
    """Two zones of eight CPUs hold eight pods of two less what is reserved; the rest is open."""
    file = bundle(tmp_path / "half.tar.gz", _facts("node-b"))
    shape = ("--shape", "cpu=2,memory=1Gi", "--from", file)
    answer = json.loads(numakube("fits", *shape, "-o", "json").out)
    assert answer["fits"] == answer["nodes"]["node-b"] > 0
    assert answer["unknown"] == answer["nodes"]["node-a"] > 0
    said = numakube("fits", *shape)
    assert "nothing is known of the NUMA zones of node-a" in said.out
    assert said.code == 0
