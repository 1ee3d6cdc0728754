"""Whatever a cluster is made of, the doctor answers."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.insight.doctor.documents import Documents, healthy, owned_by, pod

from numakube.insight.doctor.all_checks import diagnose
from numakube.insight.doctor.findings import document_of, seen_lines
from numakube.insight.facts import facts_of

ODD: tuple[Any, ...] = (
    None, "", "x", 0, -1, 1.5, True, [], {}, [None], "2026-13-41T99:00:00Z", "9" * 30, "-3", "1e99",
)  # fmt: skip


def world() -> Documents:
    """Return a cluster with a bit of everything."""
    made = healthy()
    made.pods.append(pod("waiting", metadata=owned_by("ReplicaSet", "set")))
    made.pods.append(pod("failed", node="node-0", status={"phase": "Failed", "reason": "OutOfcpu"}))
    made.schedulers["s", "cache"] = {"nodes": [{"name": "node-0", "numa": {"blocked": "why"}}]}
    made.schedulers["s", "attempts"] = {"items": [{"pod": "a/b", "attempts": [{"events": []}]}]}
    made.schedulers["s", "configz"] = {"kubescheduler.config.k8s.io": {"profiles": [{}]}}
    return made


def places(tree: Any, so_far: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to every value."""
    found = [so_far] if so_far else []
    inside = tree if isinstance(tree, dict) else {}
    if isinstance(tree, list):
        inside = dict(enumerate(tree))
    for key, value in inside.items():
        found += places(value, (*so_far, key))
    return found


def replace_at(tree: Any, place: tuple[Any, ...], value: Any) -> None:
    """Put a copy of *value* where *place* leads; a later change may lead into it."""
    *way, last = place
    for key in way:
        tree = tree[key]
    tree[last] = deepcopy(value)


PLACES = {
    name: places(getattr(world(), name))
    for name in (
        "nodes", "topologies", "configz", "pods", "leases", "daemonsets", "deployments",
        "schedulers", "clusterroles", "clusterrolebindings",
    )
}  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(
    st.lists(
        st.sampled_from(sorted(PLACES)).flatmap(
            lambda name: st.tuples(
                st.just(name), st.sampled_from(PLACES[name]), st.sampled_from(ODD)
            )
        ),
        min_size=1,
        max_size=3,
    )
)
def test_odd_values_are_findings_at_most(changes: list[tuple[str, tuple[Any, ...], Any]]) -> None:
    """Never an exception, and what is found can be told."""
    broken = world()
    for name, place, value in changes:
        try:
            replace_at(getattr(broken, name), place, value)
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change has taken the place away
    facts = facts_of(broken.collected())
    diagnosis = diagnose(facts)
    document_of(diagnosis, taken_at=facts.taken_at)
    for entry in diagnosis.entries:
        assert all(seen_lines(entry, wide=True))
