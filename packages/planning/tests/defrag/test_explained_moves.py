"""Explanations offer moves where no smaller change helps."""

from __future__ import annotations

import msgspec
from benchmarks.defrag_quality import owned
from packages.planning.tests.defrag.test_opened_room import world_of

from numakube.insight.explain import explain, pod_subject
from numakube.insight.explain.explanation_document import Change
from numakube.insight.explain.pod_explanation import ExplainOptions
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import pod
from numakube_planning.defrag.plan_making import with_moves


def test_moves_are_offered_only_where_nothing_smaller_helps() -> None:
    """With who goes where, and the node that the pod gets then."""
    facts = world_of((owned("a"), owned("b")), (pod("c"), pod("d"))).facts()
    engine, subject = engine_of(facts), pod_subject(pod("late", cpu="3"))
    found = explain(facts, engine, subject, ExplainOptions(changes=False))
    (change,) = with_moves(found, engine, subject).changes
    assert (change.kind, change.pods, change.node) == ("move", ("default/a",), "n0")
    assert change.text.startswith("Move default/a from n0 to n1; ")
    smaller = msgspec.structs.replace(found, changes=(Change(kind="fewer-cpus", text="x"),))
    assert with_moves(smaller, engine, subject) is smaller
