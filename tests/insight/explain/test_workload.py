"""Whole workloads: how many pods fit together, and what would help all of them."""

from __future__ import annotations

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.insight.explain.test_properties import random_case

from numakube.api.meta import ObjectMeta, OwnerReference
from numakube.api.pod import Pod
from numakube.api.workloads import OwnerSpec, ReplicaSet, StatefulSet
from numakube.insight.explain import explain_workload, render_workload
from numakube.insight.explain.empty_node import with_nodes_like
from numakube.insight.explain.workload_explanation import Workload
from numakube.insight.explain.workload_pods import planned_workload, workload_in
from numakube.insight.facts import ClusterFacts
from numakube.insight.how_many_fit import copies, place, room_for
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import World, pod

pytestmark = pytest.mark.timeout(300)


def world(*names: str) -> World:
    """Return idle nodes of 7 and 8 CPUs."""
    made = World()
    for name in names:
        made.add_node(name)
    return made


def planned(facts: ClusterFacts, one: Pod, count: int) -> Workload:
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
    assert "evict" not in {one.kind for one in found.first_refused.changes}
    text = render_workload(found)
    assert text.startswith("Deployment default/web (planned, 7 pods)\n4 of the 7 pods fit")
    assert "The first that does not fit, beside those that do:\nPod default/web-5 (planned" in text


def test_what_helps_all_of_them_was_tried_for_all_of_them() -> None:
    """The least number of nodes, the largest request."""
    facts = world("a", "b").facts()
    found = explain_workload(facts, engine_of, planned(facts, pod("web", cpu="7"), 7))
    assert [one.text for one in found.changes] == [
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
