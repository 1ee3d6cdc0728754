"""Pods whose devices have to be linked, where the kubelet chooses them."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pytest

from numakube.api.node_islands import ISLANDS, read_islands, told_islands
from numakube.errors import InvalidValue
from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.observations import observed
from numakube.scheduling.cycle import Chosen
from numakube.testing import GPU, World, pod
from numakube_zone_affinity.observing import LINKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod

TWO_ISLANDS: Final = "1 socket, 8 cores, smt 2, 64Gi, gpu 16, 2 switches, islands 2 gpu"
PAIRS: Final = "1 socket, 8 cores, smt 2, 64Gi, gpu 4, 2 switches, islands 2 gpu"
BY_NODE: Final = "2 sockets, 8 cores, smt 2, 64Gi, gpu 2, 1 switch, islands 2 gpu"
LINKED: Final = {"numakube.dev/linked": "Required"}


def wanting(name: str, gpus: int, asked: str = "Required") -> Pod:
    """Return a pod that wants linked GPUs."""
    return pod(name, "1", gpu=gpus, annotations={"numakube.dev/linked": asked})


def node_with(world: World, name: str, machine: str, taken: tuple[int, ...]) -> None:
    """Add a node on which a pod has the GPUs at positions *taken*."""
    kubelet = world.add_node(name, "restricted", machine=machine)
    devices = kubelet.machine.devices[GPU]
    ids = [devices[at].id for at in taken]
    kubelet.register_devices(GPU, devices, preferred=lambda *_: ids)
    world.run(pod(f"held-{name}", "1", gpu=len(ids)), name)
    kubelet.register_devices(GPU, devices)


def test_a_node_whose_free_devices_are_in_one_island_is_taken() -> None:
    world = World()
    node_with(world, "n1", TWO_ISLANDS, taken=(0, 1, *range(8, 14)))
    told = (
        "devices not linked: 8 free in 2 islands (6 and 2),"
        " 8 linked ones of vendor.example/gpu needed"
    )
    assert world.scheduler().reasons(wanting("a", 8)) == {told}
    decision = world.scheduler().decide(wanting("a", 8, "Preferred"))
    assert isinstance(decision, Chosen)
    assert decision.doubts == (told,)
    node_with(world, "n2", TWO_ISLANDS, taken=tuple(range(8, 16)))
    for asked in ("Required", "Preferred"):
        decision = world.scheduler().decide(wanting("a", 8, asked))
        assert isinstance(decision, Chosen)
        assert (decision.node, decision.doubts) == ("n2", ())


def test_links_by_luck_are_refused_and_the_odds_told() -> None:
    world = World()
    node_with(world, "n", PAIRS, taken=(0,))
    assert world.scheduler().reasons(wanting("a", 2)) == {
        "devices not linked: vendor.example/gpu may be (33%), by luck:"
        " 3 free in 2 islands (2 and 1)"
    }


def test_numa_nodes_that_separate_islands_leave_nothing_to_luck() -> None:
    world = World()
    world.add_node("n", machine=BY_NODE)
    assert isinstance(world.scheduler().decide(wanting("a", 2)), Chosen)


@pytest.mark.parametrize(
    "machine", ["1 socket, 8 cores, 64Gi, gpu 4", "1 socket, 8 cores, 64Gi, gpu 4, 2 switches"]
)
def test_nothing_is_promised_where_no_links_are_known(machine: str) -> None:
    world = World()
    world.add_node("n", machine=machine)
    assert world.scheduler().reasons(wanting("a", 2)) == {
        "devices not linked: which of its devices are linked is not known"
    }
    assert isinstance(world.scheduler().decide(wanting("a", 1)), Chosen)


def test_a_word_that_does_not_exist_is_refused_by_name() -> None:
    world = World()
    world.add_node("n")
    assert world.scheduler().reasons(wanting("a", 1, "always")) == {
        "metadata.annotations[numakube.dev/linked]: unknown word 'always': use one of Preferred,"
        " Required"
    }


def test_tools_say_whether_devices_are_linked() -> None:
    world = World()
    world.add_node("n", machine=BY_NODE)
    world.run(wanting("a", 2), "n")
    facts = world.facts()
    seen = LINKS.of_pod(observed(facts, "n"), facts.pods[-1])
    assert (seen.words, seen.is_bad) == (("Its devices vendor.example/gpu are linked.",), False)
    world = World()
    node_with(world, "n", PAIRS, taken=(0, 2))
    world.run(wanting("a", 2), "n")
    facts = world.facts()
    seen = LINKS.of_pod(observed(facts, "n"), facts.pods[-1])
    assert (seen.text, seen.is_bad) == ("gpu not linked", True)


class _Pods(tuple["Pod", ...]):
    """Pods of a node that nobody may go through."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Pod]:
        raise AssertionError("the pods of the node were read")


def test_a_pod_that_asks_for_no_links_costs_no_look_at_its_node() -> None:
    world = World()
    world.add_node("n", machine=BY_NODE)
    world.run(pod("a", "1", gpu=2), "n")
    facts = world.facts()
    node = replace(observed(facts, "n"), pods=_Pods())
    assert not LINKS.of_pod(node, facts.pods[-1]).is_known


def test_an_annotation_of_the_node_tells_islands_that_nobody_else_knows() -> None:
    plain, told = "1 socket, 8 cores, 64Gi, gpu 4", json.dumps({GPU: ["0,1", "2,3"]})
    world = World()
    world.add_node("n", machine=plain, annotations={ISLANDS: told})
    assert world.scheduler().reasons(wanting("a", 2)) == {
        "devices not linked: vendor.example/gpu may be (33%), by luck: 4 free in 2 islands"
        " (2 and 2)"
    }
    world.run(wanting("b", 2), "n")
    assert isinstance(world.scheduler().decide(wanting("a", 2)), Chosen)
    facts = world.facts()
    assert LINKS.of_pod(observed(facts, "n"), facts.pods[0]).text == "gpu linked"


@pytest.mark.parametrize(
    "text",
    [
        "[",
        '{"a": 1}',
        '{"a": ["x"]}',
        '{"a": ["0-99999999"]}',
        '{"a": ["0-4096"]}',
        json.dumps({"a": ["0-4095"] * 3}),
        "x" * 20000,
    ],
)
def test_islands_that_cannot_be_read_are_none(text: str) -> None:
    assert told_islands({ISLANDS: text}) == {}
    with pytest.raises(InvalidValue):
        read_islands(text)


def test_the_doctor_tells_of_nodes_whose_islands_cannot_be_read() -> None:
    world = World()
    world.add_node("n", annotations={ISLANDS: "["})
    (entry,) = diagnose(world.facts(), only=["NUMA-ZONE-RELATION-UNREADABLE"]).entries
    (finding,) = entry.findings
    assert finding.node == "n"
    assert finding.detail.startswith("metadata.annotations[numakube.dev/islands]: not an object")
