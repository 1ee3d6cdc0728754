"""Pods are spread as kube-scheduler's documentation says, worked out node by node."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.meta import OwnerReference
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.workloads import ReplicaSet, ReplicationController, Service, StatefulSet
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SKIP, Code, Status
from numakube.scheduling.plugins.pod_topology_spread import (
    NO_DOMAIN,
    SKEWED,
    PodTopologySpread,
    siblings,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

HOST = "kubernetes.io/hostname"
TAINT = {"key": "t", "effect": "NoSchedule"}
HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"


@dataclass
class Place:
    """A node."""

    name: str
    labels: dict[str, str]
    tainted: bool
    pods: list[dict[str, Any]] = field(default_factory=list)


def meta(name: str, app: str, namespace: str = "d", *, ends: bool = False) -> dict[str, Any]:
    """The metadata of a pod."""
    end = {"deletionTimestamp": "2026-01-01T00:00:00Z"} if ends else {}
    labels = {"app": app, "v": name[-1]}
    return {"name": name, "namespace": namespace, "uid": name, "labels": labels, **end}


def pod_of(document: dict[str, Any], **spec: Any) -> PodInfo:
    """Return a pod."""
    spec = {"containers": [{"name": "c"}], **spec}
    return PodInfo(convert(Pod, {"metadata": document, "spec": spec}))


there = st.builds(
    meta,
    st.sampled_from(("p0", "p1")),
    st.sampled_from("ab"),
    st.sampled_from(("d", "d", "d", "e")),
    ends=st.sampled_from((False, False, False, True)),
)
places = st.lists(
    st.builds(
        Place,
        name=st.just(""),
        labels=st.dictionaries(st.sampled_from(("zone", "rack")), st.sampled_from("xyz")),
        tainted=st.booleans(),
        pods=st.lists(there, max_size=4),
    ),
    min_size=1,
    max_size=6,
)
constraints = st.lists(
    st.fixed_dictionaries(
        {
            "maxSkew": st.integers(1, 3),
            "topologyKey": st.sampled_from(("zone", "rack", HOST)),
            "whenUnsatisfiable": st.sampled_from((HARD, SOFT)),
        },
        optional={
            "labelSelector": st.sampled_from(({"matchLabels": {"app": "a"}}, {})),
            "minDomains": st.integers(1, 4),
            "nodeAffinityPolicy": st.sampled_from(("Honor", "Ignore")),
            "nodeTaintsPolicy": st.sampled_from(("Honor", "Ignore")),
            "matchLabelKeys": st.sampled_from((["v"], ["absent"])),
        },
    ),
    min_size=1,
    max_size=3,
)
wishes = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.sampled_from(({"rack": "x"}, {"zone": "y"})),
        "tolerations": st.just([{"operator": "Exists"}]),
    },
)


@dataclass
class Reference:
    """What the constraints of a pod mean, in plain loops."""

    nodes: list[Place]
    wanted: list[dict[str, Any]]
    spec: dict[str, Any]
    app: str

    def takes_part(self, one: dict[str, Any], node: Place) -> bool:
        """Say whether the constraint counts the node."""
        selector = self.spec.get("nodeSelector", {})
        excluded = not selector.items() <= node.labels.items()
        if excluded and one.get("nodeAffinityPolicy", "Honor") == "Honor":
            return False
        repelled = node.tainted and "tolerations" not in self.spec
        return not (repelled and one.get("nodeTaintsPolicy", "Ignore") == "Honor")

    def selects(self, one: dict[str, Any], labels: dict[str, str]) -> bool | None:
        """Say whether the constraint is about a pod; None if it is about all or nobody."""
        if "labelSelector" not in one:
            return None
        wanted = dict(one["labelSelector"].get("matchLabels", {}))
        if "v" in one.get("matchLabelKeys", ()):
            wanted["v"] = "w"
        return None if not wanted else wanted.items() <= labels.items()

    def on(self, one: dict[str, Any], node: Place) -> int:
        """Count the pods there that the constraint is about."""
        return sum(
            self.selects(one, pod["labels"]) is True
            for pod in node.pods
            if pod["namespace"] == "d" and "deletionTimestamp" not in pod
        )

    def with_keys(self, action: str) -> list[Place]:
        """Return the nodes that have all keys."""
        keys = [one["topologyKey"] for one in self.wanted if one["whenUnsatisfiable"] == action]
        return [node for node in self.nodes if all(key in node.labels for key in keys)]

    def verdict(self, node: Place) -> Status | None:
        """Say why the node is refused."""
        for one in self.wanted:
            if one["whenUnsatisfiable"] != HARD:
                continue
            key = one["topologyKey"]
            if key not in node.labels:
                return NO_DOMAIN
            counts: dict[str, int] = {}
            for other in self.with_keys(HARD):
                if self.takes_part(one, other):
                    value = other.labels[key]
                    counts[value] = counts.get(value, 0) + self.on(one, other)
            least = min(counts.values(), default=0)
            least = 0 if len(counts) < one.get("minDomains", 1) else least
            # A selector of everything selects the pod, but counts nobody.
            mine = self.selects(one, {"app": self.app, "v": "w"})
            own = "labelSelector" in one if mine is None else mine
            if counts.get(node.labels[key], 0) + own - least > one["maxSkew"]:
                return SKEWED
        return None

    def scores(self) -> list[int]:
        """Rate all nodes; more is worse, and those without a key are not rated."""
        feasible = self.with_keys(SOFT)
        totals = []
        for node in self.nodes:
            total = 0.0
            for one in self.wanted if node in feasible else []:
                if one["whenUnsatisfiable"] != SOFT:
                    continue
                key = one["topologyKey"]
                alike = [other for other in feasible if other.labels[key] == node.labels[key]]
                if key == HOST:
                    count, size = self.on(one, node), len(feasible)
                else:
                    part = [other for other in alike if self.takes_part(one, other)]
                    count = sum(self.on(one, other) for other in part)
                    size = len({other.labels[key] for other in feasible})
                total += count * math.log(size + 2) + one["maxSkew"] - 1
            totals.append(math.floor(total + 0.5))
        return totals


def made(nodes: list[Place]) -> Cluster:
    """Return the cluster."""
    cluster = Cluster()
    for at, node in enumerate(nodes):
        node.name = f"n{at}"
        node.labels[HOST] = node.name
        document = {
            "metadata": {"name": node.name, "labels": node.labels},
            "spec": {"taints": [TAINT] if node.tainted else []},
        }
        cluster.set_node(convert(Node, document))
        for number, one in enumerate(node.pods):
            one["uid"] = f"{node.name}-{number}"
            cluster.place(pod_of({**one, "name": one["uid"]}), node.name)
    return cluster


def refusals(
    plugin: PodTopologySpread, state: CycleState, cluster: Cluster, one: PodInfo
) -> list[Status | None]:
    """Return why each node is refused, the same one by one and all at once."""
    snapshot = cluster.snapshot()
    together = plugin.filter_all(state, one, snapshot, snapshot.rows)
    alone: list[Status | None] = []
    for position, row in enumerate(snapshot.rows):
        status = plugin.filter(state, one, snapshot.at(int(row)))
        alone.append(None if status.ok else status)
        assert together is None or together.status(position) == status
    assert (together is None) == (not any(alone))
    return alone


@settings(max_examples=100)
@given(places, constraints, wishes, st.sampled_from("ab"))
def test_constraints_mean_what_is_written(
    nodes: list[Place], wanted: list[dict[str, Any]], spec: dict[str, Any], app: str
) -> None:
    """For the filter and for the score, and when pods come and go on trial."""
    cluster, plugin = made(nodes), PodTopologySpread()
    one = pod_of(meta("new-w", app), topologySpreadConstraints=wanted, **spec)
    reference, state, snapshot = Reference(nodes, wanted, spec, app), CycleState(), None
    snapshot = cluster.snapshot()
    names = [snapshot.at(int(row)).name for row in snapshot.rows]
    assert names == [node.name for node in nodes]
    result = plugin.pre_filter(state, one, snapshot)
    assert (result.status is SKIP) == all(each["whenUnsatisfiable"] == SOFT for each in wanted)
    if result.status.ok:
        expected = [reference.verdict(node) for node in nodes]
        assert refusals(plugin, state, cluster, one) == expected
        target = nodes[-1]
        info = snapshot.node(target.name)
        assert info is not None
        for guest in (meta("guest-w", "a"), meta("guest-w", "b"), meta("guest-w", "a", "e")):
            trial = state.clone()
            plugin.add_pod(trial, one, pod_of(guest), info)
            target.pods.append(guest)
            after = [reference.verdict(node) for node in nodes]
            assert refusals(plugin, trial, cluster, one) == after
            target.pods.pop()
            plugin.remove_pod(trial, one, pod_of(guest), info)
            assert refusals(plugin, trial, cluster, one) == expected
            assert refusals(plugin, state, cluster, one) == expected
    status = plugin.pre_score(state, one, snapshot, snapshot.rows)
    assert (status is SKIP) == all(each["whenUnsatisfiable"] == HARD for each in wanted)
    if status.ok:
        scores = plugin.score_all(state, one, snapshot, snapshot.rows)
        raw = reference.scores()
        assert scores.tolist() == raw
        assert [plugin.score(state, one, snapshot.at(int(row))) for row in snapshot.rows] == raw
        rated = [
            score
            for score, node in zip(raw, nodes, strict=True)
            if node in reference.with_keys(SOFT)
        ]
        most, least = max(rated, default=0), min(rated, default=0)
        shares = [
            (100 * (most + least - score) // most if most else 100)
            if node in reference.with_keys(SOFT)
            else 0
            for score, node in zip(raw, nodes, strict=True)
        ]
        assert plugin.normalize(state, one, scores).tolist() == shares


OWNERS: list[tuple[str, str, Any]] = [
    ("v1", "ReplicationController", {"tier": "owner"}),
    ("apps/v1", "ReplicaSet", {"matchLabels": {"tier": "owner"}}),
    ("apps/v1", "StatefulSet", {"matchLabels": {"tier": "owner"}}),
]


@pytest.mark.parametrize(("version", "kind", "selector"), OWNERS)
def test_pods_of_the_same_owner_and_services_are_siblings(
    version: str, kind: str, selector: Any
) -> None:
    """An owner that is gone, of another kind or unreadable says nothing."""
    cluster = Cluster()
    objects = cluster.objects
    kept: Any = {
        "ReplicationController": (objects.replication_controllers, ReplicationController),
        "ReplicaSet": (objects.replica_sets, ReplicaSet),
        "StatefulSet": (objects.stateful_sets, StatefulSet),
    }[kind]
    held, type_ = kept
    owner = {"apiVersion": version, "kind": kind, "name": "o", "uid": "o", "controller": True}
    one = pod_of({**meta("p0", "a"), "ownerReferences": [owner]})
    assert siblings(one, objects).is_empty
    spec = {"metadata": {"name": "o", "namespace": "d"}, "spec": {"selector": selector}}
    held["d/o"] = convert(type_, spec)
    assert siblings(one, objects).matches({"tier": "owner"})
    assert not siblings(one, objects).matches({"tier": "another"})
    for name, wanted in (("s", {"app": "a"}), ("t", {"app": "b"}), ("u", {})):
        service = {"metadata": {"name": name, "namespace": "d"}, "spec": {"selector": wanted}}
        objects.services[f"d/{name}"] = convert(Service, service)
    assert siblings(one, objects).matches({"tier": "owner", "app": "a"})
    assert not siblings(one, objects).matches({"tier": "owner", "app": "b"})
    assert not siblings(one, objects).matches({"app": "a"})
    stranger = pod_of({**meta("p0", "a"), "ownerReferences": [{**owner, "kind": "Job"}]})
    assert siblings(stranger, objects).matches({"app": "a"})
    assert siblings(pod_of(meta("p0", "a", "e")), objects).is_empty


def test_an_owner_whose_selector_cannot_be_read_says_nothing() -> None:
    """Services still do."""
    cluster = Cluster()
    wrong = {"matchExpressions": [{"key": "a", "operator": "Like"}]}
    spec = {"metadata": {"name": "o", "namespace": "d"}, "spec": {"selector": wrong}}
    cluster.objects.replica_sets["d/o"] = convert(ReplicaSet, spec)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "o", "uid": "o"}
    one = pod_of({**meta("p0", "a"), "ownerReferences": [{**owner, "controller": True}]})
    assert one.pod.metadata.controller == OwnerReference("apps/v1", "ReplicaSet", "o", "o", True)
    assert siblings(one, cluster.objects).is_empty


@pytest.mark.parametrize("action", [HARD, SOFT])
def test_a_selector_that_cannot_be_read_fails_the_attempt(action: str) -> None:
    """The pod is told why."""
    wrong = {"matchExpressions": [{"key": "app", "operator": "Like"}]}
    constraint = {
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": action, "labelSelector": wrong
    }  # fmt: skip
    cluster, plugin = made([Place("", {}, tainted=False)]), PodTopologySpread()
    one, snapshot = pod_of(meta("p0", "a"), topologySpreadConstraints=[constraint]), None
    snapshot = cluster.snapshot()
    if action == HARD:
        status = plugin.pre_filter(CycleState(), one, snapshot).status
        assert status.message.startswith("get constraints from pod: ")
    else:
        status = plugin.pre_score(CycleState(), one, snapshot, snapshot.rows)
        assert status.message.startswith("calculating preScoreState: ")
    assert status.code is Code.ERROR
    assert "Like" in status.message


def constraint_on(key: str, action: str) -> dict[str, Any]:
    """A constraint about pods of app a."""
    selector = {"matchLabels": {"app": "a"}}
    return {
        "maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": action, "labelSelector": selector
    }  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "about", "expected"),
    [
        (EventKind.POD_DELETED, meta("o", "a"), True),
        (EventKind.POD_DELETED, meta("o", "b"), False),
        (EventKind.POD_DELETED, meta("o", "a", "e"), False),
        (EventKind.POD_ADDED, meta("o", "b"), False),
        (EventKind.POD_UPDATED, meta("o", "b"), True),
        (EventKind.POD_UPDATED, meta("o", "b", "e"), False),
        (EventKind.UNSCHEDULED_POD_UPDATED, meta("o", "b", "e"), True),
        (EventKind.NODE_ADDED, {"zone": "x"}, True),
        (EventKind.NODE_ADDED, {"rack": "x"}, False),
        (EventKind.NODE_UPDATED, {"rack": "x"}, True),
        (EventKind.NODE_REMOVED, None, True),
        (EventKind.NODE_ADDED, None, True),
    ],
)
def test_a_pod_is_woken_by_what_may_change_the_counts(
    kind: EventKind, about: dict[str, Any] | None, expected: bool
) -> None:
    """Pods that are spread with it, and nodes with the keys of hard constraints."""
    wanted = [constraint_on("zone", HARD), constraint_on("rack", SOFT)]
    one, plugin = pod_of(meta("p", "a"), topologySpreadConstraints=wanted), PodTopologySpread()
    if about is not None and "uid" in about:
        event = ClusterEvent(kind=kind, pod=pod_of(about))
    elif about is not None:
        cluster = made([Place("", dict(about), tainted=False)])
        event = ClusterEvent(kind=kind, node="n0", node_info=cluster.snapshot().node("n0"))
    else:
        event = ClusterEvent(kind=kind, node="n0")
    assert plugin.wakes(one, event) == expected
    assert plugin.wakes(pod_of(meta("p", "a")), event)
