"""A refused pod is tried again after events that can help it, and not after others."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.plugins.default_plugins import (
    DEFAULT_PLUGINS,
    PrioritySort,
    SchedulingGates,
)
from numakube.scheduling.plugins.node_resources_fit import NodeResourcesFit
from numakube.scheduling.snapshot.nodes import NodeInfo
from numakube.scheduling.snapshot.pods import PodInfo

NEAR = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
NEAR_TOO = {"topologyKey": "rack", "labelSelector": {"matchLabels": {"tier": "back"}}}
ANYWHERE = {
    "topologyKey": "zone",
    "labelSelector": {"matchLabels": {"app": "db"}},
    "namespaceSelector": {"matchLabels": {"team": "a"}},
}


def pod(name: str = "new", *, labels: dict[str, str] | None = None, **spec: Any) -> PodInfo:
    """A pod of the default namespace."""
    meta = {"name": name, "namespace": "default", "uid": name, "labels": labels or {}}
    tree = {"metadata": meta, "spec": {"containers": [{"name": "c"}], **spec}}
    return PodInfo(convert(Pod, tree))


def node(labels: dict[str, str] | None = None, **spec: Any) -> NodeInfo:
    """A node of 2 CPUs."""
    status = {"allocatable": {"cpu": "2", "pods": "9"}}
    tree = {"metadata": {"name": "n", "labels": labels or {}}, "spec": spec, "status": status}
    return NodeInfo(convert(Node, tree))


def wanting(cpu: str) -> PodInfo:
    """A pod that asks for *cpu*."""
    return pod(containers=[{"name": "c", "resources": {"requests": {"cpu": cpu}}}])


def with_port(number: int, name: str = "new") -> PodInfo:
    """A pod that takes a port of its node."""
    ports = [{"containerPort": 1, "hostPort": number}]
    return pod(name, containers=[{"name": "c", "ports": ports}])


def affine(kind: str, *more: dict[str, Any], name: str = "new") -> PodInfo:
    """A pod that wants to be near to, or far from, the database and what *more* terms say."""
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": [NEAR, *more]}
    return pod(name, affinity={kind: terms})


def added(info: NodeInfo) -> ClusterEvent:
    """A node came."""
    return ClusterEvent(kind=EventKind.NODE_ADDED, node=info.name, node_info=info)


def changed(info: NodeInfo) -> ClusterEvent:
    """A node changed."""
    return ClusterEvent(kind=EventKind.NODE_UPDATED, node=info.name, node_info=info)


def deleted(gone: PodInfo) -> ClusterEvent:
    """A pod went."""
    return ClusterEvent(kind=EventKind.POD_DELETED, node="n", pod=gone)


def bound(other: PodInfo) -> ClusterEvent:
    """A pod came to a node."""
    return ClusterEvent(kind=EventKind.POD_ADDED, node="n", pod=other)


def relabelled(waiting: PodInfo) -> ClusterEvent:
    """The pod itself got other labels; running pods may keep away from it no more."""
    return ClusterEvent(kind=EventKind.UNSCHEDULED_POD_UPDATED, pod=waiting)


def claimed(key: str) -> ClusterEvent:
    """A claim changed."""
    return ClusterEvent(kind=EventKind.STORAGE_CHANGED, claim=key)


DB = pod("db", labels={"app": "db"})
BACK_DB = pod("back", labels={"app": "db", "tier": "back"})
WEB = pod("web", labels={"app": "web"})
TAINT = {"key": "x", "effect": "NoSchedule"}
DATA = pod(volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}])
SPREAD = pod(
    topologySpreadConstraints=[
        {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **NEAR},
    ]
)

BROKEN = {"labelSelector": {"matchExpressions": [{"key": "app", "operator": "Near"}]}}
UNREADABLE = pod(
    topologySpreadConstraints=[
        {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "topologyKey": "zone", **BROKEN},
    ]
)

FEATURE = "UserNamespacesHostNetworkSupport"
MAPPED = pod(hostNetwork=True, hostUsers=False)


def declaring(*features: str) -> NodeInfo:
    """A node whose kubelet declares *features*."""
    tree = {"metadata": {"name": "n"}, "status": {"declaredFeatures": features}}
    return NodeInfo(convert(Node, tree))


CASES: list[tuple[str, PodInfo, ClusterEvent, bool]] = [
    ("NodeName", pod(nodeName="n"), added(node()), True),
    ("NodeName", pod(nodeName="m"), added(node()), False),
    ("NodeUnschedulable", pod(), changed(node()), True),
    ("NodeUnschedulable", pod(), changed(node(unschedulable=True)), False),
    ("NodeDeclaredFeatures", MAPPED, changed(declaring(FEATURE)), True),
    ("NodeDeclaredFeatures", MAPPED, changed(declaring("Other")), False),
    ("NodeDeclaredFeatures", MAPPED, relabelled(MAPPED), True),
    ("TaintToleration", pod(), changed(node()), True),
    ("TaintToleration", pod(), changed(node(taints=[TAINT])), False),
    ("NodeAffinity", pod(nodeSelector={"zone": "a"}), changed(node({"zone": "a"})), True),
    ("NodeAffinity", pod(nodeSelector={"zone": "a"}), changed(node({"zone": "b"})), False),
    ("NodePorts", with_port(80), deleted(with_port(80, "old")), True),
    ("NodePorts", with_port(80), deleted(with_port(81, "old")), False),
    ("NodeResourcesFit", wanting("2"), added(node()), True),
    ("NodeResourcesFit", wanting("3"), added(node()), False),
    ("NodeResourcesFit", wanting("3"), deleted(DB), True),
    ("InterPodAffinity", affine("podAffinity"), bound(DB), True),
    ("InterPodAffinity", affine("podAffinity"), bound(WEB), False),
    ("InterPodAffinity", affine("podAffinity"), added(node({"zone": "a"})), True),
    ("InterPodAffinity", affine("podAffinity"), added(node()), False),
    ("InterPodAffinity", affine("podAntiAffinity"), deleted(DB), True),
    ("InterPodAffinity", affine("podAntiAffinity"), deleted(WEB), False),
    ("InterPodAffinity", affine("podAntiAffinity", NEAR_TOO), deleted(DB), True),
    ("InterPodAffinity", affine("podAntiAffinity", ANYWHERE), deleted(WEB), True),
    ("InterPodAffinity", affine("podAffinity", NEAR_TOO), bound(DB), False),
    ("InterPodAffinity", affine("podAffinity", NEAR_TOO), bound(BACK_DB), True),
    ("InterPodAffinity", affine("podAffinity", NEAR_TOO), added(node({"rack": "a"})), True),
    ("InterPodAffinity", affine("podAffinity", ANYWHERE), bound(WEB), True),
    ("InterPodAffinity", pod(), deleted(WEB), False),
    ("InterPodAffinity", pod(), deleted(affine("podAntiAffinity", name="apart")), True),
    ("InterPodAffinity", affine("podAffinity"), changed(node()), True),
    ("InterPodAffinity", pod(), added(node()), True),
    ("InterPodAffinity", pod(), relabelled(pod()), True),
    ("PodTopologySpread", SPREAD, bound(DB), True),
    ("PodTopologySpread", SPREAD, bound(WEB), False),
    ("PodTopologySpread", SPREAD, added(node({"zone": "a"})), True),
    ("PodTopologySpread", SPREAD, added(node()), False),
    ("PodTopologySpread", SPREAD, ClusterEvent(kind=EventKind.NODE_REMOVED, node="n"), True),
    ("PodTopologySpread", UNREADABLE, bound(WEB), True),
    ("VolumeBinding", DATA, claimed("default/data"), True),
    ("VolumeBinding", DATA, claimed("default/other"), False),
    ("VolumeBinding", DATA, claimed(""), True),
    ("VolumeBinding", DATA, added(node()), True),
    ("VolumeZone", DATA, claimed("default/data"), True),
    ("VolumeZone", DATA, claimed("default/other"), False),
    ("VolumeZone", DATA, claimed(""), True),
    ("SchedulingGates", pod(), relabelled(pod()), True),
    ("SchedulingGates", pod(), relabelled(pod("other")), False),
    ("SchedulingGates", pod(), ClusterEvent(kind=EventKind.UNSCHEDULED_POD_UPDATED), True),
    ("NodeVolumeLimits", DATA, deleted(DATA), True),
    ("NodeVolumeLimits", DATA, deleted(DB), False),
    ("VolumeRestrictions", DATA, deleted(DATA), True),
    ("VolumeRestrictions", DATA, deleted(DB), False),
]


@pytest.mark.parametrize(("offered", "helps"), [({}, True), ({"x/gpu": "1"}, False)])
def test_what_claims_serve_is_missing_only_where_a_node_offers_some_itself(
    offered: dict[str, str], helps: bool
) -> None:
    """Two devices are wanted; a node whose device plugin has one gives no more than that."""
    tree = {"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9", **offered}}}
    plugin = NodeResourcesFit.from_args({}, by_claims=lambda _name: True)
    new = pod(containers=[{"name": "c", "resources": {"requests": {"x/gpu": "2"}}}])
    assert plugin.wakes(new, added(NodeInfo(convert(Node, tree)))) is helps


@pytest.mark.parametrize(("name", "new", "event", "helps"), CASES)
def test_events_that_can_help_wake(
    name: str, new: PodInfo, event: ClusterEvent, helps: bool
) -> None:
    """A plugin hears of the kind of event, and says whether this one can help this pod."""
    plugin = DEFAULT_PLUGINS[name].make({}, Handle())
    assert event.kind in plugin.wakes_on
    assert plugin.wakes(new, event) is helps


NEVER = {
    "DynamicResources": EventKind.POD_ADDED
    | EventKind.POD_DELETED
    | EventKind.TOPOLOGY_CHANGED
    | EventKind.CLAIM_CHANGED,
    "NodeUnschedulable": EventKind.UNSCHEDULED_POD_UPDATED,
}


@pytest.mark.parametrize("kind", EventKind)
@pytest.mark.parametrize("name", sorted(DEFAULT_PLUGINS))
def test_an_event_of_which_nothing_else_is_known_may_help(name: str, kind: EventKind) -> None:
    """Neither pod nor node nor claim is told; claims that nobody has help nobody."""
    plugin = DEFAULT_PLUGINS[name].make({}, Handle())
    hears = kind in plugin.wakes_on and kind not in NEVER.get(name, EventKind(0))
    assert plugin.wakes(DATA, ClusterEvent(kind=kind)) or not hears


def test_a_gated_pod_waits_and_says_for_what() -> None:
    """Until all gates are gone."""
    gated = pod(schedulingGates=[{"name": "a"}, {"name": "b"}])
    status = SchedulingGates().pre_enqueue(gated)
    assert status.reasons == ("waiting for scheduling gates: [a b]",)
    assert SchedulingGates().pre_enqueue(pod()).ok


def test_pods_are_sorted_by_priority_and_then_by_time() -> None:
    """Higher first, then who came first."""
    waiting = [
        (pod("late", priority=5), 2.0),
        (pod("low", priority=1), 0.0),
        (pod("early", priority=5), 1.0),
    ]
    ordered = sorted(waiting, key=lambda one: PrioritySort().sort_key(*one))
    assert [one.name for one, _ in ordered] == ["early", "late", "low"]
