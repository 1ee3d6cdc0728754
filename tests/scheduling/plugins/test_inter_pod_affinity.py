"""Pods are placed near those that they want, far from others, and where others want them."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SKIP, Code
from numakube.scheduling.plugins.inter_pod_affinity import (
    NOT_FAR,
    NOT_NEAR,
    UNWELCOME,
    InterPodAffinity,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
NODES = ("a0", "a1", "b0", "bare")
Affinity = dict[str, Any]


def term(app: str, key: str = ZONE, **more: Any) -> dict[str, Any]:
    """Return a term about the pods of an app."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}, **more}


def near(*terms: dict[str, Any]) -> Affinity:
    return {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def far(*terms: dict[str, Any]) -> Affinity:
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": list(terms)}}


def prefers(kind: str, *terms: tuple[int, dict[str, Any]]) -> Affinity:
    listed = [{"weight": weight, "podAffinityTerm": one} for weight, one in terms]
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": listed}}


def pod(
    name: str = "new",
    app: str = "web",
    affinity: Affinity | None = None,
    namespace: str = "default",
) -> PodInfo:
    """Return a pod of an app."""
    meta = {"name": name, "namespace": namespace, "uid": name, "labels": {"app": app}}
    spec = {"containers": [{"name": "c"}], "affinity": affinity or {}}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": spec}))


def cluster(*running: tuple[str, PodInfo]) -> Cluster:
    """Two nodes in zone a, one in zone b, and one in no zone, on which these pods run."""
    made = Cluster()
    for name in NODES:
        labels = {HOST: name} | ({} if name == "bare" else {ZONE: name[0]})
        made.set_node(convert(Node, {"metadata": {"name": name, "labels": labels}}))
    made.objects.namespace_labels.update({"default": {}, "other": {"team": "x"}})
    for number, (node, one) in enumerate(running):
        named = pod(f"p{number}", one.labels["app"], namespace=one.namespace)
        spec = one.pod.spec
        made.place(PodInfo(Pod(metadata=named.pod.metadata, spec=spec)), node)
    return made


def said(made: Cluster, one: PodInfo, plugin: InterPodAffinity | None = None) -> dict[str, str]:
    """Return why nodes are refused, together and one by one, and those that are not as empty."""
    plugin, state, snapshot = plugin or InterPodAffinity(), CycleState(), made.snapshot()
    result = plugin.pre_filter(state, one, snapshot)
    if result.status is SKIP:
        return dict.fromkeys(NODES, "")
    assert result.status.ok
    alone = {node.name: plugin.filter(state, one, node) for node in made.nodes()}
    together = plugin.filter_all(state, one, snapshot, snapshot.rows)
    for position, row in enumerate(snapshot.rows):
        if together is None:
            assert alone[snapshot.at(int(row)).name].ok
        else:
            assert alone[snapshot.at(int(row)).name] == together.status(position)
    return {name: status.message for name, status in alone.items()}


def rated(made: Cluster, one: PodInfo, **args: Any) -> tuple[dict[str, int], dict[str, int]] | None:
    """Return what nodes are worth, and their scores; nothing if they are not rated."""
    plugin, state, snapshot = InterPodAffinity.from_args(args), CycleState(), made.snapshot()
    status = plugin.pre_score(state, one, snapshot, snapshot.rows)
    if status is SKIP:
        return None
    assert status.ok
    raw = plugin.score_all(state, one, snapshot, snapshot.rows)
    names = [snapshot.at(int(row)).name for row in snapshot.rows]
    nodes = {node.name: node for node in made.nodes()}
    assert raw.tolist() == [plugin.score(state, one, nodes[name]) for name in names]
    scores = plugin.normalize(state, one, raw)
    return (
        dict(zip(names, raw.tolist(), strict=True)),
        dict(zip(names, scores.tolist(), strict=True)),
    )


N, F, U = NOT_NEAR.message, NOT_FAR.message, UNWELCOME.message


@pytest.mark.parametrize(
    ("running", "affinity", "expected"),
    [
        ([], None, ("", "", "", "")),
        ([("a0", pod(app="db"))], near(term("db")), ("", "", N, N)),
        ([("a0", pod(app="db"))], near(term("db", HOST)), ("", N, N, N)),
        ([("a0", pod(app="db"))], near(term("cache")), (N, N, N, N)),
        ([("bare", pod(app="db"))], near(term("db")), (N, N, N, N)),
        ([("a0", pod(app="db", namespace="other"))], near(term("db")), (N, N, N, N)),
        (
            [("a0", pod(app="db", namespace="other"))],
            near(term("db", namespaces=["other"])),
            ("", "", N, N),
        ),
        (
            [("a0", pod(app="db", namespace="other"))],
            near(term("db", namespaceSelector={"matchLabels": {"team": "x"}})),
            ("", "", N, N),
        ),
        (
            [("a0", pod(app="db", namespace="other"))],
            near(term("db", namespaceSelector={"matchLabels": {"team": "y"}})),
            (N, N, N, N),
        ),
        ([], near(term("web")), ("", "", "", N)),
        ([("a0", pod(app="web"))], near(term("web")), ("", "", N, N)),
        ([], near(term("web"), term("db")), (N, N, N, N)),
        (
            [("a0", pod(app="db")), ("b0", pod(app="db"))],
            near(term("db"), term("db", HOST)),
            ("", N, "", N),
        ),
        ([("a0", pod(app="db"))], far(term("db")), (F, F, "", "")),
        ([("a0", pod(app="db"))], far(term("db", HOST)), (F, "", "", "")),
        ([("bare", pod(app="db"))], far(term("db")), ("", "", "", "")),
        ([("a0", pod(app="db", affinity=far(term("web"))))], None, (U, U, "", "")),
        ([("a0", pod(app="db", affinity=far(term("db"))))], None, ("", "", "", "")),
        (
            [("a0", pod(app="db", affinity=far(term("web", HOST))))],
            {**near(term("db")), **far(term("db", HOST))},
            (F, "", N, N),
        ),
    ],
)
def test_a_node_is_refused_by_the_first_of_three_rules_that_it_breaks(
    running: list[tuple[str, PodInfo]], affinity: Affinity | None, expected: tuple[str, ...]
) -> None:
    """The first pod of an affinity to itself may go wherever the topology key is."""
    made = cluster(*running)
    assert said(made, pod(affinity=affinity)) == dict(zip(NODES, expected, strict=True))


def test_refusals_for_want_of_others_are_not_mended_by_evictions() -> None:
    assert NOT_NEAR.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert NOT_FAR.code is UNWELCOME.code is Code.UNSCHEDULABLE


NEAR_DB = prefers("podAffinity", (10, term("db")))
NOT_DB = prefers("podAntiAffinity", (10, term("db")))
DB = ("a0", pod(app="db"))


@pytest.mark.parametrize(
    ("running", "affinity", "worth", "scores"),
    [
        ([DB], NEAR_DB, (10, 10, 0, 0), (100, 100, 0, 0)),
        ([DB, DB], NEAR_DB, (20, 20, 0, 0), (100, 100, 0, 0)),
        ([DB, DB, ("b0", pod(app="db"))], NEAR_DB, (20, 20, 10, 0), (100, 100, 50, 0)),
        ([DB], NOT_DB, (-10, -10, 0, 0), (0, 0, 100, 100)),
        (
            [DB],
            prefers("podAffinity", (10, term("db")), (5, term("db", HOST))),
            (15, 10, 0, 0),
            (100, 66, 0, 0),
        ),
        (
            [DB],
            {**NEAR_DB, **prefers("podAntiAffinity", (4, term("db", HOST)))},
            (6, 10, 0, 0),
            (60, 100, 0, 0),
        ),
        (
            [("b0", pod(app="db", affinity=prefers("podAffinity", (7, term("web")))))],
            None,
            (0, 0, 7, 0),
            (0, 0, 100, 0),
        ),
        (
            [("b0", pod(app="db", affinity=prefers("podAntiAffinity", (7, term("web")))))],
            None,
            (0, 0, -7, 0),
            (100, 100, 0, 100),
        ),
        (
            [("b0", pod(app="db", affinity=near(term("web"))))],
            None,
            (0, 0, 1, 0),
            (0, 0, 100, 0),
        ),
    ],
)
def test_nodes_are_worth_what_both_sides_prefer_and_scores_reach_from_none_to_all(
    running: list[tuple[str, PodInfo]],
    affinity: Affinity | None,
    worth: tuple[int, ...],
    scores: tuple[int, ...],
) -> None:
    found = rated(cluster(*running), pod(affinity=affinity))
    assert found is not None
    assert found[0] == dict(zip(NODES, worth, strict=True))
    assert found[1] == dict(zip(NODES, scores, strict=True))


@pytest.mark.parametrize(
    ("running", "affinity"),
    [
        ([], None),
        ([], NEAR_DB),
        ([("bare", pod(app="db"))], NEAR_DB),
        ([("a0", pod(app="db", affinity=prefers("podAffinity", (7, term("db")))))], None),
    ],
)
def test_where_no_preference_is_about_anybody_nodes_are_not_rated(
    running: list[tuple[str, PodInfo]], affinity: Affinity | None
) -> None:
    assert rated(cluster(*running), pod(affinity=affinity)) is None


def test_nodes_that_are_worth_the_same_get_nothing() -> None:
    running = [(node, pod(app="db")) for node in NODES]
    found = rated(cluster(*running), pod(affinity=prefers("podAffinity", (3, term("db", HOST)))))
    assert found == (dict.fromkeys(NODES, 3), dict.fromkeys(NODES, 0))


def test_how_much_the_required_affinity_of_others_counts_can_be_set() -> None:
    """To nothing as well; and preferences of others can be left out, but not the pod's own."""
    made = cluster(("b0", pod(app="db", affinity=near(term("web")))))
    found = rated(made, pod(), hardPodAffinityWeight=5)
    assert found is not None
    assert found[0]["b0"] == 5
    assert rated(made, pod(), hardPodAffinityWeight=0) is None
    assert rated(made, pod(), ignorePreferredTermsOfExistingPods=True) is None
    own = pod(affinity=NEAR_DB)
    kept = rated(made, own, hardPodAffinityWeight=0, ignorePreferredTermsOfExistingPods=True)
    assert kept is not None
    assert kept[0]["b0"] == 10


def test_pods_that_come_and_go_in_thought_count() -> None:
    """For what the pod asks for, and for what they ask for."""
    made = cluster(DB)
    plugin, state, snapshot = InterPodAffinity(), CycleState(), made.snapshot()
    one = pod(affinity={**near(term("db")), **far(term("cache", HOST))})
    assert plugin.pre_filter(state, one, snapshot).status.ok
    nodes = {node.name: node for node in made.nodes()}
    other = pod("other", "db", far(term("web", HOST)))
    cache = pod("cache", "cache")
    plugin.add_pod(state, one, other, nodes["b0"])
    assert plugin.filter(state, one, nodes["b0"]) is UNWELCOME
    plugin.remove_pod(state, one, other, nodes["b0"])
    assert plugin.filter(state, one, nodes["b0"]) is NOT_NEAR
    plugin.add_pod(state, one, cache, nodes["a0"])
    assert plugin.filter(state, one, nodes["a0"]) is NOT_FAR
    assert plugin.filter(state, one, nodes["a1"]).ok
    plugin.remove_pod(state, one, cache, nodes["a0"])
    assert plugin.filter(state, one, nodes["a0"]).ok
