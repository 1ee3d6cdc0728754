"""What is counted as pods and nodes come and go equals what a fresh count would give."""

from __future__ import annotations

import gc
import sys
import weakref
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.strategies.clusters import KEYS, ZONE, node, pod, scene

from numakube.api.codec import convert
from numakube.api.meta import LabelSelector
from numakube.api.pod import Pod
from numakube.api.selectors import Selector, selector_of
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.node_columns import MAX_COLUMNS
from numakube.scheduling.snapshot.nodes import HostPort
from numakube.scheduling.snapshot.pod_indexes import (
    MAX_QUERIES,
    MAX_VIEWS,
    ClaimUsers,
    PodCounts,
    PodQuery,
    PodSelection,
    TermCounts,
    TermKind,
    VolumeSlots,
)
from numakube.scheduling.snapshot.pods import PodInfo

APP_A = selector_of(LabelSelector(match_labels={"app": "a"}))
QUERIES = (
    PodQuery((PodSelection(None, Selector()),)),
    PodQuery((PodSelection(frozenset({"default"}), APP_A),)),
    PodQuery((PodSelection(frozenset({"default"}), APP_A),), terminating=False),
    PodQuery((PodSelection(None, APP_A), PodSelection(frozenset({"other"}), Selector()))),
)
PORTS = [
    HostPort(protocol, 80, address)
    for protocol in ("TCP", "UDP")
    for address in ("0.0.0.0", "10.0.0.1")
]


def events(cluster: Cluster, rng: Random) -> None:
    """Let things happen to *cluster*."""
    for step in range(30):
        name = f"n{rng.randrange(5)}"
        match rng.randrange(6):
            case 0:
                cluster.set_node(node(rng, int(name[1:])))
            case 1:
                cluster.remove_node(name)
            case 2:
                cluster.remove_pod(f"p{rng.randrange(8)}")
            case _:
                cluster.place(PodInfo(pod(rng, f"p{rng.randrange(8)}")), name)
        if step % 7 == 0:
            facts(cluster, PodInfo(pod(Random(step), "asks")))


def rebuilt(cluster: Cluster) -> Cluster:
    """A new cluster with the same nodes and pods."""
    other = Cluster()
    for info in cluster.nodes():
        other.set_node(info.node)
        for one in info.pods.values():
            other.place(one, info.name)
    return other


def facts(cluster: Cluster, asking: PodInfo) -> dict[str, object]:
    """Everything that the indexes say, by name of the node."""
    snapshot = cluster.snapshot()
    names = {info.row: info.name for info in snapshot.nodes()}
    found: dict[str, object] = {}
    for number, query in enumerate(QUERIES):
        counts = snapshot.pods.counts.counts(query)
        found[f"query {number}"] = {name: int(counts[row]) for row, name in names.items()}
    view = snapshot.pods.terms.about(asking, {"team": "x"})
    for kind in TermKind:
        for key, sums in view.of(kind):
            for row, name in names.items():
                if sums.hits[row]:
                    found[f"{kind} {key} {name}"] = (int(sums.hits[row]), int(sums.weight[row]))
    for port in PORTS:
        found[f"{port}"] = {names[row] for row in snapshot.pods.ports.taken([port])}
    for key in KEYS:
        column = snapshot.label(key)
        values = [*column.values, None]
        found[key] = {name: values[column.codes[row]] for row, name in names.items()}
    for name in ("app:1", "db:latest"):
        image = snapshot.images.get(name)
        found[name] = {names[row] for row in image.rows} if image is not None else set()
    return found


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32))
def test_indexes_equal_a_fresh_count(seed: int) -> None:
    """After any events, in any order, with questions asked in between."""
    rng = Random(seed)
    cluster, asking = Cluster(), PodInfo(pod(rng, "new"))
    facts(cluster, asking)
    events(cluster, rng)
    assert facts(cluster, asking) == facts(rebuilt(cluster), asking)


def test_a_heartbeat_changes_nothing() -> None:
    """Nodes report every few seconds; what was derived from them must survive that."""
    cluster = scene(1).cluster
    before, snapshot = cluster.nodes_generation, cluster.snapshot()
    info = next(cluster.nodes())
    meta = msgspec.structs.replace(info.node.metadata, resource_version="2")
    cluster.set_node(msgspec.structs.replace(info.node, metadata=meta))
    assert cluster.nodes_generation == before
    assert snapshot.node(info.name) is info
    assert info.node.metadata.resource_version == "2"


def test_more_questions_than_are_kept_are_all_answered() -> None:
    """The answers used last are kept; the others are worked out again."""
    cluster = scene(5).cluster
    counts = cluster.indexes.counts
    queries = [
        PodQuery((PodSelection(frozenset({f"ns{i}", "default"}), Selector()),))
        for i in range(MAX_QUERIES + 5)
    ]
    first = counts.counts(queries[0]).tolist()
    for query in queries:
        assert counts.counts(query).tolist() == first
    assert counts.counts(queries[0]).tolist() == first


def test_nodes_without_pods_are_counted_too() -> None:
    """A large cluster starts empty, and grows while questions are remembered."""
    cluster, rng, placed = Cluster(), Random(7), set[int]()
    for index in range(300):
        cluster.set_node(node(rng, index))
        if index in (10, 70, 299):
            asking = PodInfo(pod(rng, f"p{index}"))
            found = facts(cluster, asking)
            assert found["query 0"] == {f"n{i}": int(i in placed) for i in range(index + 1)}
            cluster.place(asking, f"n{index}")
            placed.add(index)


def test_labels_that_nobody_asks_for_any_more_are_forgotten() -> None:
    """A pod may name any label; the columns of all of them must not pile up."""
    cluster = scene(3).cluster
    for number in range(2 * MAX_COLUMNS):
        cluster.snapshot().label(f"label{number}")
        assert cluster.snapshot().label(ZONE).values == sorted_zones(cluster)
    assert len(cluster.columns) == MAX_COLUMNS


def sorted_zones(cluster: Cluster) -> list[str]:
    """The zones of the nodes in the order in which they were seen."""
    zones = (info.labels.get(ZONE) for info in cluster.nodes())
    return list(dict.fromkeys(zone for zone in zones if zone is not None))


def test_nodes_without_pods_have_no_volumes_however_many_nodes_there_are() -> None:
    """Room for counts is made when pods come."""
    assert not any(map(VolumeSlots().at, range(1000)))


def test_pods_that_are_gone_leave_nothing_behind() -> None:
    """Groups of pods with labels of their own come and go for months."""
    counts = PodCounts()
    asked = PodQuery((PodSelection(None, Selector()),))
    one = PodInfo(pod(Random(1), "p"))
    before = sys.getrefcount(one.labels)
    for row in (1, 2):
        counts.add(one, row)
        counts.add(one, row)
    assert counts.counts(asked)[1:3].tolist() == [2, 2]
    for row in (1, 2):
        counts.remove(one, row)
        counts.remove(one, row)
    assert not counts.counts(asked).any()
    after = sys.getrefcount(one.labels)
    assert after == before


# ------------------------------------------------------------------------------------------------
# What running pods ask of others near them, added up for each kind of pod that comes.

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def term(app: str, key: str = "zone") -> dict[str, Any]:
    """Return a term about pods of an app."""
    return {"topologyKey": key, "labelSelector": {"matchLabels": {"app": app}}}


def app_pod(name: str, **affinity: Any) -> PodInfo:
    """Return a pod of the app *name* with these terms."""
    meta = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name}}
    spec = {"containers": [{"name": "c"}], "affinity": affinity}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": spec}))


def preferring(name: str, app: str, weight: int) -> PodInfo:
    """Return a pod that prefers to be near to an app."""
    return app_pod(
        name, podAffinity={PREFERRED: [{"weight": weight, "podAffinityTerm": term(app)}]}
    )


def requiring(name: str, app: str, kind: str = "podAffinity") -> PodInfo:
    """Return a pod that has to be near to an app, or far from it."""
    return app_pod(name, **{kind: {REQUIRED: [term(app)]}})


def sums(counts: TermCounts, app: str, kind: TermKind) -> dict[int, tuple[int, int]]:
    """Return how many terms are about an app at each row, and their weight."""
    found = dict(counts.about(app_pod(app), {}).of(kind))
    assert set(found) <= {"zone"}
    if not found:
        return {}
    one = found["zone"]
    pairs = zip(one.hits.tolist(), one.weight.tolist(), strict=True)
    return {row: pair for row, pair in enumerate(pairs) if any(pair)}


@pytest.mark.parametrize("asked_before", [True, False])
def test_preferences_are_added_up_by_their_weight_and_the_rest_by_number(
    asked_before: bool,
) -> None:
    """Whether pods come before or after somebody asks; what goes is taken off again."""
    counts = TermCounts()
    if asked_before:
        assert sums(counts, "db", TermKind.PREFERENCE) == {}
    running = [
        (preferring("a", "db", 10), 1),
        (preferring("b", "db", 5), 1),
        (preferring("c", "db", 5), 2),
        (preferring("d", "web", 7), 2),
        (requiring("e", "db"), 2),
        (requiring("f", "db"), 2),
        (requiring("g", "db", "podAntiAffinity"), 3),
    ]
    for one, row in running:
        counts.add(one, row)
    assert sums(counts, "db", TermKind.PREFERENCE) == {1: (2, 15), 2: (1, 5)}
    assert sums(counts, "web", TermKind.PREFERENCE) == {2: (1, 7)}
    assert sums(counts, "db", TermKind.AFFINITY) == {2: (2, 2)}
    assert sums(counts, "db", TermKind.ANTI_AFFINITY) == {3: (1, 1)}
    assert sums(counts, "other", TermKind.AFFINITY) == {}
    for one, row in running[:2]:
        counts.remove(one, row)
    assert sums(counts, "db", TermKind.PREFERENCE) == {2: (1, 5)}
    assert not counts.is_empty
    for one, row in running[2:]:
        counts.remove(one, row)
    assert counts.is_empty
    assert sums(counts, "db", TermKind.PREFERENCE) == {}


def test_what_is_known_grows_with_the_nodes() -> None:
    """Of those before nothing is lost, and weights stay apart from numbers."""
    counts = TermCounts()
    counts.add(preferring("a", "db", 10), 0)
    counts.add(requiring("b", "db"), 1)
    assert sums(counts, "db", TermKind.PREFERENCE) == {0: (1, 10)}
    last = len(next(counts.about(app_pod("db"), {}).of(TermKind.PREFERENCE))[1].hits)
    counts.reserve(last - 1)
    assert len(next(counts.about(app_pod("db"), {}).of(TermKind.PREFERENCE))[1].hits) == last
    counts.reserve(5 * last)
    for row in (last, 5 * last):
        counts.add(preferring("c", "db", 3), row)
        counts.add(requiring("d", "db"), row)
    assert sums(counts, "db", TermKind.PREFERENCE) == {0: (1, 10), last: (1, 3), 5 * last: (1, 3)}
    assert sums(counts, "db", TermKind.AFFINITY) == {1: (1, 1), last: (1, 1), 5 * last: (1, 1)}


def test_the_kind_of_pods_that_was_asked_about_longest_ago_is_forgotten() -> None:
    """It is added up anew when it comes again."""
    counts = TermCounts()
    counts.add(requiring("a", "app-0"), 1)
    first, second = counts.about(app_pod("app-0"), {}), counts.about(app_pod("app-1"), {})
    for number in range(2, MAX_VIEWS):
        counts.about(app_pod(f"app-{number}"), {})
    assert counts.about(app_pod("app-0"), {}) is first
    counts.about(app_pod("one more"), {})
    assert counts.about(app_pod("app-0"), {}) is first
    assert counts.about(app_pod("app-1"), {}) is not second
    for number in range(MAX_VIEWS):
        counts.about(app_pod(f"new-{number}"), {})
    counts.add(requiring("b", "app-0"), 1)
    assert sums(counts, "app-0", TermKind.AFFINITY) == {1: (2, 2)}


def test_what_is_forgotten_is_kept_alive_by_no_term() -> None:
    """There may be thousands of kinds of pods, one after the other."""

    class Watched(PodInfo):
        __slots__ = ("__weakref__",)

    counts = TermCounts()
    counts.add(requiring("a", "app-0"), 1)
    watched = Watched(app_pod("app-0").pod)
    counts.about(watched, {})
    gone = weakref.ref(watched)
    del watched
    for number in range(MAX_VIEWS):
        counts.about(app_pod(f"new-{number}"), {})
    gc.collect()
    assert gone() is None


def with_claims(*names: str) -> PodInfo:
    """A pod that uses claims."""
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]
    meta = {"name": "p", "namespace": "default", "uid": "p"}
    spec = {"containers": [{"name": "c"}], "volumes": volumes}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": spec}))


@pytest.mark.parametrize("row", [0, 63, 64, 127, 128, 1000])
def test_volumes_are_counted_on_every_node(row: int) -> None:
    """Also on one for which there was no room yet, and nothing is lost of the others."""
    slots = VolumeSlots()
    slots.add(with_claims("a", "b"), 0)
    slots.add(with_claims("c"), row)
    expected = {0: 2, row: 1} if row else {0: 3}
    assert {at: slots.at(at) for at in range(1100) if slots.at(at)} == expected
    slots.remove(with_claims("c"), row)
    assert {at: slots.at(at) for at in range(1100) if slots.at(at)} == {0: 2}


def test_a_claim_is_used_until_its_last_pod_is_gone() -> None:
    """Claims of other names and namespaces are not."""
    users = ClaimUsers()
    users.add(with_claims("a", "b"))
    users.add(with_claims("a"))
    users.remove(with_claims("a"))
    used = {key: users.is_used(f"default/{key}") for key in "abc"}
    assert used == {"a": True, "b": True, "c": False}
    assert not users.is_used("other/a")
    users.remove(with_claims("a", "b"))
    assert not users.is_used("default/a")
    assert not users.is_used("default/b")
