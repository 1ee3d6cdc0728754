"""Pods are near to and far from others as Kubernetes' documentation says, pod by pod."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.nodes import Node
from numakube.api.pod import Pod
from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.status import SKIP, SUCCESS, Status
from numakube.scheduling.plugins.inter_pod_affinity import (
    NOT_FAR,
    NOT_NEAR,
    UNWELCOME,
    InterPodAffinity,
)
from numakube.scheduling.snapshot.cluster import Cluster
from numakube.scheduling.snapshot.pods import PodInfo

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
NAMESPACES = {"d": {"team": "x"}, "e": {}}
NEAR, FAR = "podAffinity", "podAntiAffinity"

terms = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(("zone", "rack"))},
    optional={
        "labelSelector": st.sampled_from(
            ({"matchLabels": {"app": "a"}}, {"matchLabels": {"app": "a"}}, {})
        ),
        "namespaces": st.sampled_from((["d"], ["e"])),
        "namespaceSelector": st.sampled_from(({}, {"matchLabels": {"team": "x"}})),
    },
)
weighted = st.fixed_dictionaries({"weight": st.integers(1, 9), "podAffinityTerm": terms})
affinities = st.fixed_dictionaries(
    {},
    optional={
        kind: st.fixed_dictionaries(
            {},
            optional={
                REQUIRED: st.lists(terms, min_size=1, max_size=2),
                PREFERRED: st.lists(weighted, min_size=1, max_size=2),
            },
        )
        for kind in (NEAR, FAR)
    },
)
pods = st.fixed_dictionaries(
    {
        "app": st.sampled_from("ab"),
        "namespace": st.sampled_from("de"),
        "affinity": st.just({}) | affinities,
    }
)
nodes = st.lists(
    st.tuples(
        st.dictionaries(st.sampled_from(("zone", "rack")), st.sampled_from("xy")),
        st.lists(pods, max_size=3),
    ),
    min_size=1,
    max_size=4,
)
Told = dict[str, Any]


def pod_of(name: str, told: Told) -> PodInfo:
    """Return a pod."""
    meta = {
        "name": name,
        "namespace": told["namespace"],
        "uid": name,
        "labels": {"app": told["app"]},
    }
    spec = {"containers": [{"name": "c"}], "affinity": told["affinity"]}
    return PodInfo(convert(Pod, {"metadata": meta, "spec": spec}))


def about(term: Told, owner: Told, pod: Told) -> bool:
    """Say whether a term of *owner* is about a pod."""
    listed, selector = set(term.get("namespaces", ())), term.get("namespaceSelector")
    if selector is not None:
        wanted = selector.get("matchLabels", {}).items()
        listed |= {name for name, labels in NAMESPACES.items() if wanted <= labels.items()}
    elif not listed:
        listed = {owner["namespace"]}
    if "labelSelector" not in term or pod["namespace"] not in listed:
        return False
    labels = {"app": pod["app"]}
    return bool(term["labelSelector"].get("matchLabels", {}).items() <= labels.items())


def required(pod: Told, kind: str) -> list[Told]:
    """Return the required terms of a pod."""
    found: list[Told] = pod["affinity"].get(kind, {}).get(REQUIRED, [])
    return found


def preferred(pod: Told) -> list[tuple[int, Told]]:
    """Return the preferred terms of a pod, those for distance with a negative weight."""
    return [
        (sign * one["weight"], one["podAffinityTerm"])
        for kind, sign in ((NEAR, 1), (FAR, -1))
        for one in pod["affinity"].get(kind, {}).get(PREFERRED, [])
    ]


@dataclass
class Reference:
    """What terms mean, in plain loops."""

    nodes: list[tuple[Told, list[Told]]]
    new: Told

    def beside(self, labels: Told, key: str) -> list[Told]:
        """Return the pods in the same domain."""
        if key not in labels:
            return []
        return [
            pod for other, there in self.nodes for pod in there if other.get(key) == labels[key]
        ]

    def verdict(self, labels: Told) -> Status:
        """Say whether the pod may come to a node with these labels."""
        near = required(self.new, NEAR)
        wanted = [
            (other, pod)
            for other, there in self.nodes
            for pod in there
            if near and all(about(term, self.new, pod) for term in near)
        ]
        keys = [term["topologyKey"] for term in near]
        if any(key not in labels for key in keys):
            return NOT_NEAR
        alone = not any(key in other for other, _ in wanted for key in keys)
        first = alone and all(about(term, self.new, self.new) for term in near)
        for key in keys:
            if not first and all(other.get(key) != labels[key] for other, _ in wanted):
                return NOT_NEAR
        for term in required(self.new, FAR):
            if any(about(term, self.new, pod) for pod in self.beside(labels, term["topologyKey"])):
                return NOT_FAR
        for key in ("zone", "rack"):
            for pod in self.beside(labels, key):
                for term in required(pod, FAR):
                    if term["topologyKey"] == key and about(term, pod, self.new):
                        return UNWELCOME
        return SUCCESS

    def score(self, labels: Told, hard: int, *, ignores: bool) -> int:
        """Add up what pods in the same domains are worth."""
        own = preferred(self.new)
        if ignores and not own:
            return 0
        total = 0
        for key in ("zone", "rack"):
            for pod in self.beside(labels, key):
                for weight, term in own:
                    if term["topologyKey"] == key and about(term, self.new, pod):
                        total += weight
                for weight, term in preferred(pod):
                    if term["topologyKey"] == key and about(term, pod, self.new):
                        total += weight
                for term in required(pod, NEAR):
                    if term["topologyKey"] == key and about(term, pod, self.new):
                        total += hard
        return total


def verdicts(
    plugin: InterPodAffinity, state: CycleState, cluster: Cluster, one: PodInfo
) -> list[Status]:
    """Return what is said of each node, the same one by one and all at once."""
    snapshot = cluster.snapshot()
    together = plugin.filter_all(state, one, snapshot, snapshot.rows)
    alone = [plugin.filter(state, one, snapshot.at(int(row))) for row in snapshot.rows]
    assert (together is None) == all(status.ok for status in alone)
    if together is not None:
        assert [together.status(at) for at in range(len(alone))] == alone
    return alone


@settings(max_examples=100)
@given(nodes, pods, st.integers(0, 3), st.booleans())
def test_terms_mean_what_is_written(
    there: list[tuple[Told, list[Told]]], told: Told, hard: int, ignores: bool
) -> None:
    """For the filter and for the score, and when pods come and go on trial."""
    cluster, reference = Cluster(), Reference(there, told)
    cluster.objects.namespace_labels.update(NAMESPACES)
    for at, (labels, here) in enumerate(there):
        cluster.set_node(convert(Node, {"metadata": {"name": f"n{at}", "labels": labels}}))
        for number, pod in enumerate(here):
            cluster.place(pod_of(f"p{at}-{number}", pod), f"n{at}")
    args = {"hardPodAffinityWeight": hard, "ignorePreferredTermsOfExistingPods": ignores}
    plugin, one, state = InterPodAffinity.from_args(args), pod_of("new", told), CycleState()
    snapshot = cluster.snapshot()
    expected = [reference.verdict(labels) for labels, _ in there]
    result = plugin.pre_filter(state, one, snapshot)
    assert result.status in (SKIP, SUCCESS)
    assert verdicts(plugin, state, cluster, one) == expected
    if result.status is SUCCESS:
        info, trial = snapshot.at(int(snapshot.rows[0])), state.clone()
        guest = {"app": "a", "namespace": "d", "affinity": {FAR: {REQUIRED: [GUESTS_TERM]}}}
        plugin.add_pod(trial, one, pod_of("guest", guest), info)
        there[0][1].append(guest)
        after = [reference.verdict(labels) for labels, _ in there]
        assert verdicts(plugin, trial, cluster, one) == after
        there[0][1].pop()
        plugin.remove_pod(trial, one, pod_of("guest", guest), info)
        assert verdicts(plugin, trial, cluster, one) == expected
        assert verdicts(plugin, state, cluster, one) == expected
    scores = [reference.score(labels, hard, ignores=ignores) for labels, _ in there]
    if plugin.pre_score(state, one, snapshot, snapshot.rows) is SKIP:
        assert not any(scores)
        return
    raw = plugin.score_all(state, one, snapshot, snapshot.rows)
    assert raw.tolist() == scores
    assert [plugin.score(state, one, snapshot.at(int(row))) for row in snapshot.rows] == scores
    least, most = min(scores), max(scores)
    shares = [
        int(100.0 * ((score - least) / (most - least))) if most > least else 0 for score in scores
    ]
    assert plugin.normalize(state, one, raw).tolist() == shares


GUESTS_TERM = {"topologyKey": "zone", "labelSelector": {}, "namespaces": ["d"]}
