"""Whole workloads: how many pods fit together, and what would help all of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.insight.claim_world import add_claim, add_slice, claiming, device
from tests.insight.explain.test_properties import random_case

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.pod import Pod
from numakube.api.workloads import OwnerSpec, ReplicaSet, StatefulSet
from numakube.insight.explain import explain_workload, in_its_gang, pod_subject, render_workload
from numakube.insight.explain.explained_pod import Subject
from numakube.insight.explain.explanation_document import WorkloadExplanation
from numakube.insight.explain.pod_explanation import explain
from numakube.insight.explain.workload_explanation import (
    ExplainedWorkload,
    gang_in,
    planned_workload,
    workload_in,
)
from numakube.insight.facts import ClusterFacts
from numakube.insight.how_many_fit import copies, place, room_for
from numakube.insight.node_groups import with_nodes_like
from numakube.insight.scheduler_engine import engine_of
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL, REQUIRED_TOPOLOGY
from numakube.testing import GPU, World, pod

pytestmark = pytest.mark.timeout(300)


def world(*names: str) -> World:
    """Return idle nodes of 7 and 8 CPUs."""
    made = World()
    for name in names:
        made.add_node(name)
    return made


def planned(facts: ClusterFacts, one: Pod, count: int) -> ExplainedWorkload:
    """Return a Deployment to be."""
    return planned_workload(facts, one, count, kind="Deployment", name="web", namespace="default")


def owned(one: Pod, kind: str, name: str) -> Pod:
    """Return a pod that an object has made."""
    owner = OwnerReference(api_version="v1", kind=kind, name=name, uid=name, controller=True)
    metadata = msgspec.structs.replace(one.metadata, owner_references=(owner,))
    return msgspec.structs.replace(one, metadata=metadata)


def test_all_of_it_fits() -> None:
    """It is said where they go."""
    facts = world("a", "b").facts()
    found = explain_workload(facts, engine_of, planned(facts, pod("web", cpu="7"), 4))
    assert (found.verdict, found.fit, found.first_refused) == ("fits", 4, None)
    assert found.summary == "All 4 pods fit: 2 on a, 2 on b."
    assert found.nodes == {"a": 2, "b": 2}


def test_the_first_that_does_not_fit_is_explained() -> None:
    """Beside those that do, which are not to be sent away for it."""
    facts = world("a", "b").facts()
    found = explain_workload(facts, engine_of, planned(facts, pod("web", cpu="7"), 7))
    assert (found.verdict, found.fit) == ("refused", 4)
    assert found.summary == "4 of the 7 pods fit: 2 on a, 2 on b. Number 5 does not."
    assert found.first_refused is not None
    assert found.first_refused.groups[0].reason == "Insufficient cpu"
    assert "evict" not in {change.kind for change in found.first_refused.changes}
    text = render_workload(found)
    assert text.startswith("Deployment default/web (planned, 7 pods)\n4 of the 7 pods fit")
    assert "The first that does not fit, beside those that do:\nPod default/web-5 (planned" in text


def test_what_helps_all_of_them_was_tried_for_all_of_them() -> None:
    """The least number of nodes, the largest request."""
    facts = world("a", "b").facts()
    found = explain_workload(facts, engine_of, planned(facts, pod("web", cpu="7"), 7))
    assert [change.text for change in found.changes] == [
        "Ask for 3 CPUs instead of 7 in container main: all of them then fit.",
        "Add 2 nodes like a: all of them then fit.",
    ]
    for cpu, all_fit in (("3", True), ("4", False)):
        pods = list(copies(pod("web", cpu=cpu), 7))
        assert (place(engine_of(facts), pods).first_refused is None) is all_fit
    for count, all_fit in ((2, True), (1, False)):
        more = with_nodes_like(facts, "a", count)
        pods = list(copies(pod("web", cpu="7"), 7))
        assert (place(engine_of(more), pods).first_refused is None) is all_fit


def test_what_all_of_them_could_do_without_is_said_so() -> None:
    """Nobody asks for nothing."""
    made = World()
    made.add_node("a", machine="2 sockets, 4 cores, 16Gi, gpu 1")
    for number in range(2):
        made.run(pod(f"busy-{number}", cpu="1", also={GPU: "1"}), "a")
    facts = made.facts()
    found = explain_workload(
        facts, engine_of, planned(facts, pod("p", cpu="1", also={GPU: "1"}), 2)
    )
    texts = [change.text for change in found.changes]
    assert f"Do without {GPU} in container main: all of them then fit." in texts


def test_pods_of_a_deployment_belong_to_its_replica_sets() -> None:
    """Those with a node stay; those without, and those that are yet to come, are placed."""
    made = world("a")
    made.run(owned(pod("web-0", cpu="7"), "ReplicaSet", "web-1f"), "a")
    made.pods.append(owned(pod("web-1", cpu="7"), "ReplicaSet", "web-1f"))
    made.pods.append(owned(pod("other", cpu="7"), "ReplicaSet", "other-1f"))
    owner = OwnerReference(
        api_version="apps/v1", kind="Deployment", name="web", uid="web", controller=True
    )
    made.objects.replica_sets["default/web-1f"] = ReplicaSet(
        metadata=ObjectMeta(name="web-1f", namespace="default", owner_references=(owner,)),
        spec=OwnerSpec(replicas=3),
    )
    facts = made.facts()
    workload = workload_in(facts, "Deployment", "default", "web")
    assert workload is not None
    assert (workload.placed, len(workload.waiting), workload.missing) == (1, 1, 1)
    found = explain_workload(facts, engine_of, workload)
    assert found.summary == (
        "1 of 3 have a node. 1 of the 2 others fits: 1 on a. Number 3 does not."
    )
    assert workload_in(facts, "Deployment", "default", "absent") is None
    replicas = workload_in(facts, "ReplicaSet", "default", "web-1f")
    assert replicas is not None
    assert (replicas.waiting, replicas.missing) == (workload.waiting, workload.missing)


def test_jobs_and_stateful_sets_have_their_pods_themselves() -> None:
    """A stateful set makes its pods one by one: the others are counted too."""
    made = world("a")
    made.run(owned(pod("db-0", cpu="7"), "StatefulSet", "db"), "a")
    made.run(owned(pod("batch-0", cpu="2"), "Job", "batch"), "a")
    made.objects.stateful_sets["default/db"] = StatefulSet(
        metadata=ObjectMeta(name="db", namespace="default"), spec=OwnerSpec(replicas=2)
    )
    facts = made.facts()
    db, batch = (workload_in(facts, *one) for one in (
        ("StatefulSet", "default", "db"), ("Job", "default", "batch"),
    ))  # fmt: skip
    assert db is not None
    assert (db.placed, db.missing) == (1, 1)
    assert explain_workload(facts, engine_of, db).verdict == "refused"
    assert batch is not None
    assert explain_workload(facts, engine_of, batch).summary == "All 1 have a node."


RACK = "example.com/rack"
ONE_POD = "1 socket, 8 cores, smt 1, 16Gi"
"""A machine for one pod of seven CPUs."""


def racks(**nodes: str) -> World:
    """Return nodes for one pod each in racks."""
    made = World()
    for name, rack in nodes.items():
        made.add_node(name, machine=ONE_POD, labels={RACK: rack})
    return made


def member(name: str, least: int, **more: Any) -> Pod:
    """Return a pod of a Job that is a gang and has to be in one rack."""
    labels = {NAME_LABEL: "train", MIN_LABEL: str(least)}
    made = pod(name, cpu="7", labels=labels, annotations={REQUIRED_TOPOLOGY: RACK}, **more)
    return owned(made, "Job", "train")


def explained(made: World, kind: str) -> WorkloadExplanation:
    """Return what is said of the Job, or of the group, called train."""
    facts = made.facts()
    found = gang_in(facts, "default", "train")
    if kind == "Job":
        found = workload_in(facts, "Job", "default", "train")
    assert found is not None
    assert found.kind == kind
    return explain_workload(facts, engine_of, found)


@pytest.mark.parametrize("kind", ["Job", "PodGroup"])
def test_a_job_that_is_a_gang_is_explained_as_its_group_is(kind: str) -> None:
    """In one rack, which is where the scheduler puts it."""
    made = racks(a="r1", b="r2", c="r2")
    made.pods += [member(f"train-{number}", least=2) for number in range(2)]
    found = explained(made, kind)
    assert found.summary == (
        "All 2 pods fit: 1 on b, 1 on c. The gang needs 2, so those that fit are bound."
    )
    made.pods.append(member("train-2", least=2))
    found = explained(made, kind)
    assert found.summary == (
        "2 of the 3 pods fit: 1 on b, 1 on c. Number 3 does not."
        " The gang needs 2, so those that fit are bound."
    )
    assert [change.text for change in found.changes] == ["Add a node like b: all of them then fit."]


@pytest.mark.parametrize(
    ("least", "verdict", "words"),
    [
        pytest.param(2, "fits", "It fits on 3 of 3 nodes", id="gang fits"),
        pytest.param(
            3,
            "refused",
            "It fits on 3 of 3 nodes; best is a, but it waits for its gang default/train. 2 of the"
            " 3 pods fit: 1 on b, 1 on c. Number 3 does not. The gang needs 3 at a time, so none is"
            " bound: 3 pods have to fit in one example.com/rack; the best, r2, takes 2 (3 in all"
            " domains of example.com/rack).",
            id="gang does not fit",
        ),
    ],
)
def test_a_pod_fits_only_if_its_gang_does(least: int, verdict: str, words: str) -> None:
    """Although there is room for it alone."""
    made = racks(a="r1", b="r2", c="r2")
    made.pods += [member(f"train-{number}", least=least) for number in range(least)]
    facts = made.facts()
    subject = pod_subject(made.pods[0])
    alone = explain(facts, engine_of(facts), subject)
    assert alone.verdict == "fits"
    found = in_its_gang(alone, facts, engine_of, subject)
    assert found.verdict == verdict
    assert found.summary.startswith(words)


def test_a_job_that_is_a_part_of_a_gang_is_explained_with_the_rest_of_it() -> None:
    """Its pods are not placed without the others."""
    made = racks(a="r1", b="r1")
    made.pods += [member("train-0", least=2), owned(member("lead", least=2), "Job", "lead")]
    facts = made.facts()
    found = workload_in(facts, "Job", "default", "lead")
    assert found is not None
    assert (found.kind, found.name, len(found.waiting)) == ("PodGroup", "train", 2)


def test_a_job_to_be_that_is_a_gang_is_placed_in_one_rack() -> None:
    """As the scheduler will do it."""
    facts = racks(a="r1", b="r2", c="r2").facts()
    to_be = planned_workload(
        facts, member("train", least=3), 3, kind="Job", name="train", namespace="default"
    )
    summary = explain_workload(facts, engine_of, to_be).summary
    assert summary.startswith("2 of the 3 pods fit: 1 on b, 1 on c. Number 3 does not. The gang ")


def test_a_node_with_devices_is_added_for_pods_with_claims() -> None:
    """It has devices like the node that it is like, of its own."""
    made = World()
    made.add_node("node-a", "best-effort")
    add_slice(made, "node-a", [device("gpu-0", 0)])
    add_claim(made, "held", "node-a/gpu-0", pods=["first"])
    made.run(owned(claiming("first", "held"), "Job", "train"), "node-a")
    for number in range(2):
        add_claim(made, f"mine-{number}")
        made.pods.append(owned(claiming(f"next-{number}", f"mine-{number}"), "Job", "train"))
    found = explain_workload(made.facts(), engine_of, _job(made))
    assert "Add 2 nodes like node-a: all of them then fit." in [
        change.text for change in found.changes
    ]
    assert found.first_refused is not None
    texts = [change.text for change in found.first_refused.changes]
    assert "Add a node like node-a: an empty one would take it." in texts


def _job(made: World) -> ExplainedWorkload:
    found = workload_in(made.facts(), "Job", "default", "train")
    assert found is not None
    return found


def test_a_gang_that_nobody_tries_is_told_of() -> None:
    """Not that its pods will be bound; but a young one is given time."""
    made = racks(a="r1", b="r1")
    for number in range(2):
        one = member(f"train-{number}", least=2)
        meta = msgspec.structs.replace(one.metadata, creation_timestamp="2026-06-01T11:58:00Z")
        made.pods.append(msgspec.structs.replace(one, metadata=meta))
    for taken_at, told in (("2026-06-01T12:00:00Z", True), ("2026-06-01T11:58:30Z", False)):
        facts = replace(made.facts(), taken_at=taken_at)
        group = gang_in(facts, "default", "train")
        assert group is not None
        summary = explain_workload(facts, engine_of, group).summary
        alone = explain(facts, engine_of(facts), Subject(made.pods[0])).summary
        words = (
            "gang default/train needs 2 pods and has them, but the scheduler has not tried 2 of"
            " its 2 waiting pods with the others for 120 s (kubectl numa doctor)."
        )
        assert (words in summary, words in alone) == (told, told)
        assert ("are bound" in summary, "is it running?" in alone) == (not told, not told)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_as_many_fit_as_there_is_room_for(seed: int) -> None:
    """And a change that is said to help all of them does."""
    case = random_case(seed)
    count = Random(seed).randint(2, 6)
    workload = planned(case.facts, case.subject.unbound(), count)
    found = explain_workload(case.facts, engine_of, workload)
    room = room_for(engine_of(case.facts), workload.sample)
    assert found.fit == min(count, sum(room.values()))
    assert (found.verdict == "fits") == (found.fit == count)
    for change in found.changes:
        if change.kind == "add-node":
            facts = with_nodes_like(case.facts, change.node, int(change.to))
            assert sum(room_for(engine_of(facts), workload.sample).values()) >= count
