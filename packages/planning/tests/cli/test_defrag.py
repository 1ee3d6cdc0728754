"""``kubectl numa plan defrag``: which pods to move, in words and for programs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from benchmarks.defrag_quality import owned
from packages.planning.tests.defrag.test_end_states import telco
from packages.planning.tests.defrag.test_opened_room import world_of
from packages.planning.tests.test_audit import spread
from tests.cli.conftest import Ended
from tests.insight.node_map.nodes import bundle

from numakube.testing import pod

Run = Callable[..., Ended]
ROOM = "cpu=3,memory=1Gi"


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """Return a bundle of two nodes whose NUMA nodes have at most two CPUs left each."""
    made = world_of((owned("a"), owned("b")), (pod("c"), pod("d")))
    return bundle(tmp_path / "full.tar.gz", made.facts())


def test_the_plan_is_read_from_top_to_bottom(numakube: Run, full: Path) -> None:
    """Who goes, where to, and what is won by it."""
    ended = numakube("defrag", "--shape", ROOM, "--from", full)
    assert ended.code == 0
    assert ended.out.splitlines() == [
        "1. Cordon n0, and evict:",
        "     default/a, which goes to n1",
        "   Uncordon n0: one more pod fits there.",
        "1 of 1 pods fit then; 1 pod is moved.",
    ]


def test_a_plan_that_is_not_enough_says_so(numakube: Run, full: Path) -> None:
    """With the scheduler's words for the next pod, and the exit code."""
    ended = numakube("defrag", "--shape", ROOM, "--count", "3", "--from", full, "-o", "json")
    plan = json.loads(ended.out)
    assert ended.code == 1
    assert (plan["wanted"], len(plan["nodes"])) == (3, 1)
    move = {"pod": "default/a", "from": "n0", "to": "n1", "cordoned": ["n0"]}
    assert plan["steps"][0]["moves"] == [move]
    assert (plan["costs"]["restarts"], plan["costs"]["priorities"]) == (1, {"0": 1})
    assert plan["whyNot"].startswith("0/2 nodes are available")


def test_it_has_to_be_said_what_is_to_fit(numakube: Run, full: Path) -> None:
    """As a usage error."""
    ended = numakube("defrag", "--from", full)
    assert ended.code == 2
    assert "pod/NAME, podgroup/NAME, -f FILE, --shape RESOURCES" in ended.err


def test_the_nodes_that_change_are_drawn(numakube: Run, full: Path) -> None:
    """As they would be, with who is gone and who has come."""
    ended = numakube("defrag", "--shape", ROOM, "--from", full, "--map")
    assert "n0" in ended.out
    assert ended.out.count("default/a") >= 3
    document = json.loads(
        numakube("defrag", "--shape", ROOM, "--from", full, "--map", "-o", "json").out
    )
    assert [entry["node"] for entry in document["maps"]] == ["n0", "n1"]


def test_a_pod_that_runs_is_placed_again_where_that_aligns_it(
    numakube: Run, tmp_path: Path
) -> None:
    """Unless it is aligned, or has to stay."""
    made, wide = spread()
    made.pods[-1] = msgspec.structs.replace(
        wide,
        metadata=msgspec.structs.replace(
            wide.metadata, owner_references=owned("any").metadata.owner_references
        ),
    )
    file = bundle(tmp_path / "spread.tar.gz", made.facts())
    ended = numakube("defrag", "pod/wide", "--from", file)
    assert (ended.code, ended.out.splitlines()) == (
        0,
        [
            "1. Evict:",
            "     default/wide, which goes to node-b",
            "default/wide is aligned then.",
        ],
    )
    aligned = numakube("defrag", "--for", "pod/one", "--from", file)
    assert (aligned.code, aligned.out) == (0, "default/one is aligned.\n")
    document = json.loads(numakube("defrag", "--for=pod/wide", "--from", file, "-o", "json").out)
    assert (document["aligns"], document["nodes"]) == ("default/wide", ["node-b"])
    made.pods[-1] = wide
    bare = numakube("defrag", "--for", "pod/wide", "--from", bundle(file, made.facts()))
    assert bare.code == 1
    assert bare.out.endswith("is not aligned, and no move helps: it may not be moved.\n")


def test_a_waiting_pod_can_be_named(numakube: Run, tmp_path: Path) -> None:
    """And one that is not there is an error, not a plan."""
    made = world_of((owned("a"), owned("b")), (pod("c"), pod("d")))
    made.pods.append(pod("late", cpu="3"))
    file = bundle(tmp_path / "late.tar.gz", made.facts())
    ended = numakube("defrag", "--for", "pod/late", "--from", file)
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "1 of 1 pods fit then; 1 pod is moved.")
    missing = numakube("defrag", "podgroup", "none", "--from", file)
    assert (missing.code, "there is no pod group default/none" in missing.err) == (1, True)
    assert numakube("defrag", "--for", "node/n0", "--from", file).code == 2


def test_places_are_there_at_the_same_time_and_who_waits_is_named(
    numakube: Run, tmp_path: Path
) -> None:
    """Nodes with places are cordoned meanwhile, and opened together."""
    made = telco()
    made.pods.append(pod("late", cpu="24"))
    file = bundle(tmp_path / "telco.tar.gz", made.facts())
    ended = numakube("defrag", "--shape", "cpu=24,memory=1Gi", "--count", "2", "--from", file)
    assert (ended.code, ended.out.splitlines()) == (
        0,
        [
            "1. Cordon n0 and n1, and evict:",
            "     default/small-1-1 from n1, which goes to n2",
            "   Uncordon n0 and n1: one more pod fits on n1.",
            "2 of 2 pods fit at the same time then; 1 pod is moved.",
            "Waiting already, and may take the room first: default/late.",
        ],
    )


def test_a_pod_that_no_idle_node_holds_is_answered_without_a_search(
    numakube: Run, full: Path
) -> None:
    """Which is said, beside the scheduler's words."""
    ended = numakube("defrag", "--shape", "cpu=5,memory=1Gi", "--from", full)
    assert (ended.code, ended.out.splitlines()[0]) == (1, "0 of 1 pods fit, and no moves help.")
    assert "It fits no node, even without all pods that may leave. 0/2 nodes" in ended.out


def test_a_resource_that_no_node_offers_is_refused_under_the_flag_that_named_it(
    numakube: Run, full: Path
) -> None:
    """Whatever were counted without it would be false."""
    for flag, command in (("--open", "defrag"), ("--shape", "defrag"), ("--shape", "fits")):
        ended = numakube(command, flag, "cpus=3", "--from", full)
        assert (ended.code, ended.out) == (2, "")
        assert "--shape: no node offers 'cpus'; did you mean cpu?" in ended.err


def test_no_pod_is_sent_to_a_node_of_unknown_zones(numakube: Run, tmp_path: Path) -> None:
    """It is cordoned meanwhile, offers no place, and is named."""
    made = world_of((owned("a"), owned("b")), (pod("c"), pod("d")), ())
    facts = made.facts()
    known = {name: report for name, report in facts.topologies.items() if name != "n2"}
    file = bundle(tmp_path / "blind.tar.gz", replace(facts, topologies=known))
    ended = numakube("defrag", "--shape", ROOM, "--from", file)
    assert (ended.code, ended.out.splitlines()) == (
        0,
        [
            "1. Cordon n0 and n2, and evict:",
            "     default/a from n0, which goes to n1",
            "   Uncordon n0 and n2: one more pod fits on n0.",
            "1 of 1 pods fit then; 1 pod is moved.",
            "Left out, since nothing is known of their NUMA zones: n2.",
        ],
    )
