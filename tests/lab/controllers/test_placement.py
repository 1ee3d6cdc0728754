"""Whether a pod may run on a node."""

from __future__ import annotations

import pytest

from numakube.api.affinity_and_taints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
    tolerates,
)
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import PodSpec
from numakube_lab.controllers.common.pod_states import is_wanted_node, named_nodes, untolerated

TAINT = Taint(key="k", value="v", effect="NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "expected"),
    [
        (Toleration(key="k", operator="Equal", value="v", effect="NoSchedule"), True),
        (Toleration(key="k", value="v"), True),
        (Toleration(key="k", value="other"), False),
        (Toleration(key="k", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="other", operator="Exists"), False),
        (Toleration(key="k", operator="Exists", effect="NoExecute"), False),
        (Toleration(), False),
    ],
)
def test_tolerations(toleration: Toleration, *, expected: bool) -> None:
    """An empty effect means every effect, an empty key with Exists every taint."""
    assert tolerates(toleration, TAINT) is expected


def test_soft_taints_keep_nobody_away() -> None:
    """PreferNoSchedule is a wish."""
    assert untolerated((Taint(key="k", effect="PreferNoSchedule"),), ()) is None


def affinity(*terms: NodeSelectorTerm) -> PodSpec:
    """A pod that requires one of some terms."""
    required = NodeSelector(node_selector_terms=terms)
    return PodSpec(affinity=Affinity(node_affinity=NodeAffinity(required=required)))


def label(key: str, operator: str, *values: str) -> NodeSelectorTerm:
    """A term of one expression."""
    return NodeSelectorTerm(
        match_expressions=(NodeSelectorRequirement(key=key, operator=operator, values=values),)
    )


def name(*values: str) -> NodeSelectorTerm:
    """A term that names nodes."""
    return NodeSelectorTerm(
        match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=values),)
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PodSpec(), True),
        (PodSpec(node_selector={"zone": "a"}), True),
        (PodSpec(node_selector={"zone": "b"}), False),
        (affinity(label("zone", "In", "a", "b")), True),
        (affinity(label("zone", "NotIn", "a")), False),
        (affinity(label("nope", "NotIn", "a")), True),
        (affinity(label("cpus", "Gt", "4")), True),
        (affinity(label("cpus", "Lt", "4")), False),
        (affinity(label("zone", "Gt", "4")), False),
        (affinity(label("zone", "Exists"), label("nope", "Exists")), True),
        (affinity(label("nope", "DoesNotExist")), True),
        (affinity(name("n1")), True),
        (affinity(name("n2")), False),
        (affinity(NodeSelectorTerm()), False),
        (affinity(), False),
    ],
)
def test_selectors(spec: PodSpec, *, expected: bool) -> None:
    """Selector and affinity must both select the node; one of several terms is enough."""
    node = Node(metadata=ObjectMeta(name="n1", labels={"zone": "a", "cpus": "8"}))
    assert is_wanted_node(spec, node) is expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (PodSpec(), None),
        (affinity(name("n1")), {"n1"}),
        (affinity(name("n1"), name("n2")), {"n1", "n2"}),
        (affinity(name("n1"), label("zone", "Exists")), None),
    ],
)
def test_named_nodes(spec: PodSpec, expected: set[str] | None) -> None:
    """Only if every term names nodes are they the only ones."""
    assert named_nodes(spec) == expected
