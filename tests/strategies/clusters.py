"""Random clusters: small, crowded and odd, so that every rule of the scheduler is met.

A scene is made from a number, not drawn part by part: that is a hundred times faster, and the
number is all that is needed to see a failure again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from hypothesis import strategies as st

from numakube.api.affinity_and_taints import (
    Affinity,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from numakube.api.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta, OwnerReference
from numakube.api.nodes import ContainerImage, Node, NodeSpec, NodeStatus
from numakube.api.pod import Container, ContainerPort, Pod, PodSpec, PodStatus, ResourceRequirements
from numakube.api.workloads import OwnerSpec, ReplicaSet
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

T = TypeVar("T")

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
KEYS = (HOSTNAME, ZONE, "rack")
GPU = "vendor.example/gpu"

_EXPRESSIONS = (
    NodeSelectorRequirement(key=ZONE, operator="In", values=("a", "b")),
    NodeSelectorRequirement(key=ZONE, operator="NotIn", values=("a",)),
    NodeSelectorRequirement(key="rack", operator="Exists"),
    NodeSelectorRequirement(key="rack", operator="DoesNotExist"),
    NodeSelectorRequirement(key="rack", operator="Gt", values=("2",)),
    NodeSelectorRequirement(key="rack", operator="Lt", values=("12",)),
)
_UNREADABLE = NodeSelectorRequirement(key="rack", operator="In", values=())
_NO_TEAM = LabelSelectorRequirement(key="team", operator="DoesNotExist")
_NAMESPACE_SELECTORS = (
    None,
    None,
    LabelSelector(),
    LabelSelector(match_labels={"team": "x"}),
    LabelSelector(match_expressions=(_NO_TEAM,)),
)
_OWNER = OwnerReference(
    api_version="apps/v1", kind="ReplicaSet", name="rs", uid="rs", controller=True
)


@dataclass(frozen=True)
class Scene:
    """A cluster and a pod to place in it."""

    seed: int
    cluster: Cluster
    pod: PodInfo


def scenes() -> st.SearchStrategy[Scene]:
    """A cluster of a few nodes with pods on them, and one more pod."""
    return st.integers(0, 2**32).map(scene)


def scene(seed: int) -> Scene:
    """The scene of that number."""
    rng = Random(seed)
    cluster = Cluster()
    # Now and then more nodes than arrays have room for at first.
    count = rng.randint(1, 6) if rng.random() < 0.95 else 70
    for index in range(count):
        cluster.set_node(node(rng, index))
    for index in range(rng.randint(0, 8)):
        cluster.place(PodInfo(pod(rng, f"e{index}")), f"n{rng.randrange(count)}")
    cluster.objects.namespace_labels.update({"default": {"team": "x"}, "other": {}})
    owner = ReplicaSet(
        metadata=ObjectMeta(name="rs", namespace="default"),
        spec=OwnerSpec(selector=LabelSelector(match_labels={"app": "a"})),
    )
    cluster.objects.replica_sets[owner.metadata.key] = owner
    return Scene(seed, cluster, PodInfo(pod(rng, "new")))


def node(rng: Random, index: int) -> Node:
    """A node called ``n<index>``."""
    labels = {
        HOSTNAME: f"n{index}",
        ZONE: rng.choice(["", "a", "b", "c"]),
        "rack": rng.choice(["", "1", "12", "x"]),
    }
    amounts = {
        "cpu": rng.choice(["0", "500m", "2", "4"]),
        "memory": rng.choice(["0", "1Gi", "4Gi"]),
        GPU: rng.choice(["", "0", "2"]),
        "pods": rng.choice(["1", "3", "110"]),
    }
    images = [name for name in ("app:1", "db:latest") if rng.random() < 0.5]
    size = 400_000_000 + 100_000_000 * (index % 2)
    return Node(
        metadata=ObjectMeta(name=f"n{index}", labels={k: v for k, v in labels.items() if v}),
        spec=NodeSpec(taints=_few(rng, taint, 2), unschedulable=rng.random() < 0.2),
        status=NodeStatus(
            allocatable={name: amount for name, amount in amounts.items() if amount},
            images=tuple(ContainerImage(names=(name,), size_bytes=size) for name in images),
            declared_features=rng.choice([(), ("UserNamespacesHostNetworkSupport", "Other")]),
        ),
    )


def taint(rng: Random) -> Taint:
    """A taint of any effect."""
    return Taint(
        key=rng.choice(["gpu", "spot"]),
        value=rng.choice(["", "a"]),
        effect=rng.choice(["NoSchedule", "NoExecute", "PreferNoSchedule", "PreferNoSchedule"]),
    )


def toleration(rng: Random) -> Toleration:
    """A toleration of some taints, or of cordoning."""
    return Toleration(
        key=rng.choice(["", "gpu", "spot", "node.kubernetes.io/unschedulable"]),
        operator=rng.choice(["", "Equal", "Exists"]),
        value=rng.choice(["", "a"]),
        effect=rng.choice(["", "NoSchedule", "PreferNoSchedule"]),
    )


def pod(rng: Random, name: str) -> Pod:
    """A pod of any demands."""
    labels = {"app": rng.choice(["", "a", "b", "c"]), "hash": rng.choice(["", "1", "2"])}
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=rng.choice(["default", "default", "other", "unknown"]),
            uid=name,
            labels={key: value for key, value in labels.items() if value},
            deletion_timestamp="2026-01-01T00:00:00Z" if rng.random() < 0.2 else None,
            owner_references=(_OWNER,) if rng.random() < 0.5 else (),
        ),
        spec=PodSpec(
            containers=(container(rng), *_few(rng, container, 1)),
            tolerations=_few(rng, toleration, 2),
            node_selector=rng.choice([{}, {}, {ZONE: "a"}]),
            affinity=_affinity(rng) if rng.random() < 0.6 else None,
            topology_spread_constraints=_few(rng, constraint, 2) if rng.random() < 0.5 else (),
            host_network=rng.random() < 0.5,
            host_users=rng.choice([None, False]),
        ),
        status=PodStatus(phase="Pending"),
    )


def container(rng: Random) -> Container:
    """A container with requests and ports."""
    requests = {
        "cpu": rng.choice(["", "100m", "1", "3"]),
        "memory": rng.choice(["", "64Mi", "2Gi"]),
        GPU: rng.choice(["", "", "0", "1", "3"]),
    }
    port = ContainerPort(
        container_port=80,
        host_port=rng.choice([0, 80, 81]),
        protocol=rng.choice(["TCP", "UDP"]),
        host_ip=rng.choice(["", "0.0.0.0", "10.0.0.1"]),
    )
    asked = {name: amount for name, amount in requests.items() if amount}
    return Container(
        name="c",
        image=rng.choice(["app:1", "db", "other:2"]),
        resources=ResourceRequirements(requests=asked),
        ports=(port,) if rng.random() < 0.3 else (),
    )


def constraint(rng: Random) -> TopologySpreadConstraint:
    """A spread constraint."""
    return TopologySpreadConstraint(
        max_skew=rng.randint(1, 2),
        topology_key=rng.choice(KEYS),
        when_unsatisfiable=rng.choice(["DoNotSchedule", "ScheduleAnyway"]),
        label_selector=selector(rng),
        min_domains=rng.choice([None, 1, 3]),
        node_affinity_policy=rng.choice([None, "Honor", "Ignore"]),
        node_taints_policy=rng.choice([None, "Honor", "Ignore"]),
        match_label_keys=rng.choice([(), ("hash",)]),
    )


def selector(rng: Random) -> LabelSelector | None:
    """A label selector about ``app``."""
    expression = LabelSelectorRequirement(
        key="app", operator=rng.choice(["In", "NotIn"]), values=rng.choice([("a",), ("a", "b")])
    )
    return rng.choice(
        [
            None,
            LabelSelector(),
            LabelSelector(match_labels={"app": rng.choice("ab")}),
            LabelSelector(match_expressions=(expression,)),
        ]
    )


def pod_term(rng: Random) -> PodAffinityTerm:
    """A pod affinity term."""
    return PodAffinityTerm(
        topology_key=rng.choice(KEYS),
        label_selector=selector(rng),
        namespaces=rng.choice([(), (), ("default",), ("other",)]),
        namespace_selector=rng.choice(_NAMESPACE_SELECTORS),
    )


def node_term(rng: Random) -> NodeSelectorTerm:
    """A term about labels and names of nodes."""
    field = NodeSelectorRequirement(
        key="metadata.name", operator="NotIn", values=(rng.choice(["n0", "n1", "gone"]),)
    )
    return NodeSelectorTerm(
        match_expressions=_few(rng, lambda rng: rng.choice(_EXPRESSIONS), 2),
        match_fields=(field,) if rng.random() < 0.3 else (),
    )


def _few(rng: Random, make: Callable[[Random], T], most: int) -> tuple[T, ...]:
    return tuple(make(rng) for _ in range(rng.randint(0, most)))


def _affinity(rng: Random) -> Affinity:
    return Affinity(
        node_affinity=_node_affinity(rng) if rng.random() < 0.5 else None,
        pod_affinity=_pod_affinity(rng) if rng.random() < 0.5 else None,
        pod_anti_affinity=_pod_affinity(rng) if rng.random() < 0.5 else None,
    )


def _node_affinity(rng: Random) -> NodeAffinity:
    terms = _few(rng, node_term, 2)
    if rng.random() < 0.2:
        terms = (*terms, NodeSelectorTerm(match_expressions=(_UNREADABLE,)))

    def preference(rng: Random) -> PreferredSchedulingTerm:
        return PreferredSchedulingTerm(weight=rng.randint(0, 9), preference=node_term(rng))

    preferred = _few(rng, preference, 2)
    required = NodeSelector(node_selector_terms=terms) if rng.random() < 0.5 else None
    return NodeAffinity(required=required, preferred=preferred)


def _pod_affinity(rng: Random) -> PodAffinity:
    def weighted(rng: Random) -> WeightedPodAffinityTerm:
        return WeightedPodAffinityTerm(weight=rng.randint(1, 100), pod_affinity_term=pod_term(rng))

    return PodAffinity(required=_few(rng, pod_term, 2), preferred=_few(rng, weighted, 2))
