"""Troubles that users of other stacks have reported, and that predict does not have.

Each test is named after the thread in which it was reported.
"""

from __future__ import annotations

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import (
    SCHEDULER,
    ReportedNode,
    ended,
    machine,
    pod,
    taken,
)

from numakube.api.pod import Pod
from numakube.scheduling.numa.caches.overreserve import OverReserve, OverReserveOptions
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import FactKind
from numakube.testing import bound
from numakube.topology import nrt_names
from numakube.topology.fingerprint import ContainerName, Placement, encode_placement
from numakube.values.resources import Amounts


def free(cache: Predict | OverReserve) -> tuple[Amounts, ...]:
    """What the cache believes to be free."""
    belief = cache.belief("n1")
    assert belief is not None
    return belief.available


def run(cache: Predict | OverReserve, site: ReportedNode, one: Pod) -> Pod:
    """Reserve, bind and start a pod, and tell the cache of each step."""
    cache.reserve(PodInfo(one), "n1")
    one = bound(one, "n1")
    cache.pod_seen(PodInfo(one))
    assert site.admit(one)
    cache.pod_seen(PodInfo(taken(one)))
    return taken(one)


def test_volcano_5500_a_pod_ends_while_a_bigger_one_starts() -> None:
    """A report that only has sums cannot tell who is in it; one with names can."""
    site, cache = ReportedNode.make(), Predict()
    cache.set_report(site.report())
    small = run(cache, site, pod("small", cpus=2))
    cache.set_report(site.report())
    cache.pod_seen(PodInfo(ended(small)))
    site.remove("small")
    run(cache, site, pod("big", cpus=6))
    assert free(cache) == site.free
    assert not cache.set_report(site.report()).mispredictions
    assert free(cache) == site.free


def test_kai_appendix_a_no_second_eviction_while_the_zone_looks_occupied() -> None:
    """The room of a victim is there as soon as it has ended, not when a report says so."""
    site, cache = ReportedNode.make(), Predict()
    victim = run(cache, site, pod("victim", cpus=7))
    run(cache, site, pod("other", cpus=8))
    cache.set_report(site.report())
    assert cache.pod_seen(PodInfo(ended(victim))).freed == ("n1",)
    belief = cache.belief("n1")
    assert belief is not None
    model = belief.model()
    assert model is not None
    site.remove("victim")
    assert site.node.clone().admit(pod("new", cpus=7)) == model.clone().admit(pod("new", cpus=7))


def test_nfd_1424_resources_of_a_late_device_plugin_show_up() -> None:
    """A report with another resource is taken like any other."""
    site, cache = ReportedNode.make(on=machine(gpus=0)), Predict()
    cache.set_report(site.report())
    assert "vendor.example/gpu" not in free(cache)[0]
    late = ReportedNode.make(on=machine(gpus=2))
    assert cache.set_report(late.report()).freed == ("n1",)
    assert free(cache)[0]["vendor.example/gpu"] == 2


def test_nfd_1254_a_reconfigured_kubelet_is_believed_with_reservations_in_place() -> None:
    """Policy and scope are not frozen; pods on their way are admitted under the new ones."""
    site, cache = ReportedNode.make(policy="single-numa-node"), Predict()
    cache.set_report(site.report())
    cache.reserve(PodInfo(pod("a", cpus=5)), "n1")
    site = ReportedNode.make(policy="best-effort")
    assert cache.set_report(site.report()).freed == ("n1",)
    site.admit(pod("a", cpus=5))
    assert free(cache) == site.free


def test_scheduler_plugins_452_a_report_written_by_hand_is_not_updated_by_anybody() -> None:
    """The first pods of it are booked nevertheless, and given back when they end."""
    site = ReportedNode.make(exact=False, fingerprints=False)
    cache = Predict()
    cache.set_report(site.report())
    one = bound(pod("a", cpus=5), "n1")
    cache.reserve(PodInfo(one), "n1")
    cache.pod_seen(PodInfo(one))
    assert [zone["cpu"] for zone in free(cache)] == [2000, 3000]
    cache.pod_seen(PodInfo(ended(one)))
    assert free(cache) == site.free


@pytest.mark.parametrize("restart_policy", ["Never", "OnFailure"])
def test_numaresources_operator_1378_guaranteed_pods_that_do_not_restart_leave_no_stall(
    restart_policy: str,
) -> None:
    """Nor do jobs of mixed QoS classes (1254): pods that ended do not count as missing."""
    site = ReportedNode.make(exact=False)
    cache = OverReserve(OverReserveOptions(profiles=frozenset({SCHEDULER})))
    cache.set_report(site.report())
    for number in range(6):
        one = pod(f"job-{number}", cpus=1, guaranteed=number % 2 == 0)
        spec = msgspec.structs.replace(one.spec, restart_policy=restart_policy)
        one = run(cache, site, msgspec.structs.replace(one, spec=spec))
        cache.pod_seen(PodInfo(ended(one)))
        if number % 3:
            site.remove(one.metadata.uid)
    changes = cache.set_report(site.report())
    assert FactKind.FINGERPRINT_MISMATCH not in {fact.kind for fact in changes.facts}
    belief = cache.belief("n1")
    assert belief is not None
    assert not belief.blocked
    assert free(cache) == site.free


def placed_report(site: ReportedNode, **zones: int) -> dict[str, str]:
    """Return the attribute of a report that says in which zone each pod's container is."""
    affinities = {ContainerName("default", name, "c0"): zone for name, zone in zones.items()}
    placement = encode_placement(affinities, numa_nodes=2)
    assert isinstance(placement, Placement)
    return {nrt_names.PLACEMENT_METADATA: placement.metadata}


def test_scheduler_plugins_1015_a_victim_without_placement_gets_one_with_the_next_report() -> None:
    """Upstream keeps a cache entry without it, and preemption fails until somebody helps."""
    site = ReportedNode.make(exact=False)
    cache = OverReserve(OverReserveOptions(profiles=frozenset({SCHEDULER})))
    cache.set_report(site.report())
    run(cache, site, pod("victim", cpus=5))
    cache.set_report(site.report())
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.without(["victim"]).available == belief.available
    cache.set_report(site.report(**placed_report(site, victim=0)))
    belief = cache.belief("n1")
    assert belief is not None
    site.remove("victim")
    assert belief.without(["victim"]).available == site.free


def test_a_placement_of_other_containers_than_those_known_gives_no_credit() -> None:
    """It lists positions among sorted hashes, which mean something else then."""
    site = ReportedNode.make(exact=False)
    cache = OverReserve(OverReserveOptions(profiles=frozenset({SCHEDULER})))
    run(cache, site, pod("victim", cpus=5))
    cache.set_report(site.report(**placed_report(site, victim=0, unknown=1)))
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.without(["victim"]).available == belief.available


def test_a_restart_in_the_middle_of_a_burst_loses_nothing() -> None:
    """Reports and pods are listed in any order; reservations that were never bound are gone."""
    site, cache = ReportedNode.make(), Predict()
    cache.set_report(site.report())
    pods = [bound(pod(f"p{number}", cpus=3), "n1") for number in range(4)]
    for one in pods[:2]:
        site.admit(one)
    report = site.report()
    for one in pods[2:]:
        site.admit(one)
    reborn = Predict()
    for one in reversed(pods):
        reborn.pod_seen(PodInfo(one))
    reborn.set_report(report)
    assert free(reborn) == site.free


def test_pods_bound_in_one_second_are_taken_in_the_order_of_their_versions_after_a_restart() -> (
    None
):
    """They are listed by name, and the kubelet has met them in another order."""
    site, cache = ReportedNode.make(), Predict()
    report = site.report()
    first, second = (
        msgspec.structs.replace(one, metadata=msgspec.structs.replace(one.metadata, **version))
        for one, version in (
            (bound(pod("z", cpus=4), "n1"), {"resource_version": "9"}),
            (bound(pod("a", cpus=6), "n1"), {"resource_version": "10"}),
        )
    )
    site.admit(first)
    site.admit(second)
    for one in (second, first):
        cache.pod_seen(PodInfo(one))
    cache.set_report(report)
    assert free(cache) == site.free


def test_a_node_that_is_deleted_and_comes_back_starts_from_its_report() -> None:
    """Its pods are deleted one by one, before or after."""
    site, cache = ReportedNode.make(), Predict()
    cache.set_report(site.report())
    run(cache, site, pod("a", cpus=5))
    cache.remove_report("n1")
    assert cache.belief("n1") is None
    cache.pod_gone("a")
    fresh = ReportedNode.make()
    cache.set_report(fresh.report())
    assert free(cache) == fresh.free
