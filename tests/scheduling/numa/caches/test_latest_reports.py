"""Reports are read once, and a bad one harms nobody."""

from __future__ import annotations

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import NodeResourceTopology, Zone, ZoneResource
from numakube.scheduling.numa.caches.cache_contract import FactKind
from numakube.scheduling.numa.caches.discardreserved import DiscardReserved
from numakube.scheduling.numa.caches.overreserve import OverReserve
from numakube.scheduling.numa.caches.passthrough import Passthrough
from numakube.scheduling.numa.caches.predict import Predict
from numakube.topology import nrt_names

Cache = Passthrough | DiscardReserved | OverReserve | Predict


@pytest.fixture(params=[Passthrough, DiscardReserved, OverReserve, Predict])
def cache(request: pytest.FixtureRequest) -> Cache:
    """Every cache."""
    made: Cache = request.param()
    return made


def odd(name: str, *zones: Zone) -> NodeResourceTopology:
    """An object that says nothing useful."""
    return NodeResourceTopology(metadata=ObjectMeta(name=name), zones=zones)


def test_a_policy_that_is_not_known_leaves_the_node_without_data(cache: Cache) -> None:
    """It is not the same as none: the kubelet may reject what looks fine."""
    site = ReportedNode.make(exact=False)
    cache.set_report(site.report())
    assert cache.belief("n1") is not None

    changes = cache.set_report(site.report(**{nrt_names.POLICY_UNKNOWN: "there is no file"}))

    assert [(fact.kind, fact.text) for fact in changes.facts] == [
        (FactKind.UNUSABLE_REPORT, "the policy is not known: there is no file")
    ]
    assert cache.belief("n1") is None


@pytest.mark.parametrize(
    "nrt",
    [
        odd("n1"),
        odd(""),
        odd("n1", Zone(name="socket-0", type="Socket")),
        odd("n1", Zone(name="node-x", type="Node")),
        odd("n1", Zone(name="node-0", type="Node"), Zone(name="node-00", type="Node")),
    ],
)
def test_a_report_that_cannot_be_read_leaves_the_node_without_data(
    cache: Cache, nrt: NodeResourceTopology
) -> None:
    """The filters let it pass, and the log says why, once."""
    changes = cache.set_report(nrt)
    assert [fact.kind for fact in changes.facts] == [FactKind.UNUSABLE_REPORT]
    assert cache.belief("n1") is None
    again = msgspec.structs.replace(nrt, attributes=())
    assert not cache.set_report(again).facts


def test_a_report_that_turns_bad_takes_the_belief_away(cache: Cache) -> None:
    """Old data is not better than none."""
    cache.set_report(ReportedNode.make().report())
    assert cache.set_report(odd("n1")).freed == ("n1",)
    assert cache.belief("n1") is None


def test_a_bad_quantity_gives_no_credit(cache: Cache) -> None:
    """The other resources of the zone still count."""
    zone = Zone(
        name="node-0",
        type="Node",
        resources=(
            ZoneResource(name="cpu", capacity="8", allocatable="8", available="many"),
            ZoneResource(name="memory", capacity="8Gi", allocatable="8Gi", available="8Gi"),
        ),
    )
    (fact,) = cache.set_report(odd("n1", zone)).facts
    assert fact.kind is FactKind.ODD_REPORT
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.available == ({"cpu": 0, "memory": 8 << 30},)


def test_a_report_told_twice_changes_nothing(cache: Cache) -> None:
    """Lists repeat what watches have told."""
    report = ReportedNode.make().report()
    cache.set_report(report)
    assert not cache.set_report(report)


def test_a_report_older_than_the_one_known_is_passed_over(cache: Cache) -> None:
    """Another API server may be behind."""
    site = ReportedNode.make()
    old, new = site.report(), site.report()
    cache.set_report(new)
    changes = cache.set_report(old)
    assert [fact.kind for fact in changes.facts] == [FactKind.OLD_REPORT]
    assert not changes.nodes


def test_an_api_server_that_counts_anew_is_believed_after_a_while(cache: Cache) -> None:
    """It may have been restored from a backup."""
    site = ReportedNode.make()
    early = [site.report() for _ in range(9)]
    cache.set_report(site.report())
    assert [bool(cache.set_report(report).nodes) for report in early] == [False] * 8 + [True]


def test_an_nrt_created_again_is_believed_whatever_its_version(cache: Cache) -> None:
    """It is another object."""
    site = ReportedNode.make()
    old = site.report()
    cache.set_report(site.report())
    other = msgspec.structs.replace(old.metadata, uid="another")
    assert cache.set_report(msgspec.structs.replace(old, metadata=other)).nodes == ("n1",)


def test_an_nrt_created_after_the_start_is_taken(cache: Cache) -> None:
    """Upstream's overreserve cache lists NRTs once (scheduler-plugins issue 967)."""
    cache.set_report(ReportedNode.make("n1").report())
    assert cache.set_report(ReportedNode.make("n2").report()).nodes == ("n2",)
    assert cache.belief("n2") is not None


def test_a_deleted_nrt_is_forgotten_and_may_come_back(cache: Cache) -> None:
    """Upstream's overreserve cache goes on believing in it."""
    site = ReportedNode.make()
    cache.set_report(site.report())
    assert cache.remove_report("n1").freed == ("n1",)
    assert cache.belief("n1") is None
    assert not cache.remove_report("n1")
    cache.set_report(site.report())
    assert cache.belief("n1") is not None
