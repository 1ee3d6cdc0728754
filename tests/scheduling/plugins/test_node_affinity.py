"""NodeAffinity: what a pod asks of nodes, and what the scheduler's configuration adds."""

from __future__ import annotations

import numpy as np
import pytest

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SKIP, SUCCESS, Code
from numakube.scheduling.plugins.node_affinity import (
    CONFLICT,
    NOT_ENFORCED,
    NOT_MATCHED,
    NodeAffinity,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
ZONES = {"n0": "a", "n1": "b", "n2": ""}


def labelled(key: str, *values: str) -> dict[str, object]:
    """A term about a label."""
    return {"matchExpressions": [{"key": key, "operator": "In", "values": list(values)}]}


def named(*fields: tuple[str, ...], operator: str = "In") -> dict[str, object]:
    """A term with a field for each list of names."""
    return {
        "matchFields": [
            {"key": "metadata.name", "operator": operator, "values": list(names)}
            for names in fields
        ]
    }


def weighted(weight: int, term: dict[str, object]) -> dict[str, object]:
    """A preferred term."""
    return {"weight": weight, "preference": term}


def pod(
    *terms: dict[str, object], prefers: tuple[dict[str, object], ...] = (), zone: str = ""
) -> PodInfo:
    """A pod with required and preferred terms."""
    affinity: dict[str, object] = {PREFERRED: list(prefers)}
    if terms:
        affinity[REQUIRED] = {"nodeSelectorTerms": list(terms)}
    spec = {"affinity": {"nodeAffinity": affinity}, "nodeSelector": {"zone": zone} if zone else {}}
    return PodInfo(convert(Pod, {"metadata": {"name": "p", "namespace": "d"}, "spec": spec}))


@pytest.fixture
def cluster() -> Cluster:
    """Three nodes, of which one has no zone."""
    made = Cluster()
    for name, zone in ZONES.items():
        labels = {"zone": zone} if zone else {}
        made.set_node(convert(Node, {"metadata": {"name": name, "labels": labels}}))
    return made


NOTHING: dict[str, object] = {}
BOTH = {"n0": 3, "n1": 7}


@pytest.mark.parametrize(
    ("one", "names"),
    [
        (pod(named(("n0",))), {"n0"}),
        (pod(named(("n0",)), named(("n2",))), {"n0", "n2"}),
        (pod(named(("n0",)) | labelled("zone", "a")), {"n0"}),
        (pod(named(("n0",)), labelled("zone", "a")), None),
        (pod(named(("n0",), operator="NotIn")), None),
        (pod(named(("n0",), ("n0",))), {"n0"}),
        (pod(labelled("zone", "a")), None),
        (pod(zone="a"), None),
    ],
)
def test_only_nodes_that_all_terms_name_are_looked_at(
    one: PodInfo, names: set[str] | None, cluster: Cluster
) -> None:
    """A term that names none may match any."""
    result = NodeAffinity().pre_filter(CycleState(), one, cluster.snapshot())
    assert (result.status, result.nodes) == (SUCCESS, names)


def test_names_that_exclude_each_other_are_a_conflict(cluster: Cluster) -> None:
    """No node has two names."""
    one = pod(named(("n0",), ("n1",)))
    result = NodeAffinity().pre_filter(CycleState(), one, cluster.snapshot())
    assert result.status is CONFLICT


def test_a_pod_that_asks_nothing_is_skipped_unless_something_is_enforced(cluster: Cluster) -> None:
    """The configuration may add terms for all."""
    snapshot = cluster.snapshot()
    added = {"addedAffinity": {REQUIRED: {"nodeSelectorTerms": [labelled("zone", "a")]}}}
    assert NodeAffinity().pre_filter(CycleState(), pod(), snapshot).status is SKIP
    enforcing = NodeAffinity.from_args(added)
    assert enforcing.pre_filter(CycleState(), pod(), snapshot).status is SUCCESS


@pytest.mark.parametrize(
    ("enforced", "one", "expected"),
    [
        (None, pod(), (SUCCESS, SUCCESS, SUCCESS)),
        (None, pod(zone="a"), (SUCCESS, NOT_MATCHED, NOT_MATCHED)),
        (None, pod(labelled("zone", "a", "b")), (SUCCESS, SUCCESS, NOT_MATCHED)),
        ("a", pod(), (SUCCESS, NOT_ENFORCED, NOT_ENFORCED)),
        ("a", pod(zone="b"), (NOT_MATCHED, NOT_ENFORCED, NOT_ENFORCED)),
    ],
)
def test_what_is_enforced_is_looked_at_first(
    enforced: str | None, one: PodInfo, expected: tuple[object, ...], cluster: Cluster
) -> None:
    """One by one and all at once; and a node that changes wakes a pod if it matches both."""
    terms = {"nodeSelectorTerms": [labelled("zone", enforced)]} if enforced else None
    plugin = NodeAffinity.from_args({"addedAffinity": {REQUIRED: terms}} if terms else {})
    snapshot = cluster.snapshot()
    together = plugin.filter_all(CycleState(), one, snapshot, snapshot.rows)
    assert (together is None) == all(status is SUCCESS for status in expected)
    for name, status in zip(ZONES, expected, strict=True):
        node = snapshot.node(name)
        assert node is not None
        assert plugin.filter(CycleState(), one, node) == status
        if together is not None:
            position = snapshot.rows.tolist().index(node.row)
            assert together.status(position) == status
        event = ClusterEvent(kind=EventKind.NODE_UPDATED, node=name, node_info=node)
        assert plugin.wakes(one, event) == (status is SUCCESS)
    assert plugin.wakes(one, ClusterEvent(kind=EventKind.NODE_ADDED))


@pytest.mark.parametrize(
    ("added", "own", "expected"),
    [
        ((), (weighted(3, labelled("zone", "a")),), {"n0": 3}),
        ((), (weighted(3, labelled("zone", "a", "b")), weighted(4, named(("n1",)))), BOTH),
        ((weighted(5, labelled("zone", "b")),), (), {"n1": 5}),
        ((weighted(5, labelled("zone", "b")),), (weighted(2, named(("n1",))),), {"n1": 7}),
        ((), (weighted(3, NOTHING),), {}),
    ],
)
def test_preferences_add_up(
    added: tuple[dict[str, object], ...],
    own: tuple[dict[str, object], ...],
    expected: dict[str, int],
    cluster: Cluster,
) -> None:
    """Those of the pod and those of the configuration; the best gets 100."""
    plugin = NodeAffinity.from_args({"addedAffinity": {PREFERRED: list(added)}})
    state, one, snapshot = CycleState(), pod(prefers=own), cluster.snapshot()
    assert plugin.pre_score(state, one, snapshot, snapshot.rows) is SUCCESS
    names = [snapshot.at(int(row)).name for row in snapshot.rows]
    wanted = [expected.get(name, 0) for name in names]
    scores = plugin.score_all(state, one, snapshot, snapshot.rows)
    assert scores.tolist() == wanted
    assert [plugin.score(state, one, snapshot.at(int(row))) for row in snapshot.rows] == wanted
    largest = max(wanted)
    shares = [100 * score // largest if largest else 0 for score in wanted]
    assert plugin.normalize(state, one, scores).tolist() == shares
    assert plugin.normalize(state, one, np.array([], dtype=np.int64)).tolist() == []


def test_a_pod_without_preferences_is_not_rated(cluster: Cluster) -> None:
    """One whose preferences cannot be read is not placed."""
    snapshot = cluster.snapshot()
    assert NodeAffinity().pre_score(CycleState(), pod(), snapshot, snapshot.rows) is SKIP
    broken: dict[str, object] = {
        "matchExpressions": [{"key": "zone", "operator": "Like", "values": ["a"]}]
    }
    one = pod(prefers=(weighted(1, broken),))
    status = NodeAffinity().pre_score(CycleState(), one, snapshot, snapshot.rows)
    assert status.code is Code.ERROR
    assert "Like" in status.message


def test_pods_are_alike_if_they_select_the_same_nodes() -> None:
    """By selector and by affinity."""
    plugin = NodeAffinity()
    kinds = [pod(), pod(zone="a"), pod(labelled("zone", "a")), pod(named(("n0",)))]
    assert len({plugin.likeness(one) for one in kinds}) == len(kinds)
    assert plugin.likeness(pod(zone="a")) == plugin.likeness(pod(zone="a"))
