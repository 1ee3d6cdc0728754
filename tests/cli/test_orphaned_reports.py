"""A node whose exporter is gone is marked by every tool, and pods that are gone hold nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.conftest import Ended
from tests.insight.node_map.nodes import bundle

from numakube.testing import World, pod
from numakube.topology import nrt_names

Run = Callable[..., Ended]
EXPORTER = "exporter-x7k2p"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Return a bundle of a node that reports six pods, of which four and the exporter are gone.

    Each zone has 7 or 8 CPUs and the pods held two of them each.
    """
    world = World()
    world.add_node("n1")
    for number in range(6):
        world.run(pod(f"p{number}", cpu="2", memory="1Gi"), "n1")
    report = world.report("n1", attributes={nrt_names.EXPORTER: f"default/{EXPORTER}"})
    facts = world.facts()
    left = tuple(one for one in facts.pods if one.metadata.name in ("p0", "p1"))
    return bundle(tmp_path / "world.tar.gz", replace(facts, topologies={"n1": report}, pods=left))


def test_top_counts_what_is_there_and_marks_the_node(numakube: Run, world: Path) -> None:
    """Two pods of two CPUs are left of fifteen."""
    ended = numakube("top", "--from", world)
    assert "NoExporter" in ended.out
    item = json.loads(numakube("top", "--from", world, "-o", "json").out)["items"][0]
    assert item["free"]["cpu"] == 11000
    assert f"pod default/{EXPORTER}, is gone; its report names 4 pods" in item["stale"]


def test_map_draws_no_pods_that_are_gone(numakube: Run, world: Path) -> None:
    """And says why."""
    drawn = numakube("map", "n1", "--from", world).out
    assert f"may be old: its exporter, pod default/{EXPORTER}, is gone" in drawn
    document = json.loads(numakube("map", "n1", "--from", world, "-o", "json").out)
    assert sorted(entry["name"] for entry in document["pods"]) == ["default/p0", "default/p1"]


def test_fits_and_explain_go_by_the_pods_that_are_there(numakube: Run, world: Path) -> None:
    """With six pods no zone would have seven CPUs left."""
    fits = numakube("fits", "--shape", "cpu=7", "--from", world)
    assert fits.out.startswith("One more pod like default/shape fits.")
    assert f"n1: its exporter, pod default/{EXPORTER}, is gone" in fits.err
    told = numakube("explain", "pod", "p0", "--from", world, "-o", "wide").out
    assert EXPORTER in told


def test_doctor_calls_it_an_error(numakube: Run, world: Path) -> None:
    """With the exit code of errors."""
    ended = numakube("doctor", "--from", world)
    assert "NUMA-NRT-NO-EXPORTER" in ended.out
    assert "its report names 4 pods that are gone" in " ".join(ended.out.split())
    assert ended.code == 1
