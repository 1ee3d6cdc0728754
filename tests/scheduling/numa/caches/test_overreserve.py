"""Overreserve is as careful as upstream's cache, and has none of its stalls and leaks."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import (
    GIB,
    SCHEDULER,
    ReportedNode,
    ended,
    pod,
    taken,
)

from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod
from numakube.scheduling.numa.caches.counts_belief import CountsBelief
from numakube.scheduling.numa.caches.known_pods import ForeignPods
from numakube.scheduling.numa.caches.overreserve import (
    OverReserve,
    OverReserveOptions,
    ResyncScope,
)
from numakube.scheduling.numa.caches.report_coverage import FingerprintPods
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import FactKind
from numakube.testing import bound
from numakube.topology import nrt_names
from numakube.values.resources import Amounts

OURS = OverReserveOptions(profiles=frozenset({SCHEDULER}))


@pytest.fixture
def site() -> ReportedNode:
    """A node whose reports bear fingerprints but no names."""
    return ReportedNode.make(exact=False)


@pytest.fixture
def cache(site: ReportedNode) -> OverReserve:
    """A cache that has the first report of the node."""
    cache = OverReserve(OURS)
    cache.set_report(site.report())
    return cache


def free(cache: OverReserve) -> tuple[Amounts, ...]:
    """What the cache believes to be free."""
    belief = cache.belief("n1")
    assert belief is not None
    return belief.available


def is_blocked(cache: OverReserve) -> bool:
    """Tell whether the node takes no pod."""
    belief = cache.belief("n1")
    assert belief is not None
    return bool(belief.blocked)


def run(cache: OverReserve, site: ReportedNode, one: Pod) -> Pod:
    """Reserve, bind and start a pod, and tell the cache of each step."""
    cache.reserve(PodInfo(one), "n1")
    one = bound(one, "n1")
    cache.pod_seen(PodInfo(one))
    assert site.admit(one)
    cache.pod_seen(PodInfo(taken(one)))
    return taken(one)


def cpus(cache: OverReserve) -> list[int]:
    """Whole free CPUs of each zone."""
    return [zone["cpu"] // 1000 for zone in free(cache)]


def test_a_reservation_is_taken_off_every_zone(cache: OverReserve) -> None:
    """Nobody knows which one will have it."""
    cache.reserve(PodInfo(pod("a", cpus=3, memory_gib=4)), "n1")
    assert cpus(cache) == [4, 5]
    assert [zone["memory"] // GIB for zone in free(cache)] == [11, 12]


def test_a_report_of_all_pods_settles_the_reservations(
    cache: OverReserve, site: ReportedNode
) -> None:
    """And those who wait for room are told, without a second report."""
    run(cache, site, pod("a", cpus=3))
    before = cache.generation
    assert cache.set_report(site.report()).freed == ("n1",)
    assert free(cache) == site.free
    assert cache.generation == before + 1


def test_a_report_from_before_the_pod_leaves_it_reserved(
    cache: OverReserve, site: ReportedNode
) -> None:
    """Its fingerprint is that of the pods before."""
    early = site.report()
    run(cache, site, pod("a", cpus=3))
    cache.set_report(early)
    assert cpus(cache) == [4, 5]


def test_fingerprint_match_while_a_reserved_pod_is_pending_keeps_its_reservation(
    cache: OverReserve, site: ReportedNode
) -> None:
    """Upstream drops it, and overcommits the zone (PR 437, derived limitation 2)."""
    run(cache, site, pod("a", cpus=3))
    cache.reserve(PodInfo(pod("b", cpus=2)), "n1")
    cache.set_report(site.report())
    assert cpus(cache) == [7 - 3 - 2, 8 - 2]


def test_a_config_change_flush_keeps_reservations(cache: OverReserve) -> None:
    """Upstream drops them without any check."""
    cache.reserve(PodInfo(pod("a", cpus=3)), "n1")
    changed = ReportedNode.make(exact=False, scope="pod").report()
    assert cache.set_report(changed).freed == ("n1",)
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.topology is not None
    assert belief.topology.scope == "pod"
    assert cpus(cache) == [4, 5]


def test_attribute_changes_wait_for_a_resync_if_only_resources_are_watched(
    site: ReportedNode,
) -> None:
    """As upstream's resyncScope OnlyResources says."""
    options = replace(OURS, resync_scope=ResyncScope.ONLY_RESOURCES)
    cache = OverReserve(options)
    cache.set_report(site.report())
    run(cache, site, pod("a", cpus=3))
    other = ReportedNode.make(exact=False, scope="pod")
    odd = other.report(**{nrt_names.FINGERPRINT: "pfp0v0010123456789abcdef"})
    assert [fact.kind for fact in cache.set_report(odd).facts] == [FactKind.FINGERPRINT_MISMATCH]
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.topology is not None
    assert belief.topology.scope == "container"


def test_a_mismatch_keeps_the_report_before_for_one_report_only(
    cache: OverReserve, site: ReportedNode
) -> None:
    """Upstream waits forever if the exporter lists other pods than the scheduler knows."""
    run(cache, site, pod("a", cpus=3))
    odd = {nrt_names.FINGERPRINT: "pfp0v0010123456789abcdef"}
    first = cache.set_report(site.report(**odd))
    assert [fact.kind for fact in first.facts] == [FactKind.FINGERPRINT_MISMATCH]
    assert not cache.reserve(PodInfo(pod("b", guaranteed=False)), "n1").facts
    assert cpus(cache) == [4, 5]
    second = cache.set_report(site.report(**odd))
    assert [fact.kind for fact in second.facts] == [FactKind.TAKEN_UNCONFIRMED]
    assert second.freed == ("n1",)
    assert free(cache) == site.free


def test_a_mismatch_without_another_report_ends_after_the_patience(
    cache: OverReserve, site: ReportedNode
) -> None:
    """Many producers write only when something changes; the resync wakes those who wait."""
    run(cache, site, pod("a", cpus=3))
    cache.set_report(site.report(**{nrt_names.FINGERPRINT: "pfp0v0010123456789abcdef"}))
    assert not cache.resync(1000.0)
    assert not cache.resync(1089.0)
    assert cache.resync(1090.0).freed == ("n1",)
    assert free(cache) == site.free


def test_missing_fingerprint_data_does_not_keep_a_node_dirty(site: ReportedNode) -> None:
    """Upstream never resyncs a node whose exporter writes no fingerprint."""
    site.fingerprints = False
    cache = OverReserve(OURS)
    cache.set_report(site.report())
    run(cache, site, pod("a", cpus=3))
    assert cache.set_report(site.report()).freed == ("n1",)
    assert free(cache) == site.free


def test_a_report_that_loses_its_fingerprint_is_believed_at_once(
    cache: OverReserve, site: ReportedNode
) -> None:
    """There is nothing to wait for, though the one before had one."""
    runs = taken(bound(pod("a", cpus=3), "n1"))
    cache.pod_seen(PodInfo(runs))
    site.fingerprints = False
    assert cache.set_report(site.report()).facts == ()
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.topology is not None
    assert belief.topology.fingerprint is None


def test_a_node_without_any_pod_is_resynced(cache: OverReserve, site: ReportedNode) -> None:
    """Upstream skips nodes for which it finds no pod (derived limitation 4)."""
    cache.reserve(PodInfo(pod("a", cpus=3)), "n1")
    cache.pod_gone("a")
    assert cache.set_report(site.report()).facts == ()
    assert free(cache) == site.free


@pytest.mark.parametrize("listed", [True, False])
def test_terminal_pods_do_not_stall_a_node(
    cache: OverReserve, site: ReportedNode, *, listed: bool
) -> None:
    """Some kubelets list pods that have ended, others do not (scheduler-plugins issue 598)."""
    job = run(cache, site, pod("job", cpus=3))
    run(cache, site, pod("a", cpus=2))
    cache.pod_seen(PodInfo(ended(job)))
    if not listed:
        site.remove("job")
    changes = cache.set_report(site.report())
    assert not changes.facts
    assert free(cache) == site.free


def test_a_pod_that_waits_for_its_image_does_not_stall_a_node(
    cache: OverReserve, site: ReportedNode
) -> None:
    """Its phase is Pending, but the kubelet has admitted it and lists it."""
    one = bound(pod("a", cpus=3), "n1")
    cache.reserve(PodInfo(one), "n1")
    site.admit(one)
    cache.pod_seen(PodInfo(taken(one, phase="Pending")))
    assert not cache.set_report(site.report()).facts
    assert free(cache) == site.free


def test_a_pod_being_deleted_does_not_stall_a_node(cache: OverReserve, site: ReportedNode) -> None:
    """The kubelet may have let go of it already."""
    one = run(cache, site, pod("a", cpus=3))
    run(cache, site, pod("b", cpus=2))
    meta = msgspec.structs.replace(one.metadata, deletion_timestamp="2026-01-01T00:00:00Z")
    cache.pod_seen(PodInfo(msgspec.structs.replace(one, metadata=meta)))
    site.remove("a")
    assert not cache.set_report(site.report()).facts
    assert free(cache) == site.free


def test_a_deleted_pod_is_not_reserved_any_more(cache: OverReserve, site: ReportedNode) -> None:
    """Upstream keeps it until a flush."""
    cache.reserve(PodInfo(pod("a", cpus=3)), "n1")
    assert cache.pod_gone("a").freed == ("n1",)
    assert free(cache) == site.free


def test_burstable_pods_reserve_devices_only(cache: OverReserve) -> None:
    """Upstream deducts their CPUs and memory too (derived limitation 7)."""
    cache.reserve(PodInfo(pod("a", cpus=3, gpus=1, guaranteed=False)), "n1")
    assert cpus(cache) == [7, 8]
    assert [zone["vendor.example/gpu"] for zone in free(cache)] == [1, 1]


def test_a_foreign_pod_blocks_its_node_until_a_report_has_it(
    cache: OverReserve, site: ReportedNode
) -> None:
    """Its place is unknown; waiting pods are told when it is known."""
    foreign = bound(pod("f", scheduler="other"), "n1")
    (fact,) = cache.pod_seen(PodInfo(foreign)).facts
    assert fact.kind is FactKind.FOREIGN_POD
    assert "default/f" in fact.text
    assert is_blocked(cache)
    site.admit(foreign)
    cache.pod_seen(PodInfo(taken(foreign)))
    assert cache.set_report(site.report()).freed == ("n1",)
    assert not is_blocked(cache)


def test_status_updates_of_a_daemonset_pod_do_not_block_its_node_again(
    cache: OverReserve, site: ReportedNode
) -> None:
    """Upstream takes every update of a foreign pod for a new one."""
    foreign = taken(bound(pod("f", scheduler="other"), "n1"))
    site.admit(foreign)
    cache.pod_seen(PodInfo(foreign))
    cache.set_report(site.report())
    assert not cache.pod_seen(PodInfo(foreign))
    cache.pod_seen(PodInfo(ended(foreign)))
    assert not is_blocked(cache)


@pytest.mark.parametrize("pods_first", [True, False])
def test_foreign_pods_listed_at_the_start_do_not_block_their_node(
    site: ReportedNode, *, pods_first: bool
) -> None:
    """Upstream marks every node that runs any, and waits for a resync."""
    foreign = taken(bound(pod("f", scheduler="other"), "n1"))
    site.admit(foreign)
    cache = OverReserve(OURS)
    if pods_first:
        cache.pod_seen(PodInfo(foreign))
    cache.set_report(site.report())
    cache.pod_seen(PodInfo(foreign))
    assert not is_blocked(cache)


@pytest.mark.parametrize(
    ("mode", "guaranteed", "blocks"),
    [
        (ForeignPods.ALL, False, True),
        (ForeignPods.ONLY_EXCLUSIVE, False, False),
        (ForeignPods.ONLY_EXCLUSIVE, True, True),
        (ForeignPods.NONE, True, False),
    ],
)
def test_which_foreign_pods_block_is_configurable(
    site: ReportedNode, mode: ForeignPods, *, guaranteed: bool, blocks: bool
) -> None:
    """By upstream's foreignPodsDetect."""
    cache = OverReserve(replace(OURS, foreign_pods=mode))
    cache.set_report(site.report())
    cache.pod_seen(PodInfo(bound(pod("f", scheduler="other", guaranteed=guaranteed), "n1")))
    assert is_blocked(cache) is blocks


def test_pods_of_another_profile_of_ours_are_reserved_and_not_foreign(site: ReportedNode) -> None:
    """Upstream's profiles do not see each other's reservations (derived limitation 9)."""
    cache = OverReserve(OverReserveOptions(profiles=frozenset({"one", "two"})))
    cache.set_report(site.report())
    cache.pod_seen(PodInfo(bound(pod("a", cpus=3, scheduler="two"), "n1")))
    assert not is_blocked(cache)
    assert cpus(cache) == [4, 5]


def test_a_standby_that_takes_over_knows_the_reservations_of_the_leader(site: ReportedNode) -> None:
    """Upstream's starts with an old report and no reservations (derived limitation 3)."""
    before = site.report()
    standby = OverReserve(OURS)
    standby.set_report(before)
    standby.pod_seen(PodInfo(taken(bound(pod("a", cpus=3), "n1"))))
    assert cpus(standby) == [4, 5]


@pytest.mark.parametrize("which", [FingerprintPods.AUTODETECT, FingerprintPods.ONLY_EXCLUSIVE])
def test_a_fingerprint_of_exclusive_pods_ignores_the_others(which: FingerprintPods) -> None:
    """Burstable pods come and go without changing it."""
    site = ReportedNode.make(exact=False)
    site.method = "with-exclusive-resources"
    cache = OverReserve(replace(OURS, fingerprint_pods=which))
    cache.set_report(site.report())
    run(cache, site, pod("a", cpus=3))
    run(cache, site, pod("b", guaranteed=False))
    assert not cache.set_report(site.report()).facts
    assert free(cache) == site.free


def test_reserving_on_a_node_without_nrt_counts_once_it_has_one(site: ReportedNode) -> None:
    """Upstream ignores such reservations."""
    cache = OverReserve(OURS)
    cache.reserve(PodInfo(pod("a", cpus=3)), "n1")
    cache.set_report(site.report())
    assert cpus(cache) == [4, 5]


def while_admitted(site: ReportedNode, *running: Pod) -> NodeResourceTopology:
    """Return a report that names *running*, the last of whom holds nothing yet."""
    zones = site.report().zones
    for one in running:
        assert site.admit(one)
    return msgspec.structs.replace(site.report(), zones=zones)


def test_a_report_that_names_a_pod_in_admission_leaves_it_reserved(
    cache: OverReserve, site: ReportedNode
) -> None:
    """Kubelets list pods before they have given them anything, and producers believe them."""
    one = pod("a", cpus=3)
    cache.reserve(PodInfo(one), "n1")
    cache.pod_seen(PodInfo(bound(one, "n1")))
    cache.set_report(while_admitted(site, bound(one, "n1")))
    assert cpus(cache) == [4, 5]
    # The kubelet's word comes while the short report is still the latest one.
    cache.pod_seen(PodInfo(taken(bound(one, "n1"))))
    assert cpus(cache) == [4, 5]
    cache.set_report(site.report())
    assert free(cache) == site.free


def test_a_report_that_shows_a_pod_before_its_status_settles_with_the_status(
    cache: OverReserve, site: ReportedNode
) -> None:
    """No further report is needed: it has all that its pods hold."""
    one = bound(pod("a", cpus=3), "n1")
    cache.reserve(PodInfo(pod("a", cpus=3)), "n1")
    cache.pod_seen(PodInfo(one))
    assert site.admit(one)
    cache.set_report(site.report())
    assert cpus(cache) == [7 - 3 - 3, 8 - 3]
    assert cache.pod_seen(PodInfo(taken(one))).freed == ("n1",)
    assert free(cache) == site.free


def test_a_pod_that_the_report_lacks_may_be_wherever_it_is_charged(site: ReportedNode) -> None:
    """One that asks for devices of one zone alone is nowhere else."""
    before = OverReserve(OURS)
    before.set_report(site.report())
    belief = before.belief("n1")
    assert isinstance(belief, CountsBelief)
    after = belief.followed_by(PodInfo(pod("new", cpus=2)))
    assert after.places_of("new") == {0, 1}
    assert belief.places_of("new") == after.without(["new"]).places_of("new") == frozenset()
