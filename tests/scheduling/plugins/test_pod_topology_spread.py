"""Pods are spread by their own constraints, or by default with those that belong together."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert, to_tree
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.api.workloads import Service
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SKIP
from numakube.scheduling.plugins.pod_topology_spread import PodTopologySpread
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
SOFT = {
    "maxSkew": 1,
    "topologyKey": ZONE,
    "whenUnsatisfiable": "ScheduleAnyway",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
HARD = {**SOFT, "whenUnsatisfiable": "DoNotSchedule"}


def cluster() -> Cluster:
    """Two nodes in zone a, one in zone b, and one in no zone."""
    made = Cluster()
    for name, zone in (("a0", "a"), ("a1", "a"), ("b0", "b"), ("bare", "")):
        labels = {HOST: name} | ({ZONE: zone} if zone else {})
        made.set_node(convert(Node, {"metadata": {"name": name, "labels": labels}}))
    return made


def pod(name: str, app: str = "web", *constraints: dict[str, Any]) -> PodInfo:
    """Return a pod of an app."""
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": app}}
    spec = {"containers": [{"name": "c"}], "topologySpreadConstraints": list(constraints)}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": spec}))


def with_service(made: Cluster, app: str = "web") -> None:
    """Let a service say that pods of an app belong together."""
    meta = {"name": "s", "namespace": "default"}
    tree = {"metadata": meta, "spec": {"selector": {"app": app}}}
    made.objects.services["default/s"] = convert(Service, tree)


def scores(plugin: PodTopologySpread, made: Cluster, one: PodInfo) -> dict[str, int] | None:
    """Return how nodes are rated; nothing if they are not."""
    state, snapshot = CycleState(), made.snapshot()
    status = plugin.pre_score(state, one, snapshot, snapshot.rows)
    if status is SKIP:
        return None
    assert status.ok
    raw = plugin.score_all(state, one, snapshot, snapshot.rows)
    each = [plugin.score(state, one, snapshot.at(int(row))) for row in snapshot.rows]
    assert raw.tolist() == each
    rated = plugin.normalize(state, one, raw)
    names = [snapshot.at(int(row)).name for row in snapshot.rows]
    return dict(zip(names, rated.tolist(), strict=True))


def test_a_pod_that_nothing_spreads_is_not_rated() -> None:
    """It has no constraints, and no service or owner says with whom it belongs."""
    made = cluster()
    made.place(pod("other"), "a0")
    assert scores(PodTopologySpread(), made, pod("new")) is None
    with_service(made, "another")
    assert scores(PodTopologySpread(), made, pod("new")) is None
    with_service(made)
    assert scores(PodTopologySpread(), made, pod("new")) is not None


def test_nodes_without_a_key_take_part_in_the_defaults_of_the_system_alone() -> None:
    """Of a pod's own constraints, and of those in a list, they get nothing."""
    made = cluster()
    with_service(made)
    made.place(pod("other"), "a0")
    system = scores(PodTopologySpread(), made, pod("new"))
    assert system is not None
    assert system["bare"] > 0
    assert system["b0"] > system["a1"] > system["a0"]
    own = scores(PodTopologySpread(), made, pod("new", "web", SOFT))
    assert own is not None
    assert own["bare"] == 0
    assert own["b0"] > own["a0"] == own["a1"]
    bare = {key: value for key, value in SOFT.items() if key != "labelSelector"}
    args = {"defaultingType": "List", "defaultConstraints": [bare]}
    assert scores(PodTopologySpread.from_args(args), made, pod("new")) == own


def refused(made: Cluster, one: PodInfo) -> set[str]:
    """Return the nodes that are refused, together and one by one."""
    plugin, state, snapshot = PodTopologySpread(), CycleState(), made.snapshot()
    result = plugin.pre_filter(state, one, snapshot)
    if result.status is SKIP:
        return set()
    assert result.status.ok
    alone = {node.name for node in made.nodes() if not plugin.filter(state, one, node).ok}
    together = plugin.filter_all(state, one, snapshot, snapshot.rows)
    rows = snapshot.rows[:0] if together is None else snapshot.rows[~together.ok]
    assert {snapshot.at(int(row)).name for row in rows} == alone
    return alone


@pytest.mark.parametrize(
    ("there", "skew", "expected"),
    [
        ({}, 1, {"bare"}),
        ({"a0": 1}, 1, {"bare", "a0", "a1"}),
        ({"a0": 1}, 2, {"bare"}),
        ({"a0": 1, "b0": 1}, 1, {"bare"}),
        ({"a0": 2, "b0": 1}, 1, {"bare", "a0", "a1"}),
        ({"bare": 5}, 1, {"bare"}),
    ],
)
def test_a_domain_must_not_have_more_pods_than_the_emptiest_by_the_skew(
    there: dict[str, int], skew: int, expected: set[str]
) -> None:
    """Pods of other apps do not count, nor those outside all domains."""
    made = cluster()
    for node, count in there.items():
        for number in range(count):
            made.place(pod(f"{node}-{number}"), node)
            made.place(pod(f"{node}-{number}-other", "other"), node)
    assert refused(made, pod("new", "web", {**HARD, "maxSkew": skew})) == expected
    assert refused(made, pod("new", "web", SOFT)) == set()


def test_too_few_domains_count_as_an_empty_one() -> None:
    """Three are wanted, and there are two."""
    made = cluster()
    for node in ("a0", "b0"):
        made.place(pod(f"on-{node}"), node)
    assert refused(made, pod("new", "web", {**HARD, "minDomains": 2})) == {"bare"}
    assert refused(made, pod("new", "web", {**HARD, "minDomains": 3})) == {
        "a0", "a1", "b0", "bare"
    }  # fmt: skip


def test_pods_of_one_version_are_spread_by_a_label_that_they_share() -> None:
    """Those of another version do not count."""
    made = cluster()

    def version(name: str, number: str, *constraints: dict[str, Any]) -> PodInfo:
        one = pod(name, "web", *constraints).pod
        labels = {"app": "web", "version": number}
        meta = {"name": name, "namespace": "default", "uid": name, "labels": labels}
        return PodInfo(convert(Pod, {"metadata": meta, "spec": _spec(one)}))

    made.place(version("old", "1"), "a0")
    keyed = {**HARD, "matchLabelKeys": ["version", "absent"]}
    assert refused(made, version("new", "2", keyed)) == {"bare"}
    assert refused(made, version("new", "1", keyed)) == {"bare", "a0", "a1"}


def _spec(one: Pod) -> dict[str, Any]:
    document: dict[str, Any] = to_tree(one)
    spec: dict[str, Any] = document["spec"]
    return spec


@pytest.mark.parametrize(
    ("policy", "selector", "expected"),
    [
        ({}, {}, {"a0", "a1"}),
        ({}, {HOST: "a1"}, set()),
        ({"nodeAffinityPolicy": "Honor"}, {HOST: "a1"}, set()),
        ({"nodeAffinityPolicy": "Ignore"}, {HOST: "a1"}, {"a0", "a1"}),
    ],
)
def test_zones_that_a_pod_may_not_use_do_not_count_unless_it_says_so(
    policy: dict[str, str], selector: dict[str, str], expected: set[str]
) -> None:
    """Zone b is empty; who must be on a1 could not go there."""
    made = cluster()
    made.place(pod("other"), "a0")
    tree = to_tree(pod("new", "web", {**HARD, **policy}).pod)
    tree["spec"]["nodeSelector"] = selector
    assert refused(made, PodInfo(convert(Pod, tree))) - {"bare"} == expected
