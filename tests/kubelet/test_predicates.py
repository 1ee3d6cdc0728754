"""What keeps a pod from a node besides resources."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.affinity_and_taints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Taint,
    Toleration,
    allows_node,
    tolerates,
)
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Container, ContainerPort, Pod, PodOS, PodSpec
from numakube.kubelet.predicates import check_placement, check_system

LABELS = {"zone": "a", "size": "8"}


def requiring(*terms: NodeSelectorTerm) -> Pod:
    """A pod with required node affinity."""
    required = NodeSelector(node_selector_terms=terms)
    return Pod(spec=PodSpec(affinity=Affinity(node_affinity=NodeAffinity(required=required))))


def matches(pod: Pod) -> bool:
    """Whether the pod may run on node n1."""
    return allows_node(pod.spec, LABELS, "n1")


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("zone", "In", ("a", "b"), True),
        ("zone", "In", ("b",), False),
        ("none", "In", ("b",), False),
        ("zone", "NotIn", ("a",), False),
        ("none", "NotIn", ("a",), True),
        ("zone", "Exists", (), True),
        ("none", "Exists", (), False),
        ("none", "DoesNotExist", (), True),
        ("zone", "DoesNotExist", (), False),
        ("size", "Gt", ("7",), True),
        ("size", "Gt", ("8",), False),
        ("size", "Lt", ("9",), True),
        ("zone", "Lt", ("9",), False),
        ("zone", "Near", ("9",), False),
    ],
)
def test_expressions_are_read_as_schedulers_do(
    key: str,
    operator: str,
    values: tuple[str, ...],
    expected: bool,
) -> None:
    """Every operator, and a label that is missing."""
    requirement = NodeSelectorRequirement(key=key, operator=operator, values=values)
    assert matches(requiring(NodeSelectorTerm(match_expressions=(requirement,)))) is expected


def test_one_term_is_enough_and_an_empty_one_matches_nothing() -> None:
    """Terms are alternatives; requirements within one are not."""
    here = NodeSelectorRequirement(key="metadata.name", operator="In", values=("n1",))
    there = NodeSelectorRequirement(key="metadata.name", operator="In", values=("n2",))
    yes, no = NodeSelectorTerm(match_fields=(here,)), NodeSelectorTerm(match_fields=(there,))
    assert matches(requiring(no, yes))
    assert not matches(requiring(no))
    assert not matches(requiring(NodeSelectorTerm()))
    assert not matches(requiring(NodeSelectorTerm(match_fields=(here, there))))


def reason_of(pod: Pod, *others: Pod, taints: tuple[Taint, ...] = ()) -> str:
    """The reason of a refusal, or nothing."""
    rejected = check_placement(pod, others, node_name="n1", labels=LABELS, taints=taints)
    return rejected.reason if rejected else ""


def listening(port: int, *, address: str = "", protocol: str = "TCP") -> Pod:
    """A pod with a port of its node."""
    one = ContainerPort(container_port=port, host_port=port, host_ip=address, protocol=protocol)
    return Pod(spec=PodSpec(containers=(Container(name="main", ports=(one,)),)))


def test_a_host_port_can_be_had_once() -> None:
    """On the same address and with the same protocol."""
    assert reason_of(listening(80), listening(80)) == "NodePorts"
    assert reason_of(listening(80), listening(81)) == ""
    assert reason_of(listening(80), listening(80, protocol="UDP")) == ""
    assert reason_of(listening(80, address="1.1.1.1"), listening(80)) == "NodePorts"
    assert reason_of(listening(80, address="1.1.1.1"), listening(80, address="2.2.2.2")) == ""


def test_only_taints_that_evict_count() -> None:
    """NoSchedule is the business of schedulers."""
    evicting = Taint(key="down", effect="NoExecute")
    assert reason_of(Pod(), taints=(evicting,)) == "TaintToleration"
    assert reason_of(Pod(), taints=(Taint(key="down", effect="NoSchedule"),)) == ""
    tolerant = Pod(spec=PodSpec(tolerations=(Toleration(key="down", operator="Exists"),)))
    assert reason_of(tolerant, taints=(evicting,)) == ""


def test_tolerations_compare_key_value_and_effect() -> None:
    """An empty key stands for every key; Exists for every value."""
    taint = Taint(key="k", value="v", effect="NoExecute")
    assert tolerates(Toleration(operator="Exists"), taint)
    assert tolerates(Toleration(key="k", value="v"), taint)
    assert not tolerates(Toleration(key="k", value="w"), taint)
    assert not tolerates(Toleration(key="k", operator="Exists", effect="NoSchedule"), taint)
    # The API server lets no such toleration pass; Kubernetes itself would compare the value.
    assert tolerates(Toleration(value="v"), taint)
    assert not tolerates(Toleration(value="w"), taint)


def test_pods_for_other_systems_are_refused() -> None:
    """By label or by field."""
    labelled = Pod(metadata=ObjectMeta(labels={"kubernetes.io/os": "windows"}))
    refused = check_system(labelled)
    assert refused is not None
    assert refused.reason == "PodOSSelectorNodeLabelDoesNotMatch"
    refused = check_system(Pod(spec=PodSpec(os=PodOS(name="windows"))))
    assert refused is not None
    assert refused.reason == "PodOSNotSupported"
    assert check_system(Pod()) is None


@given(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xy")))
def test_a_selector_made_of_the_nodes_own_labels_matches(labels: dict[str, str]) -> None:
    """Whatever they are."""
    pod = Pod(spec=PodSpec(node_selector=labels))
    assert allows_node(pod.spec, {**labels, "more": "z"}, "n")
