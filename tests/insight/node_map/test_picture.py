"""What a picture shows is what the report says: every CPU once, with its owner."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from tests.insight.node_map import nodes
from tests.strategies.machines import machines

from numakube.insight.facts import ClusterFacts
from numakube.insight.node_map.map_json import picture_document
from numakube.insight.node_map.map_words import devices_free_words
from numakube.insight.node_map.picture import LETTERS, MANY, PictureChange
from numakube.insight.node_map.picture_from_facts import node_picture
from numakube.insight.node_map.picture_from_report import (
    picture_of_machine,
    picture_of_model,
    picture_of_report,
)
from numakube.insight.node_map.planned_picture import PlannedNode, compared, planned
from numakube.insight.node_map.terminal_map import text_of
from numakube.kubelet.admission_outcome import MemoryBlock
from numakube.kubelet.machine import Device, Machine
from numakube.topology.exact_report import ExactReport, Holding, MemoryCell, uid_hash
from numakube.topology.model_report import report_of
from numakube.topology.numa_zones import Unusable
from numakube.values.cpuset import CpuSet


@given(machines(max_nodes=6))
@settings(max_examples=40, deadline=None)
def test_every_cpu_and_device_of_any_machine_appears_once(machine: Machine) -> None:
    """Whatever ids it has, and whichever zones lack CPUs."""
    picture = picture_of_machine("any", machine)
    drawn = Counter(cpu.id for cpu in picture.cpus())
    online = [cpu for node in machine.nodes for core in node.cores for cpu in core.threads]
    assert drawn == Counter(online)
    devices = Counter((device.resource, device.id) for device in picture.devices())
    assert devices == Counter(
        (resource, device.id) for resource, some in machine.devices.items() for device in some
    )
    text = text_of(picture, width=100)
    cells = sum(line.count("·") for line in text.splitlines()[2:] if line.startswith("│"))
    assert cells >= len(online)


def test_owners_are_those_of_the_report() -> None:
    """CPU by CPU, and device by device."""
    pods = [nodes.named(f"p{n}", cpu="2", memory="1Gi", gpu=str(n % 2)) for n in range(3)]
    node = nodes.admitted(nodes.kubelet(nodes.SMALL), *pods)
    report = report_of(node)
    names = {uid_hash(pod.metadata.uid): pod.metadata.key for pod in pods}
    picture = picture_of_report("n", report, pods=names)
    for uid, holding in report.pods.items():
        mine = {cpu.id for cpu in picture.cpus() if picture.owner_name(cpu.owner) == names[uid]}
        assert CpuSet.of(mine) == holding.cpus
        devices = [
            device.position
            for device in picture.devices()
            if picture.owner_name(device.owner) == names[uid]
        ]
        assert tuple(devices) == holding.devices.get("vendor.example/gpu", ())


def test_a_device_near_two_zones_is_drawn_in_both_and_told() -> None:
    """A zone shows all that it can give out."""
    kubelet = nodes.kubelet("2 sockets, 8 cores, smt 2, 64Gi")
    card = "vendor.example/card"
    kubelet.register_devices(card, [Device("a", (0,)), Device("b", (0, 1))])
    picture = picture_of_model("n1", kubelet, pods={})

    assert [[device.id for device in zone.devices] for zone in picture.zones] == [["a", "b"], ["b"]]
    told = [devices_free_words(picture, zone.devices) for zone in picture.zones]
    assert told == ["2 of 2 free, 1 also near other zones", "1 of 1 free, 1 also near other zones"]


def test_the_bytes_of_a_bar_are_all_accounted_for() -> None:
    """Reserved, held and free make the total."""
    for zone in nodes.large().zones:
        for bar in zone.memory:
            held = sum(part.size_bytes for part in bar.parts)
            assert bar.reserved_bytes + held + bar.free_bytes == bar.total_bytes


def test_memory_of_a_group_has_all_its_owners() -> None:
    """Nobody knows whose bytes are in which zone of a group."""
    machine = nodes.kubelet(nodes.SMALL).machine
    block = MemoryBlock((0, 1), "memory", 40 * nodes.GIB)
    report = ExactReport(
        machine=machine,
        settings=nodes.kubelet(nodes.SMALL).settings,
        kubernetes="1.35",
        memory={
            0: MemoryCell((0, 1), 1, {"memory": 31 * nodes.GIB}),
            1: MemoryCell((0, 1), 1, {"memory": 9 * nodes.GIB}),
        },
        pods={"one": Holding(memory=(block,))},
    )
    picture = picture_of_report("n", report, pods={"one": "team/wide"})
    sizes = [part.size_bytes for zone in picture.zones for part in zone.memory[0].parts]
    assert sizes == [31 * nodes.GIB, 9 * nodes.GIB]
    assert picture.zones[0].memory[0].parts[0].zones == (0, 1)
    assert picture.pods[0].zones == (0, 1)


def test_pods_beyond_the_letters_share_a_sign() -> None:
    """And "r" is nobody's: it stands for reserved."""
    pods = {f"h{number}": Holding(cpus=CpuSet.of([number])) for number in range(60)}
    node = nodes.kubelet("1 socket, 64 cores, 16Gi")
    report = ExactReport(machine=node.machine, settings=node.settings, kubernetes="1.35", pods=pods)
    marks = [pod.letter for pod in picture_of_report("n", report, pods={}).pods]
    assert marks == [*LETTERS, *MANY * (60 - len(LETTERS))]
    assert "r" not in LETTERS


def test_pods_that_the_report_does_not_know_are_named() -> None:
    """The picture is older than they are."""
    node = nodes.kubelet(nodes.SMALL)
    facts = nodes.facts({"n1": node}, nodes.on("n1", nodes.named("new", cpu="1", memory="1Gi")))
    assert node_picture(facts, "n1").notes == ("not in the report yet: team/new",)


def test_without_data_the_picture_says_what_is_missing() -> None:
    """It has no zones rather than invented ones."""
    picture = node_picture(ClusterFacts(), "n1")
    assert not picture.zones
    assert "no NodeResourceTopology" in picture.why_not_exact
    assert "no exact data" in text_of(picture)


def test_counts_only_is_told() -> None:
    """Amounts are drawn, and nobody is named."""
    facts = nodes.facts({"n1": nodes.kubelet(nodes.SMALL)}, exact=False)
    picture = node_picture(facts, "n1")
    assert not picture.exact
    assert [amount.resource for amount in picture.zones[0].amounts] == [
        "cpu",
        "memory",
        "vendor.example/gpu",
    ]
    assert picture_document(picture)["zones"][0]["resources"]["cpu"]["allocatable"] == 7000


def test_offline_cpus_are_told() -> None:
    """They are not drawn, since nobody knows where they would be."""
    assert nodes.partly_offline().notes == ("CPUs 3,5 are not online",)


class TestPlans:
    """The node as it would be."""

    def _plan(
        self, *, arriving: tuple[str, ...] = (), leaving: tuple[str, ...] = ()
    ) -> PlannedNode:
        web = nodes.on("n1", nodes.named("web", cpu="6", memory="4Gi"))
        node = nodes.admitted(nodes.kubelet(nodes.SMALL), web)
        more = [nodes.named(name, cpu="8", memory="4Gi") for name in arriving]
        plan = planned(nodes.facts({"n1": node}, web), "n1", arriving=more, leaving=leaving)
        assert isinstance(plan, PlannedNode)
        return plan

    def test_what_a_pod_takes_is_marked(self) -> None:
        """And nothing else is."""
        picture = self._plan(arriving=("db",)).picture
        taken = {cpu.id for cpu in picture.cpus() if cpu.change is PictureChange.TAKEN}
        assert taken == set(picture.pods[1].cpus)
        assert len(taken) == 8
        assert [pod.change for pod in picture.pods] == [PictureChange.NONE, PictureChange.TAKEN]

    def test_what_a_pod_leaves_is_marked(self) -> None:
        """It stays in the legend, as gone."""
        picture = self._plan(leaving=("team/web",)).picture
        freed = {cpu.was for cpu in picture.cpus() if cpu.change is PictureChange.FREED}
        assert freed == {"team/web"}
        assert picture.pods[0].change is PictureChange.FREED
        assert picture.zones[0].memory[0].freed_bytes == 4 * nodes.GIB

    def test_a_pod_that_is_refused_takes_nothing(self) -> None:
        """The reason is the kubelet's."""
        plan = self._plan(arriving=("a", "b"))
        assert [refused.pod for refused in plan.refused] == ["team/b"]
        assert plan.refused[0].reason == "TopologyAffinityError"
        assert [pod.name for pod in plan.picture.pods] == ["team/web", "team/a"]

    def test_a_pod_that_runs_already_may_come_again(self) -> None:
        """As another one, with a name of its own."""
        picture = self._plan(arriving=("web",)).picture
        assert [pod.name for pod in picture.pods] == ["team/web", "team/web (again)"]
        assert [len(pod.cpus) for pod in picture.pods] == [6, 8]

    def test_a_plan_of_nothing_changes_nothing(self) -> None:
        """Rebuilding the node from its report loses nothing that is drawn."""
        plan = self._plan()
        assert plan.picture.pods == plan.before.pods
        assert plan.picture.zones == plan.before.zones

    def test_a_pod_that_is_not_there_cannot_leave(self) -> None:
        """It is named."""
        facts = nodes.facts({"n1": nodes.kubelet(nodes.SMALL)})
        plan = planned(facts, "n1", leaving=("team/ghost",))
        assert isinstance(plan, Unusable)
        assert "team/ghost" in plan.reason


@pytest.mark.parametrize("make", [nodes.small, nodes.large, nodes.expanded, nodes.with_holes])
def test_comparing_with_itself_marks_nothing(make: object) -> None:
    """Only a plan does."""
    assert callable(make)
    picture = make()
    again = compared(picture, picture)
    assert again.zones == picture.zones
    assert again.pods == picture.pods
