"""What is known of one node is believed of others in the same state, and of no others."""

from __future__ import annotations

from typing import Any, cast

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.scheduling.numa.caches.reported_node import ReportedNode, machine, pod

from numakube.kubelet.admission_outcome import Rejected
from numakube.scheduling.numa.caches.kubelet_states import LearntArrival, SharedState
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pod_equivalence import kubelet_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.model_report import report_of

SHAPES: tuple[dict[str, Any], ...] = (
    {"cpus": 2, "memory_gib": 1},
    {"cpus": 3, "memory_gib": 6, "gpus": 1},
    {"cpus": 1, "memory_gib": 2, "containers": 2},
    {"cpus": 0.5, "guaranteed": False},
)
NODES = ("n0", "n1", "n2")
_ARRIVALS = st.lists(st.tuples(st.sampled_from(NODES), st.sampled_from(SHAPES)), max_size=16)


def _belief(cache: Predict, node: str) -> ExactBelief:
    belief = cache.belief(node)
    assert isinstance(belief, ExactBelief)
    return belief


def _alone(site: ReportedNode, pods: list[PodInfo]) -> ExactBelief:
    """What a cache believes that knows no other node, and has not been asked anything."""
    cache = Predict()
    cache.set_report(site.report())
    for one in pods:
        cache.reserve(one, site.name)
    return _belief(cache, site.name)


@settings(max_examples=60, deadline=None)
@given(
    policy=st.sampled_from(("none", "best-effort", "restricted", "single-numa-node")),
    cores=st.sampled_from(((4, 4, 4), (4, 4, 2))),
    reported=_ARRIVALS,
    coming=_ARRIVALS,
)
def test_a_node_is_believed_to_be_what_it_would_be_alone(
    policy: str,
    cores: tuple[int, int, int],
    reported: list[tuple[str, dict[str, Any]]],
    coming: list[tuple[str, dict[str, Any]]],
) -> None:
    """Whatever other nodes have reported, and whatever pods have come to them."""
    sites = {
        name: ReportedNode.make(name, policy=policy, on=machine(cores=count))
        for name, count in zip(NODES, cores, strict=True)
    }
    for number, (name, shape) in enumerate(reported):
        sites[name].admit(pod(f"there-{number}", **shape))
    shared = Predict()
    for site in sites.values():
        shared.set_report(site.report())
    came: dict[str, list[PodInfo]] = {name: [] for name in NODES}
    for number, (name, shape) in enumerate(coming):
        one = PodInfo(pod(f"new-{number}", **shape))
        alone = _alone(sites[name], came[name])
        assert _belief(shared, name).outcome_of(one) == alone.outcome_of(one)
        shared.reserve(one, name)
        came[name].append(one)
        alone, belief = _alone(sites[name], came[name]), _belief(shared, name)
        assert belief.available == alone.available
        assert belief.foreseen == alone.foreseen
    for name, site in sites.items():
        model, expected = _belief(shared, name).model(), _alone(site, came[name]).model()
        assert model is not None
        assert expected is not None
        assert report_of(model) == report_of(expected)


def test_a_node_in_a_state_that_is_known_needs_no_model() -> None:
    """It is built when something is asked that was never asked of such a node."""
    cache = Predict()
    for name in NODES:
        cache.set_report(ReportedNode.make(name).report())
        for number in range(2):
            cache.reserve(PodInfo(pod(f"{name}-{number}", cpus=3)), name)
    assert [_belief(cache, name).has_model for name in NODES] == [True, False, False]
    larger = PodInfo(pod("larger", cpus=5))
    assert _belief(cache, "n2").outcome_of(larger) == _belief(cache, "n0").outcome_of(larger)
    assert _belief(cache, "n2").has_model


def test_of_a_state_only_so_many_kinds_of_pods_are_remembered() -> None:
    """A cluster may send ever new ones."""
    state, nothing = SharedState(), cast("Any", None)
    keys = [kubelet_key(PodInfo(pod(f"p{number}", cpus=number))) for number in range(1, 101)]
    for key in keys:
        state.learn_outcome(key, Rejected("No", "room"))
        state.learn_arrival(key, LearntArrival(nothing, {}, {}, state))
        assert state.outcome(key)
        assert state.arrival(key)
    assert 0 < sum(state.outcome(key) is not None for key in keys) <= 16
    assert 0 < sum(state.arrival(key) is not None for key in keys) <= 16
