"""--from takes a bundle, or what kubectl prints, and says what a file cannot tell."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.insight.explain.bundling import collected_of as collected

from numakube.api.codec import to_tree
from numakube.api.yaml_text import dump_yaml
from numakube.apps.bundle import pack
from numakube.apps.cluster_file import read_cluster
from numakube.cli.main import run
from numakube.errors import MalformedObject
from numakube.insight.facts import ClusterFacts, facts_of
from numakube.testing import World, pod


@pytest.fixture
def facts() -> ClusterFacts:
    """A node with a pod on it."""
    world = World()
    world.add_node("node-a")
    world.run(pod("runs", cpu="2"), "node-a")
    return world.facts()


def dump_of(facts: ClusterFacts) -> dict[str, Any]:
    """Return what kubectl prints of the nodes, pods and reports."""
    kinds = {
        ("v1", "Node"): facts.nodes.values(),
        ("v1", "Pod"): facts.pods,
        ("topology.node.k8s.io/v1alpha2", "NodeResourceTopology"): facts.topologies.values(),
    }
    items = [
        {**to_tree(one), "apiVersion": version, "kind": kind}
        for (version, kind), objects in kinds.items()
        for one in objects
    ]
    return {"apiVersion": "v1", "kind": "List", "items": items}


@pytest.mark.parametrize("text", [json.dumps, dump_yaml], ids=["json", "yaml"])
def test_a_dump_tells_what_a_bundle_tells_of_these_kinds(
    text: Callable[[object], str], facts: ClusterFacts
) -> None:
    """And that the rest is not in it."""
    bundled = facts_of(read_cluster(pack(collected(facts)), "b.tar.gz"))
    dumped = facts_of(read_cluster(text(dump_of(facts)).encode(), "d.yaml"))
    assert dumped.nodes == bundled.nodes
    assert dumped.pods == bundled.pods
    assert dumped.topologies == bundled.topologies
    (missing,) = dumped.unreadable
    assert missing.why == "d.yaml has noderesourcetopologies, nodes, pods alone"
    assert not dumped.claims_known


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"root:x:0:0", "neither a bundle"),
        (b"\xff\xfe", "neither a bundle"),
        (b"\x1f\x8bno", "not a bundle"),
        (b"{kind: Pod, apiVersion: v1}", "has no objects of kind Node"),
        (b"{kind: Node, apiVersion: other.example/v1}", "has no objects of kind Node"),
    ],
)
def test_what_is_neither_is_refused(content: bytes, words: str) -> None:
    """With what would be right."""
    with pytest.raises(MalformedObject, match=words):
        read_cluster(content, "file")


def test_the_doctor_does_not_call_well_what_it_has_not_seen(
    facts: ClusterFacts, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finding says that the file has some kinds only."""
    file = tmp_path / "dump.json"
    file.write_text(json.dumps(dump_of(facts)))
    run(["doctor", "--from", str(file)], program="numakube")
    assert "NUMA-ACCESS-PARTIAL" in capsys.readouterr().out
