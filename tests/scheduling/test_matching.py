"""Which nodes a pod can use, beside what Kubernetes' documentation says, word by word."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.affinity_and_taints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
)
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeSpec
from numakube.api.pod import Pod, PodSpec
from numakube.errors import InvalidValue
from numakube.scheduling.matching import (
    NodeTerm,
    is_tolerated,
    keeps_away,
    node_preferences,
    node_rule,
    node_term,
    required_nodes,
    taint_sets,
    taint_text,
    untolerated,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

NAMES = ("n0", "n1", "n2", "n3")
LABELS = st.dictionaries(st.sampled_from("ab"), st.sampled_from(("", "1", "2", "10", "x")))
OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "Like")


def requirements(
    keys: tuple[str, ...], values: tuple[str, ...]
) -> st.SearchStrategy[NodeSelectorRequirement]:
    """Requirements of any form, also of those that Kubernetes refuses."""
    return st.builds(
        NodeSelectorRequirement,
        st.sampled_from(keys),
        st.sampled_from(OPERATORS),
        st.lists(st.sampled_from(values), max_size=2).map(tuple),
    )


TERMS = st.builds(
    NodeSelectorTerm,
    st.lists(requirements(("a", "b"), ("", "1", "2", "10", "x")), max_size=2).map(tuple),
    st.lists(requirements(("metadata.name", "metadata.name", "spec.x"), NAMES), max_size=2).map(
        tuple
    ),
)


def holds(one: NodeSelectorRequirement, value: str | None) -> bool:
    """Say whether a label fulfils a requirement that can be read."""
    match one.operator:
        case "In":
            return value in one.values
        case "NotIn":
            return value not in one.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case _:
            if value is None or not value.isdigit() or not one.values[0].isdigit():
                return False
            above, below = int(value) > int(one.values[0]), int(value) < int(one.values[0])
            return above if one.operator == "Gt" else below


def readable(term: NodeSelectorTerm) -> bool:
    """Say whether Kubernetes can read a term."""
    try:
        node_term(term)
    except InvalidValue:
        return False
    return True


def selected(term: NodeSelectorTerm, labels: Mapping[str, str], name: str) -> bool:
    """Say whether a term that can be read matches; an empty one matches nothing."""
    fields = {"metadata.name": name}
    return bool(term.match_expressions or term.match_fields) and (
        all(holds(one, labels.get(one.key)) for one in term.match_expressions)
        and all(holds(one, fields.get(one.key, "")) for one in term.match_fields)
    )


@settings(max_examples=100)
@given(
    st.lists(LABELS, min_size=4, max_size=4),
    LABELS,
    st.none() | st.lists(TERMS, max_size=3).map(tuple),
    st.lists(st.tuples(st.integers(0, 3), TERMS), max_size=3),
)
def test_a_pod_may_use_the_nodes_that_its_selector_and_one_of_its_terms_match(
    nodes: list[dict[str, str]],
    selector: dict[str, str],
    terms: tuple[NodeSelectorTerm, ...] | None,
    preferred: list[tuple[int, NodeSelectorTerm]],
) -> None:
    """One by one and all at once; terms that cannot be read match nothing and are told."""
    cluster = Cluster()
    for name, labels in zip(NAMES, nodes, strict=True):
        cluster.set_node(Node(metadata=ObjectMeta(name=name, labels=labels)))
    affinity = None if terms is None else Affinity(NodeAffinity(NodeSelector(terms)))
    rule = required_nodes(PodInfo(Pod(spec=PodSpec(node_selector=selector, affinity=affinity))))
    assert rule.is_empty == (not selector and terms is None)
    broken = [one for one in terms or () if not readable(one)]
    assert len(rule.problems) == len(broken)
    usable = [one for one in terms or () if readable(one)]
    rated = [one for one in preferred if readable(one[1])]
    weights = [PreferredSchedulingTerm(weight, term) for weight, term in rated]
    preferences = node_preferences(weights)
    snapshot = cluster.snapshot()
    expected, scores = {}, {}
    for name, labels in zip(NAMES, nodes, strict=True):
        fits = selector.items() <= labels.items()
        either = terms is None or any(selected(term, labels, name) for term in usable)
        expected[name] = fits and either
        scores[name] = sum(weight for weight, term in rated if selected(term, labels, name))
        node = snapshot.node(name)
        assert node is not None
        assert rule.accepts(node) == expected[name]
        assert preferences.score(node) == scores[name]
    for rows in (snapshot.rows, snapshot.rows[::-2]):
        names = [snapshot.at(int(row)).name for row in rows]
        assert rule.where(snapshot, rows).tolist() == [expected[name] for name in names]
        assert preferences.score_all(snapshot, rows).tolist() == [scores[name] for name in names]


def test_only_what_can_be_read_is_preferred() -> None:
    """What weighs nothing is not even read."""
    broken = NodeSelectorTerm((NodeSelectorRequirement("a", "Like", ("1",)),))
    assert node_preferences([PreferredSchedulingTerm(0, broken)]).terms == ()
    assert node_preferences([PreferredSchedulingTerm(5, NodeSelectorTerm())]).terms == ()
    with pytest.raises(InvalidValue):
        node_preferences([PreferredSchedulingTerm(5, broken)])


@pytest.mark.parametrize(
    ("operator", "values", "problem"),
    [
        ("Exists", (), "field metadata.name: operator 'Exists' is not supported"),
        ("Gt", ("1",), "field metadata.name: operator 'Gt' is not supported"),
        ("In", (), "field metadata.name: must have one element"),
        ("NotIn", ("a", "b"), "field metadata.name: must have one element"),
    ],
)
def test_fields_are_one_name_or_all_but_one(
    operator: str, values: tuple[str, ...], problem: str
) -> None:
    """Kubernetes refuses anything else."""
    field = NodeSelectorRequirement("metadata.name", operator, values)
    rule = node_rule(NodeSelector((NodeSelectorTerm(match_fields=(field,)),)))
    assert (rule.terms, rule.problems) == ((), (problem,))


def test_volumes_have_no_name_and_their_fields_are_not_looked_at() -> None:
    """They are judged by labels alone."""
    field = NodeSelectorRequirement("metadata.name", "In", ("n0",))
    term = node_term(NodeSelectorTerm(match_fields=(field,)))
    assert [term.matches({}, name) for name in ("", "n0", "n1")] == [True, True, False]
    assert NodeTerm().matches({}, "n0")
    rule = node_rule(NodeSelector())
    assert rule.terms == ()
    assert not rule.matches({}, "n0")


TAINTS = st.builds(
    Taint,
    key=st.sampled_from("ab"),
    value=st.sampled_from(("", "1", "2")),
    effect=st.sampled_from(("NoSchedule", "NoExecute", "PreferNoSchedule")),
)
TOLERATIONS = st.builds(
    Toleration,
    key=st.sampled_from(("", "a", "b")),
    operator=st.sampled_from(("", "Equal", "Exists", "Gt")),
    value=st.sampled_from(("", "1")),
    effect=st.sampled_from(("", "NoSchedule", "NoExecute", "PreferNoSchedule")),
)


@given(st.lists(TAINTS, max_size=3), st.lists(TOLERATIONS, max_size=2).map(tuple))
def test_taints_keep_pods_away_that_do_not_tolerate_them(
    taints: list[Taint], tolerations: tuple[Toleration, ...]
) -> None:
    """All but those that say what is only preferred."""
    keeping = []
    for taint in taints:
        covers = [
            one
            for one in tolerations
            if one.key in ("", taint.key)
            and one.effect in ("", taint.effect)
            and (
                one.operator == "Exists"
                or (one.operator in ("", "Equal") and one.value == taint.value)
            )
        ]
        assert is_tolerated(taint, tolerations) == bool(covers)
        if not covers and taint.effect != "PreferNoSchedule":
            keeping.append(taint)
    assert keeps_away(taints, tolerations) == bool(keeping)
    node = Node(metadata=ObjectMeta(name="n"), spec=NodeSpec(taints=tuple(taints)))
    assert untolerated(Pod(spec=PodSpec(tolerations=tolerations)), node) == tuple(keeping)


def test_a_taint_is_written_as_kubectl_does() -> None:
    """Without an equals sign if it has no value."""
    assert taint_text(Taint("a", "1", "NoSchedule")) == "a=1:NoSchedule"
    assert taint_text(Taint("a", "", "NoExecute")) == "a:NoExecute"


def test_nodes_with_the_same_taints_share_one_value() -> None:
    """When they were added does not matter; nodes without any have none."""
    cluster = Cluster()
    for name, time in (("n0", "2026-01-01T00:00:00Z"), ("n1", "2026-02-01T00:00:00Z")):
        taint = Taint("a", "1", "NoSchedule", time)
        cluster.set_node(Node(metadata=ObjectMeta(name=name), spec=NodeSpec(taints=(taint,))))
    cluster.set_node(Node(metadata=ObjectMeta(name="n2")))
    column = taint_sets(cluster.snapshot())
    assert list(column.values) == [(Taint("a", "1", "NoSchedule"),)]
    snapshot = cluster.snapshot()
    rows = [snapshot.row_of[name] for name in ("n0", "n1", "n2")]
    assert column.present(snapshot.rows)[rows].tolist() == [True, True, False]
