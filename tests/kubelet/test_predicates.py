"""What keeps a pod from a node besides resources, and resizes of pods on it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kubelet.build import admit, container, guaranteed, pod, start, static_settings
from tests.kubelet.conftest import GIB, dual_socket_ht

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
from numakube.kubelet.admission_outcome import Rejected
from numakube.kubelet.predicates import (
    DEFERRED,
    INFEASIBLE,
    check_placement,
    check_system,
    is_resized,
    resize_refusal,
    room_refusal,
)

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


def test_a_pod_that_asks_for_another_node_is_refused() -> None:
    """Whoever bound it there."""
    there = NodeSelectorRequirement(key="metadata.name", operator="In", values=("n2",))
    pod = requiring(NodeSelectorTerm(match_fields=(there,)))
    assert reason_of(pod) == "NodeAffinity"
    assert reason_of(pod, listening(80)) == "NodeAffinity"


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


# In-place resize of pods that hold CPUs and memory of static managers.


CPU_TEXT = 'Resize is infeasible for Guaranteed Pods alongside CPU Manager policy "static"'
MEMORY_TEXT = 'Resize is infeasible for Guaranteed Pods alongside Memory Manager policy "Static"'
OLD_TEXT = "Resize is infeasible for Guaranteed Pods alongside CPU Manager static policy"
CPUS = "InPlacePodVerticalScalingExclusiveCPUs"
MEMORY = "InPlacePodVerticalScalingExclusiveMemory"


@pytest.mark.parametrize(
    ("cpu", "memory", "kubernetes", "gates", "text"),
    [
        ("4", "1Gi", "1.37", {}, CPU_TEXT),
        ("1500m", "1Gi", "1.37", {}, CPU_TEXT),
        ("2", "2Gi", "1.37", {}, MEMORY_TEXT),
        ("2", "2Gi", "1.37", {CPUS: True}, MEMORY_TEXT),
        ("4", "1Gi", "1.37", {CPUS: True}, None),
        ("4", "2Gi", "1.37", {CPUS: True, MEMORY: True}, None),
        ("4", "2Gi", "1.37", {"AllAlpha": True}, None),
        ("2", "2Gi", "1.34", {}, MEMORY_TEXT),
        ("2", "2Gi", "1.34", {CPUS: True}, MEMORY_TEXT),
        ("2", "2Gi", "1.33", {}, OLD_TEXT),
        ("2", "2Gi", "1.33", {CPUS: True}, None),
        ("4", "1Gi", "1.32", {}, "InPlacePodVerticalScaling is disabled"),
    ],
)
def test_static_managers_make_a_resize_of_guaranteed_pods_infeasible(
    cpu: str, memory: str, kubernetes: str, gates: dict[str, bool], text: str | None
) -> None:
    """Of what they manage; the alpha gates lift that."""
    settings = static_settings(
        memory_policy="Static", reserved_memory={0: {"memory": GIB}}, feature_gates=gates
    )
    node = start(dual_socket_ht(), settings, kubernetes=kubernetes)
    before, after = pod(guaranteed("app", "2", "1Gi")), pod(guaranteed("app", cpu, memory))
    held = admit(node, before).containers["app"].cpus
    refused = resize_refusal(node, before, after)
    assert (refused and (refused.reason, refused.message)) == (text and (INFEASIBLE, text))
    assert node.placement("uid", "app").cpus == held


def test_other_pods_may_be_resized() -> None:
    """Burstable ones, and guaranteed ones where no manager is static."""
    static = start(dual_socket_ht(), static_settings(), kubernetes="1.37")
    burstable = pod(container("app"), guaranteed("other", "1"))
    assert resize_refusal(static, burstable, pod(container("app"), guaranteed("other"))) is None
    plain = start(dual_socket_ht(), static_settings(cpu_policy="none"), kubernetes="1.37")
    assert resize_refusal(plain, pod(guaranteed("app", "2")), pod(guaranteed("app", "3"))) is None


def test_only_resources_of_containers_make_a_resize() -> None:
    """Another generation of the same pod is none."""
    assert is_resized(pod(guaranteed("app", "2")), pod(guaranteed("app", "3")))
    assert not is_resized(pod(guaranteed("app", "2")), pod(guaranteed("app", "2"), uid="other"))


@pytest.mark.parametrize(
    ("cpu", "memory", "expected"),
    [
        ("2", "1Gi", None),
        ("4", "4Gi", None),
        ("4001m", "4Gi", (INFEASIBLE, "capacity: cpu, requested: 4001, capacity: 4000")),
        ("5", "5Gi", (INFEASIBLE, "capacity: memory, requested: 5368709120, capacity: 4294967296")),
    ],
)
def test_a_resize_to_more_than_the_whole_node_is_infeasible(
    cpu: str, memory: str, expected: tuple[str, str] | None
) -> None:
    """All of the node is not more than the node; memory is looked at first."""
    allocatable = {"cpu": 4000, "memory": 4 * GIB, "pods": 10}
    refused = room_refusal(pod(guaranteed("app", cpu, memory)), [], allocatable)
    assert _told(refused) == (expected and (expected[0], f"Node didn't have enough {expected[1]}"))


def test_a_resize_waits_for_the_room_that_other_pods_have() -> None:
    """It fits once they are gone, unless the node has none of the resource at all."""
    allocatable = {"cpu": 4000, "memory": 4 * GIB, "pods": 10}
    wanted, other = pod(guaranteed("app", "3")), pod(guaranteed("app", "2"), uid="other")
    assert _told(room_refusal(wanted, [other], allocatable)) == (
        DEFERRED,
        "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000",
    )
    assert room_refusal(wanted, [], allocatable) is None
    one_milli = pod(guaranteed("app", "1m"))
    assert _told(room_refusal(one_milli, [], {"memory": 4 * GIB, "pods": 10})) == (
        INFEASIBLE,
        "Node didn't have enough capacity: cpu, requested: 1, capacity: 0",
    )
    nothing = pod(container("app"))
    assert room_refusal(nothing, [], {"pods": 10}) is None


def _told(refused: Rejected | None) -> tuple[str, str] | None:
    return None if refused is None else (refused.reason, refused.message)
