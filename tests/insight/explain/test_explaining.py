"""What an explanation contains, beyond its text."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType

import msgspec
import pytest
from tests.insight.explain.cases import CASES

from numakube.api.codec import to_tree
from numakube.api.meta import LabelSelector, ObjectMeta, OwnerReference
from numakube.api.pod import Container, PodCondition, PodStatus
from numakube.api.scheduler_config import KubeSchedulerConfiguration
from numakube.api.workloads import PodDisruptionBudget, PodDisruptionBudgetSpec
from numakube.insight.explain import explain, explanation_document, pod_subject
from numakube.insight.explain.changes.suggested_changes import ORDER
from numakube.insight.explain.explanation_document import Document
from numakube.insight.explain.explanation_text import render
from numakube.insight.explain.pod_explanation import ExplainOptions
from numakube.insight.facts import SchedulerFacts
from numakube.insight.scheduler_engine import configuration_in, engine_of
from numakube.scheduling.config.read_configuration import read_configuration
from numakube.testing import World, pod, resources
from numakube_placement.explaining import meaning_of_refusal
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why
from numakube_planning import advice as advice_document
from numakube_planning import audit as audit_document

DOCS = Path(__file__).parents[3] / "docs"


def configuration(mode: str) -> KubeSchedulerConfiguration:
    """A profile with the NUMA plugin in a mode."""
    name = "NodeResourceTopologyMatch"
    return read_configuration(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [
                {
                    "schedulerName": "numakube-scheduler",
                    "plugins": {"multiPoint": {"enabled": [{"name": name}]}},
                    "pluginConfig": [{"name": name, "args": {"mode": mode}}],
                }
            ],
        },
        source="test",
    )


def test_upstreams_mode_is_explained_too() -> None:
    """Without numbers of its own, but with what helps."""
    case = CASES["single-numa-node-container"]()
    explanation = explain(
        case.facts, engine_of(case.facts, configuration("upstream")), case.subject
    )
    assert explanation.verdict == "refused"
    assert explanation.groups[0].reason == "cannot align container"
    assert "fewer-cpus" in {change.kind for change in explanation.changes}


def test_the_configuration_is_the_one_that_the_scheduler_has() -> None:
    """If it told; or else the usual one."""
    world = World()
    world.add_node("node-a")
    document = {"kubescheduler.config.k8s.io": to_tree(configuration("upstream"))}
    told = {"s": SchedulerFacts("s", {"configz": document})}
    found = configuration_in(world.facts(schedulers=told))
    assert found is not None
    assert found.profiles == configuration("upstream").profiles
    told = {"s": SchedulerFacts("s", {"configz": {"odd": 3}})}
    assert configuration_in(world.facts(schedulers=told)) is None


def test_one_node_can_be_looked_at_and_changes_left_out() -> None:
    """Which is faster, and enough for a table."""
    case = CASES["many-nodes"]()
    options = ExplainOptions(node="team-03", changes=False)
    explanation = explain(case.facts, engine_of(case.facts), case.subject, options)
    (one,) = explanation.candidates
    assert (one.node, one.fits, one.plugin) == ("team-03", False, "TaintToleration")
    assert explanation.changes == ()


def test_every_field_is_in_the_document() -> None:
    """Programs need not ask whether it is there."""
    case = CASES["single-numa-node-container"]()
    tree = msgspec.json.decode(
        msgspec.json.encode(explain(case.facts, engine_of(case.facts), case.subject))
    )
    assert tree["apiVersion"] == "insight.numakube.dev/v1"
    assert set(tree) >= {"pod", "verdict", "groups", "candidates", "changes", "notes", "placement"}
    (candidate,) = tree["candidates"]
    cpu = candidate["containers"][1]["resources"][0]
    assert cpu == {
        "resource": "cpu",
        "wanted": "6",
        "aligned": True,
        "free": "",
        "missing": "0",
        "zones": [
            {"zone": 0, "free": "3", "allocatable": "7", "missing": "3"},
            {"zone": 1, "free": "4", "allocatable": "8", "missing": "2"},
        ],
    }
    assert tree["changes"][0] == {
        "kind": "fewer-cpus",
        "text": "Ask for 4 CPUs instead of 6 in container main: fits on node-a.",
        "node": "node-a",
        "claim": "",
        "container": "main",
        "resource": "cpu",
        "was": "6",
        "to": "4",
        "pods": [],
        "parts": [],
    }


def test_a_pod_of_a_daemon_set_is_not_to_be_moved() -> None:
    """It would come back; so another one is named."""
    world = World()
    world.add_node("node-a", machine="1 socket, 4 cores, 16Gi")
    owner = OwnerReference(
        api_version="apps/v1", kind="DaemonSet", name="d", uid="d", controller=True
    )
    daemon = pod("daemon", cpu="1")
    metadata = msgspec.structs.replace(daemon.metadata, owner_references=(owner,))
    world.run(msgspec.structs.replace(daemon, metadata=metadata), "node-a")
    world.run(pod("plain", cpu="1", priority=5), "node-a")
    facts = world.facts()
    explanation = explain(facts, engine_of(facts), pod_subject(pod("new", cpu="2")))
    (moved,) = [change for change in explanation.changes if change.kind == "evict"]
    assert moved.pods == ("default/plain",)


PAGES = {
    explanation_document: "reference/explain.md",
    audit_document: "how-to/check-a-cluster.md",
    advice_document: "reference/explain.md",
}


@pytest.mark.parametrize("module", PAGES, ids=lambda module: str(module.__name__))
def test_every_field_is_in_the_reference(module: ModuleType) -> None:
    """A new field without a line in the reference fails here."""
    page = (DOCS / PAGES[module]).read_text(encoding="utf-8")
    parts = [
        subclass for subclass in Document.__subclasses__() if subclass.__module__ == module.__name__
    ]
    assert parts
    for part in parts:
        for field in msgspec.structs.fields(part):
            assert re.search(rf"`[a-z[\].]*{field.encode_name}[`[{{:]", page), field.encode_name


def test_every_kind_of_change_is_in_the_reference() -> None:
    """A new one without a line fails here."""
    page = (DOCS / "reference/explain.md").read_text(encoding="utf-8")
    for kind in ORDER:
        assert f"`{kind}`" in page


@pytest.mark.parametrize(
    ("case", "words"),
    [
        ("single-numa-node-container", "The scheduler's last answer: 0/3 nodes are available"),
        (
            "best-effort-fits",
            "The scheduler's last answer, which no longer holds: 0/3 nodes are available",
        ),
    ],
)
def test_what_the_scheduler_said_last_stands_beside_what_is_so_now(case: str, words: str) -> None:
    """As it stands in the pod's condition; a very long answer is cut."""
    told = "0/3 nodes are available" + 500 * "."
    condition = PodCondition(type="PodScheduled", status="False", message=told)
    found = CASES[case]()
    status = PodStatus(phase="Pending", conditions=(condition,))
    waits = msgspec.structs.replace(found.subject.pod, status=status)
    explanation = explain(found.facts, engine_of(found.facts, None), pod_subject(waits))
    assert explanation.pod.said == told
    assert words in render(explanation)
    assert told not in render(explanation)


def test_an_explanation_leaves_the_engine_as_it_was() -> None:
    """So that the next pod can be explained by it."""
    case = CASES["runs-spread"]()
    engine = engine_of(case.facts)
    first = explain(case.facts, engine, case.subject)
    assert explain(case.facts, engine, case.subject) == first
    other = CASES["single-numa-node-container"]()
    engine = engine_of(other.facts)
    assert explain(other.facts, engine, other.subject) == explain(
        other.facts, engine, other.subject
    )


def guarded(world: World, app: str) -> None:
    """Let a budget protect the pods of *app*."""
    world.objects.disruption_budgets[f"default/{app}"] = PodDisruptionBudget(
        metadata=ObjectMeta(name=app, namespace="default"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": app})),
    )


def test_a_pod_that_a_budget_protects_is_the_last_to_go() -> None:
    """And if there is no other, it is said."""
    world = World()
    world.add_node("node-a", machine="1 socket, 4 cores, 16Gi")
    world.run(pod("guarded", cpu="1", labels={"app": "db"}), "node-a")
    world.run(pod("free", cpu="1", priority=5), "node-a")
    guarded(world, "db")
    facts = world.facts()
    explanation = explain(facts, engine_of(facts), pod_subject(pod("new", cpu="2")))
    (moved,) = [change for change in explanation.changes if change.kind == "evict"]
    assert moved.pods == ("default/free",)
    explanation = explain(facts, engine_of(facts), pod_subject(pod("new", cpu="3")))
    (moved,) = [change for change in explanation.changes if change.kind == "evict"]
    assert set(moved.pods) == {"default/free", "default/guarded"}
    assert "A disruption budget forbids to evict default/guarded for now." in moved.text


def test_the_schedulers_own_evictions_respect_budgets() -> None:
    """As the scheduler itself would: the other node, though its pod is more important."""
    world = World()
    for name, priority in (("node-a", 0), ("node-b", 5)):
        world.add_node(name, machine="1 socket, 4 cores, 16Gi")
        labels = {"app": "db"} if name == "node-a" else {}
        world.run(pod(f"on-{name}", cpu="3", priority=priority, labels=labels), name)
    guarded(world, "db")
    facts = world.facts()
    explanation = explain(facts, engine_of(facts), pod_subject(pod("new", cpu="3", priority=9)))
    assert explanation.changes[0].kind == "preempt"
    assert explanation.changes[0].pods == ("default/on-node-b",)


def test_absurd_requests_are_answered_at_once() -> None:
    """A typing error should not make the tool try ten thousand sizes."""
    world = World()
    world.add_node("node-a")
    facts = world.facts()
    wanted = pod("typo", cpu="100000", gpu=1_000_000)
    explanation = explain(facts, engine_of(facts), pod_subject(wanted))
    (change,) = explanation.changes
    assert change.kind == "less-of-everything"
    assert "cpu 8" in change.text
    wanted = pod("typo", cpu="100000")
    explanation = explain(facts, engine_of(facts), pod_subject(wanted))
    assert (explanation.changes[0].was, explanation.changes[0].to) == ("100k", "8")


def test_what_a_smaller_pod_must_do_without_is_named() -> None:
    """A device that nobody offers is not passed over in silence, nor said to be in use."""
    world = World()
    world.add_node("node-a", machine="2 sockets, 4 cores, smt 2, 16Gi")
    facts = world.facts()
    explanation = explain(facts, engine_of(facts), pod_subject(pod("p", cpu="20", gpu=1)))
    assert explanation.groups[0].meaning.startswith("No node offers vendor.example/gpu")
    (change,) = explanation.changes
    assert change.text == (
        "Have vendor.example/gpu offered by a node, or do without, and ask for 8 CPUs instead of 20"
        " in container main: fits on node-a."
    )


def test_many_changes_of_one_kind_do_not_crowd_out_the_others() -> None:
    """Another scope of the node's kubelet is suggested, however many requests could be smaller."""
    world = World()
    world.add_node("node-a", "single-numa-node", "pod")
    wanted = pod("many")
    limits = resources({"cpu": "3", "memory": "1Gi"})
    containers = tuple(Container(name=f"c{number}", resources=limits) for number in range(4))
    spec = msgspec.structs.replace(wanted.spec, containers=containers)
    subject = pod_subject(msgspec.structs.replace(wanted, spec=spec))
    facts = world.facts()
    kinds = [change.kind for change in explain(facts, engine_of(facts), subject).changes]
    assert len(kinds) <= 6
    assert {"scope", "policy"} <= set(kinds)


def test_every_refusal_of_the_scheduler_has_words_of_its_own() -> None:
    """And all but one can happen: a ratio that cannot be read counts as none."""
    meanings = {why: meaning_of_refusal(PlacementRefusal(why=why)) for why in Why}
    assert len(set(meanings.values())) == len(Why)
    shown = "".join(path.read_text() for path in (Path(__file__).parent / "golden").glob("level-*"))
    missing = {why for why, text in meanings.items() if text not in shown}
    assert missing == {Why.BAD_RATIO}
