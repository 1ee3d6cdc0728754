"""Predict believes what the node will be once everything on its way has arrived."""

from __future__ import annotations

import msgspec
import pytest
from benchmarks.burst import How, play
from tests.api.mirrors import mirror_of
from tests.scheduling.numa.caches.reported_node import ReportedNode, ended, pod, taken

from numakube.api.pod import Pod, PodCondition, PodStatus
from numakube.kubelet.admission_outcome import Admitted, Rejected
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import (
    FactKind,
    KubeletRejection,
    MispredictionSeverity,
)
from numakube.testing import bound


@pytest.fixture
def site() -> ReportedNode:
    """A node with two zones of 8 CPUs, 16 GiB and 2 GPUs; CPU 0 is reserved."""
    return ReportedNode.make()


@pytest.fixture
def cache(site: ReportedNode) -> Predict:
    """A cache that has the first report of the node."""
    cache = Predict()
    cache.set_report(site.report())
    return cache


def free(cache: Predict, node: str = "n1") -> object:
    """What the cache believes to be free."""
    belief = cache.belief(node)
    assert belief is not None
    return belief.available


def test_without_a_report_nothing_is_believed() -> None:
    """The filters let a node without data pass."""
    assert Predict().belief("n1") is None


def test_a_report_is_believed_as_it_is(site: ReportedNode, cache: Predict) -> None:
    """Nothing has happened since it was made."""
    assert free(cache) == site.free


def test_a_reservation_is_taken_off_the_zone_that_the_kubelet_will_take(
    site: ReportedNode, cache: Predict
) -> None:
    """Only that zone, and with the GPU that belongs to it."""
    changes = cache.reserve(PodInfo(pod("a", cpus=4, gpus=1)), "n1")
    assert changes.nodes == ("n1",)
    assert changes.freed == ()
    site.admit(pod("a", cpus=4, gpus=1))
    assert free(cache) == site.free


@pytest.mark.parametrize(("policy", "told"), [("none", ("n1",)), ("single-numa-node", ())])
def test_a_report_without_the_cpus_of_a_pod_that_is_gone_lets_others_in(
    policy: str, told: tuple[str, ...]
) -> None:
    """Where no kubelet aligns pods, schedulers give out what the report leaves."""
    site = ReportedNode.make(policy=policy)
    there = pod("a", cpus=4)
    site.admit(there)
    cache = Predict()
    cache.pod_seen(PodInfo(taken(bound(there, "n1"))))
    cache.set_report(site.report())
    assert cache.pod_seen(PodInfo(ended(bound(there, "n1")))).freed == ("n1",)
    site.remove("a")
    assert cache.set_report(site.report()).freed == told
    assert cache.set_report(site.report()).freed == ()


def test_a_report_that_names_the_pod_confirms_the_prediction(
    site: ReportedNode, cache: Predict
) -> None:
    """Nothing changes, so nobody is woken."""
    cache.reserve(PodInfo(pod("a")), "n1")
    site.admit(pod("a"))
    changes = cache.set_report(site.report())
    assert not changes.mispredictions
    assert changes.freed == ()
    assert free(cache) == site.free


def test_a_report_from_before_the_admission_keeps_the_reservation(
    site: ReportedNode, cache: Predict
) -> None:
    """It does not name the pod, whenever it arrives."""
    early = site.report()
    cache.reserve(PodInfo(pod("a")), "n1")
    cache.set_report(early)
    site.admit(pod("a"))
    assert free(cache) == site.free


def test_a_failed_binding_gives_back_what_was_booked(site: ReportedNode, cache: Predict) -> None:
    """And the pods that wait for room are told."""
    cache.reserve(PodInfo(pod("a")), "n1")
    assert cache.unreserve("a", "n1").freed == ("n1",)
    assert free(cache) == site.free


def test_a_pod_that_was_seen_bound_survives_the_news_that_its_binding_failed(
    site: ReportedNode, cache: Predict
) -> None:
    """A request may time out and succeed all the same."""
    cache.reserve(PodInfo(pod("a")), "n1")
    cache.pod_seen(PodInfo(bound(pod("a"), "n1")))
    assert not cache.unreserve("a", "n1")
    site.admit(pod("a"))
    assert free(cache) == site.free


def test_a_foreign_pod_is_taken_into_account_as_soon_as_it_is_seen(
    site: ReportedNode, cache: Predict
) -> None:
    """Upstream blocks the whole node until a fingerprint matches."""
    cache.pod_seen(PodInfo(bound(pod("a", scheduler="other"), "n1")))
    site.admit(pod("a"))
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.available == site.free
    assert not belief.blocked


def test_a_pod_that_ended_is_free_before_the_report_says_so(
    site: ReportedNode, cache: Predict
) -> None:
    """The kubelet releases it at the next admission."""
    site.admit(pod("a"))
    cache.pod_seen(PodInfo(taken(bound(pod("a"), "n1"))))
    cache.set_report(site.report())
    changes = cache.pod_seen(PodInfo(ended(bound(pod("a"), "n1"))))
    assert changes.freed == ("n1",)
    site.remove("a")
    assert free(cache) == site.free
    cache.pod_gone("a")
    assert free(cache) == site.free


def test_a_pod_deleted_by_force_is_not_free_until_a_report_is_without_it(
    site: ReportedNode, cache: Predict
) -> None:
    """Its containers may still run."""
    site.admit(pod("a"))
    cache.pod_seen(PodInfo(taken(bound(pod("a"), "n1"))))
    cache.set_report(site.report())
    cache.pod_gone("a")
    assert free(cache) == site.free
    site.remove("a")
    assert cache.set_report(site.report()).freed == ("n1",)
    assert free(cache) == site.free


def test_a_pod_deleted_before_any_report_leaves_nothing_behind(
    site: ReportedNode, cache: Predict
) -> None:
    """Upstream keeps it until the next flush."""
    cache.reserve(PodInfo(pod("a")), "n1")
    cache.pod_seen(PodInfo(bound(pod("a"), "n1")))
    assert cache.pod_gone("a").freed == ("n1",)
    assert free(cache) == site.free


def test_who_came_beside_a_pod_that_is_gone_without_a_report_stays_where_it_came(
    site: ReportedNode, cache: Predict
) -> None:
    """The kubelet had both when it placed the second; nobody saw the first one end."""
    for name in "ab":
        site.admit(pod(name, cpus=4))
        cache.pod_seen(PodInfo(taken(bound(pod(name, cpus=4), "n1"))))
    cache.pod_gone("a")
    site.remove("a")
    assert free(cache) == site.free
    assert cache.set_report(site.report()).mispredictions == ()
    assert free(cache) == site.free


def test_a_pod_deleted_by_force_holds_what_a_later_report_says(
    site: ReportedNode, cache: Predict
) -> None:
    """It still runs, though nobody saw it in a report before its object was gone."""
    site.admit(pod("a", cpus=4))
    cache.pod_seen(PodInfo(taken(bound(pod("a", cpus=4), "n1"))))
    cache.pod_gone("a")
    cache.set_report(site.report())
    assert free(cache) == site.free
    site.remove("a")
    cache.set_report(site.report())
    assert free(cache) == site.free


def test_a_wrong_prediction_is_corrected_and_told_with_both_sides(
    site: ReportedNode, cache: Predict
) -> None:
    """The report is right."""
    cache.reserve(PodInfo(pod("a", cpus=4)), "n1")
    # Something that we never hear of takes zone 0 first.
    site.admit(pod("hidden", cpus=6))
    site.admit(pod("a", cpus=4))
    (wrong,) = cache.set_report(site.report()).mispredictions
    assert wrong.severity is MispredictionSeverity.ZONES
    assert wrong.predicted == {(0,): {"cpu": 4000, "memory": 1 << 30}}
    assert wrong.reported == {(1,): {"cpu": 4000, "memory": 1 << 30}}
    assert free(cache) == site.free


def test_memory_that_a_finished_init_container_gave_back_was_no_misprediction(
    site: ReportedNode, cache: Predict
) -> None:
    """The app has started before the report that names the pod for the first time."""
    plain, large = pod("a", memory_gib=1), pod("i", memory_gib=3)
    init = (msgspec.structs.replace(large.spec.containers[0], name="init"),)
    spec = msgspec.structs.replace(plain.spec, init_containers=init)
    both = msgspec.structs.replace(plain, spec=spec)
    cache.reserve(PodInfo(both), "n1")
    site.admit(both)
    site.node.start_container("a", "c0")

    assert not cache.set_report(site.report()).mispredictions
    assert free(cache) == site.free


def test_a_refusal_by_the_kubelet_that_was_not_foreseen_is_a_misprediction(
    cache: Predict,
) -> None:
    """It is reported once, however often the pod's status changes."""
    cache.reserve(PodInfo(pod("a", cpus=4)), "n1")
    cache.pod_seen(PodInfo(bound(pod("a", cpus=4), "n1")))
    failed = ended(bound(pod("a", cpus=4), "n1"), reason="TopologyAffinityError")
    (wrong,) = cache.pod_seen(PodInfo(failed)).mispredictions
    assert wrong.severity is MispredictionSeverity.VERDICT
    assert wrong.reported == KubeletRejection("TopologyAffinityError")
    assert not cache.pod_seen(PodInfo(failed)).mispredictions


def test_a_pod_that_the_kubelet_will_refuse_is_told_once_and_takes_nothing(
    site: ReportedNode, cache: Predict
) -> None:
    """Pods that others bind may not fit."""
    foreign = PodInfo(bound(pod("a", cpus=9, scheduler="other"), "n1"))
    changes = cache.pod_seen(foreign)
    assert [fact.kind for fact in changes.facts] == [FactKind.REJECTION_FORESEEN]
    assert free(cache) == site.free
    assert not cache.pod_seen(foreign).facts


def test_a_pod_that_has_ended_is_not_told_as_refused_when_an_earlier_one_turns_up(
    cache: Predict,
) -> None:
    """Clocks of API servers differ: a pod that comes later may have been scheduled before."""

    def scheduled(name: str, at: str) -> Pod:
        placed = bound(pod(name, cpus=8, scheduler="other"), "n1")
        condition = PodCondition(type="PodScheduled", status="True", last_transition_time=at)
        return msgspec.structs.replace(placed, status=PodStatus(conditions=(condition,)))

    first = scheduled("a", "2026-01-01T00:00:05Z")
    cache.pod_seen(PodInfo(first))
    over = msgspec.structs.replace(first.status or PodStatus(), phase="Succeeded")
    cache.pod_seen(PodInfo(msgspec.structs.replace(first, status=over)))

    changes = cache.pod_seen(PodInfo(scheduled("b", "2026-01-01T00:00:04Z")))

    assert changes.nodes == ("n1",)
    assert not changes.facts


def test_reservations_on_a_node_without_report_count_when_the_report_comes(
    site: ReportedNode,
) -> None:
    """Upstream ignores such reservations."""
    cache = Predict()
    assert not cache.reserve(PodInfo(pod("a")), "n1")
    cache.set_report(site.report())
    site.admit(pod("a"))
    assert free(cache) == site.free


def test_a_pod_bound_elsewhere_than_reserved_frees_the_node_it_was_reserved_on(
    site: ReportedNode, cache: Predict
) -> None:
    """Another scheduler may be faster."""
    other = ReportedNode.make("n2")
    cache.set_report(other.report())
    cache.reserve(PodInfo(pod("a")), "n1")
    changes = cache.pod_seen(PodInfo(bound(pod("a"), "n2")))
    assert changes.nodes == ("n1", "n2")
    assert changes.freed == ("n1",)
    other.admit(pod("a"))
    assert (free(cache, "n1"), free(cache, "n2")) == (site.free, other.free)


def test_binding_order_not_reservation_order_decides(site: ReportedNode, cache: Predict) -> None:
    """The kubelet meets pods in the order of their bindings."""
    small, large = pod("small", cpus=3), pod("large", cpus=6)
    cache.reserve(PodInfo(small), "n1")
    cache.reserve(PodInfo(large), "n1")
    cache.pod_seen(PodInfo(bound(large, "n1")))
    cache.pod_seen(PodInfo(bound(small, "n1")))
    site.admit(large)
    site.admit(small)
    assert free(cache) == site.free
    assert not cache.set_report(site.report()).mispredictions


def test_the_model_is_in_the_believed_state(site: ReportedNode, cache: Predict) -> None:
    """The exact check and preemption ask it."""
    cache.reserve(PodInfo(pod("a", cpus=5)), "n1")
    belief = cache.belief("n1")
    assert belief is not None
    model = belief.model()
    assert model is not None
    site.admit(pod("a", cpus=5))
    assert model.shared_cpus == site.node.shared_cpus


def test_without_gives_credit_for_reported_and_for_reserved_pods(
    site: ReportedNode, cache: Predict
) -> None:
    """A pod that is not known frees nothing."""
    site.admit(pod("a", cpus=5))
    cache.set_report(site.report())
    cache.pod_seen(PodInfo(taken(bound(pod("a", cpus=5), "n1"))))
    cache.reserve(PodInfo(pod("b", cpus=3)), "n1")
    belief = cache.belief("n1")
    assert belief is not None
    site.admit(pod("b", cpus=3))
    site.remove("a")
    assert belief.without(["a"]).available == site.free
    site.remove("b")
    assert belief.without(["a", "b"]).available == site.free
    assert belief.without(["a"]).without(["b"]).available == site.free
    assert belief.without(["unknown"]).available == belief.available


def test_the_object_shows_what_is_believed_to_be_available(cache: Predict) -> None:
    """The upstream engine reads the object."""
    cache.reserve(PodInfo(pod("a", cpus=4)), "n1")
    belief = cache.belief("n1")
    assert belief is not None
    shown = {resource.name: resource.available for resource in belief.nrt.zones[0].resources}
    assert shown["cpu"] == "3"
    assert shown["memory"] == "14Gi"


def test_a_node_whose_exporter_says_that_its_data_is_stale_is_blocked_until_it_is_not(
    site: ReportedNode, cache: Predict
) -> None:
    """After a restart the kubelet may list only some of its pods."""
    cache.set_report(site.report(**{"topology.numakube.dev/stale": "kubelet away"}))
    belief = cache.belief("n1")
    assert belief is not None
    assert "kubelet away" in belief.blocked
    assert cache.set_report(site.report()).freed == ("n1",)


def test_a_static_pod_is_recognised_by_the_uid_of_its_mirror_annotation(
    site: ReportedNode, cache: Predict
) -> None:
    """The API object of a static pod has a uid of its own."""
    site.admit(pod("static-uid"))
    cache.set_report(site.report())
    cache.pod_seen(PodInfo(taken(mirror_of(bound(pod("mirror-uid"), "n1"), "static-uid"))))
    assert free(cache) == site.free


def test_a_pod_that_only_says_that_it_is_a_mirror_is_charged(
    site: ReportedNode, cache: Predict
) -> None:
    """Anybody can write the annotation; the report names another pod."""
    site.admit(pod("other-uid"))
    cache.set_report(site.report())
    liar = bound(pod("liar"), "n1")
    liar.metadata.annotations["kubernetes.io/config.mirror"] = "other-uid"
    cache.pod_seen(PodInfo(taken(liar)))
    assert free(cache) != site.free


def test_reports_that_never_change_are_charged_with_every_pod() -> None:
    """Koordinator's agent reports what a node has, not what is left."""
    site = ReportedNode.make(exact=False, fingerprints=False)
    report = site.report()
    meta = msgspec.structs.replace(
        report.metadata, labels={"app.kubernetes.io/managed-by": "Koordinator"}
    )
    cache = Predict()
    cache.set_report(msgspec.structs.replace(report, metadata=meta))
    running = taken(bound(pod("a", cpus=5), "n1"))
    cache.pod_seen(PodInfo(running))
    assert not cache.resync(0.0)
    cache.resync(1000.0)
    belief = cache.belief("n1")
    assert belief is not None
    assert [zone["cpu"] for zone in belief.available] == [2000, 3000]
    cache.pod_seen(PodInfo(ended(running)))
    assert free(cache) == site.free


def test_a_node_that_loses_its_exact_data_is_booked_by_counts() -> None:
    """Another exporter may take over."""
    site, cache = ReportedNode.make(), Predict()
    cache.set_report(site.report())
    cache.reserve(PodInfo(pod("a", cpus=5)), "n1")
    site.exact = False
    cache.set_report(site.report())
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.model() is None
    assert [zone["cpu"] for zone in belief.available] == [2000, 3000]


def test_pods_that_exact_data_named_are_not_booked_again_when_it_is_missing_once(
    site: ReportedNode, cache: Predict
) -> None:
    """An exporter that read its sources at different moments has none in that report."""
    site.fingerprints = False
    for number in range(3):
        one = bound(pod(f"p{number}", cpus=2), "n1")
        cache.pod_seen(PodInfo(one))
        site.admit(one)
        cache.pod_seen(PodInfo(taken(one)))
    cache.set_report(site.report())
    site.exact = False
    cache.set_report(site.report())
    assert free(cache) == site.free
    site.exact = True
    cache.set_report(site.report())
    assert free(cache) == site.free


def test_exact_data_with_which_no_kubelet_starts_is_told_once_and_counts_are_used(
    site: ReportedNode, cache: Predict
) -> None:
    """The exporter may know settings that the model does not."""
    running = bound(pod("named", cpus=1), "n1")
    site.admit(running)
    cache.pod_seen(PodInfo(running))
    report = site.report()
    annotations = dict(report.metadata.annotations)
    name = "topology.numakube.dev/exact"
    assert "single-numa-node" in annotations[name]
    annotations[name] = annotations[name].replace("single-numa-node", "double-numa-node")
    meta = msgspec.structs.replace(report.metadata, annotations=annotations)
    changes = cache.set_report(msgspec.structs.replace(report, metadata=meta))
    changes += cache.reserve(PodInfo(pod("a", cpus=5)), "n1")
    changes += cache.reserve(PodInfo(pod("b", cpus=1)), "n1")
    assert len(changes.facts) == 1
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.model() is None
    assert [zone["cpu"] for zone in belief.available] == [0, 2000]


def test_a_pod_that_was_asked_about_is_reserved_as_it_was_foreseen(
    site: ReportedNode, cache: Predict
) -> None:
    """Whether the model is asked once or twice, and about others in between."""
    belief = cache.belief("n1")
    assert isinstance(belief, ExactBelief)
    first, second = PodInfo(pod("a", cpus=5)), PodInfo(pod("b", cpus=4))
    assert isinstance(belief.outcome_of(first), Admitted)
    assert isinstance(belief.outcome_of(second), Admitted)
    cache.reserve(first, "n1")
    site.admit(first.pod)
    assert free(cache) == site.free
    belief = cache.belief("n1")
    assert isinstance(belief, ExactBelief)
    assert isinstance(belief.outcome_of(PodInfo(pod("c", cpus=9))), Rejected)
    assert belief.outcome_of(second) == site.node.clone().admit(second.pod)
    cache.reserve(second, "n1")
    site.admit(second.pod)
    assert free(cache) == site.free


def test_what_was_foreseen_for_a_pod_holds_for_its_replicas(
    site: ReportedNode, cache: Predict
) -> None:
    """Until the node changes; each of them is reserved in its own name."""
    belief = cache.belief("n1")
    assert isinstance(belief, ExactBelief)
    one, other = PodInfo(pod("a", cpus=5)), PodInfo(pod("b", cpus=5))
    assert belief.outcome_of(other) is belief.outcome_of(one)
    # What is imagined beside is what comes to be.
    imagined = belief.followed_by(one)
    assert belief.followed_by(one) is imagined
    assert imagined is not None
    cache.reserve(one, "n1")
    site.admit(one.pod)
    assert free(cache) == site.free == imagined.available
    after = cache.belief("n1")
    assert isinstance(after, ExactBelief)
    assert after.outcome_of(other) == site.node.clone().admit(other.pod)
    cache.reserve(other, "n1")
    site.admit(other.pod)
    assert free(cache) == site.free


@pytest.mark.parametrize("fingerprints", [True, False])
def test_bookings_on_counts_add_up_in_the_order_in_which_they_come(*, fingerprints: bool) -> None:
    """One added to the others leaves what counting all of them again leaves."""
    site = ReportedNode.make(exact=False, fingerprints=fingerprints)
    site.admit(pod("there", cpus=3))
    report, running = site.report(), PodInfo(taken(bound(pod("there", cpus=3), "n1")))
    coming = [PodInfo(pod(f"p{number}", cpus=number)) for number in (1, 5, 2, 4)]
    cache, again = Predict(), Predict()
    cache.set_report(report)
    for predict in (cache, again):
        predict.pod_seen(running)
    for info in coming:
        cache.reserve(info, "n1")
        again.reserve(info, "n1")
    again.set_report(report)
    assert free(cache) == free(again)
    cache.unreserve("p5", "n1")
    again.unreserve("p5", "n1")
    assert free(cache) == free(again)


# ------------------------------------------------------------------------------------------------
# The benchmark's burst in small: what it claims holds for a few nodes too.


@pytest.fixture(scope="module")
def outcomes() -> dict[How, tuple[int, int, int]]:
    """Placed pods, admission failures and mispredictions of each scheduler."""
    found = {}
    for how in How:
        outcome = play(how, seed=3, period=10.0, nodes=8, pods=80)
        found[how] = outcome.placed(), outcome.failures, outcome.mispredictions
    return found


def test_predict_has_no_admission_failures(outcomes: dict[How, tuple[int, int, int]]) -> None:
    """And nothing came as a surprise, although pods ended while others were on their way."""
    _, failures, mispredictions = outcomes[How.PREDICT]
    assert (failures, mispredictions) == (0, 0)


def test_predict_places_at_least_as_many_pods_as_overreserve(
    outcomes: dict[How, tuple[int, int, int]],
) -> None:
    """It does not wait for reports."""
    assert outcomes[How.PREDICT][0] >= outcomes[How.OVERRESERVE][0]


def test_a_blind_scheduler_runs_into_refusals(outcomes: dict[How, tuple[int, int, int]]) -> None:
    """Otherwise the burst would prove nothing."""
    assert outcomes[How.BLIND][1] > 0
