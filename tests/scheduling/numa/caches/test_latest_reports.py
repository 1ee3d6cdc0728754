"""Reports are read once, and a bad one harms nobody."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, of_surprises, pod, taken

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import NodeResourceTopology, Zone, ZoneResource
from numakube.api.pod import Pod, PodCondition, PodStatus
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.caches.overreserve import OverReserve
from numakube.scheduling.numa.caches.passthrough import DiscardReserved, Passthrough
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.scheduling.snapshot.zone_belief import FactKind
from numakube.testing import bound
from numakube.topology import nrt_names
from numakube.values.resources import Amounts

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


# ------------------------------------------------------------------------------------------------
# The cache notices within a minute that nobody keeps a report up to date.

EXPORTER = "exporter-x7k2p"


def exporter(name: str = EXPORTER, *, ready: str = "True") -> PodInfo:
    """The pod of the exporter."""
    made = bound(pod(name, cpus=0.1, guaranteed=False), "n1")
    condition = PodCondition(type="Ready", status=ready)
    status = PodStatus(phase="Running", conditions=(condition,))
    return PodInfo(msgspec.structs.replace(made, status=status))


def report(site: ReportedNode, name: str = EXPORTER) -> NodeResourceTopology:
    """What the exporter in that pod writes."""
    return site.report(**{nrt_names.EXPORTER: f"default/{name}"})


def free(informed: Predict) -> tuple[Amounts, ...]:
    """What the cache believes to be free."""
    belief = informed.belief("n1")
    assert belief is not None
    return belief.available


def orphaned(informed: Predict) -> str:
    """Why nobody keeps the report up to date."""
    belief = informed.belief("n1")
    assert belief is not None
    assert belief.topology is not None
    return belief.topology.orphaned


_TIMES = count(0, 60)


def pass_minute(informed: Predict) -> list[FactKind]:
    """Let a minute pass, with a resync every five seconds; return what was told."""
    start = next(_TIMES)
    return [fact.kind for step in range(0, 60, 5) for fact in informed.resync(start + step).facts]


@pytest.fixture
def site() -> ReportedNode:
    """A node with three pods."""
    site = ReportedNode.make()
    assert all(site.admit(running(name)) for name in "abc")
    return site


def running(name: str) -> Pod:
    """A pod that runs on the node."""
    return taken(bound(pod(name), "n1"))


@pytest.fixture
def informed(site: ReportedNode) -> Predict:
    """A cache that knows the node, its pods and its exporter."""
    informed = Predict()
    for one in site.pods.values():
        informed.pod_seen(PodInfo(one))
    informed.pod_seen(exporter())
    informed.set_report(report(site))
    return informed


def test_pods_that_are_gone_are_forgotten_a_minute_after_the_exporter(
    site: ReportedNode, informed: Predict
) -> None:
    """Nobody would ever tell that they hold nothing any more."""
    for name in "ab":
        informed.pod_gone(name)  # by force: whether they still run is not known
    assert pass_minute(informed) == []
    before = site.free
    site.remove("a")
    site.remove("b")
    assert free(informed) == before
    informed.pod_gone(EXPORTER)
    assert pass_minute(informed) == [FactKind.EXPORTER_GONE]
    assert orphaned(informed) == f"its exporter, pod default/{EXPORTER}, is gone"
    assert free(informed) == site.free
    assert pass_minute(informed) == []


def test_a_scheduler_that_starts_later_believes_the_same(site: ReportedNode) -> None:
    """It never knew the pods that the report names."""
    informed, last = Predict(), report(site)
    site.remove("a")
    for one in site.pods.values():
        informed.pod_seen(PodInfo(one))
    informed.set_report(of_surprises(last))
    pass_minute(informed)
    assert free(informed) == site.free


def test_pods_that_come_later_are_placed_on_top(site: ReportedNode, informed: Predict) -> None:
    """The model goes on from the pods that are left."""
    informed.pod_gone("a")
    informed.pod_gone(EXPORTER)
    pass_minute(informed)
    site.remove("a")
    new = running("new")
    assert site.admit(new)
    informed.pod_seen(PodInfo(new))
    assert free(informed) == site.free
    belief = informed.belief("n1")
    assert isinstance(belief, ExactBelief)
    assert len(belief.basis.holders()) == 3


def test_an_exporter_that_is_replaced_is_not_missed(site: ReportedNode, informed: Predict) -> None:
    """Its DaemonSet is updated; the next one may take a while to write."""
    informed.pod_gone("a")
    informed.pod_gone(EXPORTER)
    informed.resync(next(_TIMES))
    informed.pod_seen(exporter("exporter-abcde"))
    assert pass_minute(informed) == []
    assert not orphaned(informed)
    informed.set_report(report(site, "exporter-abcde"))
    assert pass_minute(informed) == []
    assert not orphaned(informed)


def test_an_exporter_that_is_not_ready_does_not_count(informed: Predict) -> None:
    """Its container crashes again and again, or it cannot write."""
    informed.pod_seen(exporter(ready="False"))
    assert pass_minute(informed) == [FactKind.EXPORTER_GONE]
    assert orphaned(informed).endswith("is not ready")
    informed.pod_seen(exporter())
    pass_minute(informed)
    assert not orphaned(informed)


def test_the_next_report_ends_it(site: ReportedNode, informed: Predict) -> None:
    """Whoever writes it; what it says is believed again."""
    informed.pod_gone("a")
    informed.pod_gone(EXPORTER)
    pass_minute(informed)
    assert orphaned(informed)
    informed.set_report(site.overwrite(report(site)))
    assert not orphaned(informed)
    pass_minute(informed)
    assert not orphaned(informed)


def test_reports_that_do_not_name_a_pod_are_left_alone(site: ReportedNode) -> None:
    """Exporters may run without one."""
    informed = Predict()
    informed.set_report(site.report())
    assert pass_minute(informed) == []
    assert free(informed) == site.free


def test_who_was_stopped_for_a_while_does_not_take_exporters_for_gone(
    site: ReportedNode, informed: Predict
) -> None:
    """Their pods have come and gone meanwhile, and are yet to be read."""
    informed.set_report(report(site))
    informed.pod_gone(exporter().uid)
    informed.resync(1e6)
    assert not informed.resync(1e6 + 60).facts
    informed.pod_seen(exporter("exporter-abcde"))
    informed.resync(1e6 + 70)
    assert not orphaned(informed)


def test_an_exporter_that_writes_is_there_ready_or_not(
    site: ReportedNode, informed: Predict
) -> None:
    """What a new report says of a pod that was deleted by force counts: it still runs."""
    informed.pod_seen(exporter(ready="False"))
    informed.pod_gone("c")
    for version in range(6):
        new = report(site)
        metadata = msgspec.structs.replace(new.metadata, resource_version=str(10**6 + version))
        informed.set_report(msgspec.structs.replace(new, metadata=metadata))
        before = free(informed)
        looks = [informed.resync(2e6 + 20 * version + step) for step in (0, 10)]
        assert not [fact for look in looks for fact in look.facts]
        assert free(informed) == before
    assert FactKind.EXPORTER_GONE in [
        fact.kind for step in range(30, 90, 10) for fact in informed.resync(2e6 + 100 + step).facts
    ]


@pytest.mark.parametrize(
    ("looks", "gone"),
    [
        ((0, 10, 20, 29.9), False),
        ((0, 10, 20, 30), True),
        ((0, 15, 30), True),
        ((0, 30), False),
        ((0, 1, 2, 3, 4, 30), False),
    ],
)
def test_an_exporter_is_gone_after_half_a_minute_and_three_looks(
    informed: Predict, looks: tuple[float, ...], gone: bool
) -> None:
    """Looks that follow each other too closely are none."""
    informed.pod_gone(EXPORTER)
    facts = [fact.kind for at in looks for fact in informed.resync(1e6 + at).facts]
    assert (FactKind.EXPORTER_GONE in facts) is gone
    assert bool(orphaned(informed)) is gone


# ------------------------------------------------------------------------------------------------
# A report that was deleted and is written again is judged by what it says itself.


@pytest.mark.parametrize("kind", [OverReserve, Predict])
@pytest.mark.parametrize("others", [False, True])
def test_a_node_whose_report_went_and_came_again_is_as_new(
    kind: type[OverReserve] | type[Predict], others: bool
) -> None:
    """That the first one had all pods says nothing of the next."""
    site = ReportedNode.make(exact=False)
    known = taken(bound(pod("known"), "n1"))
    assert site.admit(known)
    cache, fresh = kind(), kind()
    for one in (cache, fresh):
        one.pod_seen(PodInfo(known))
    cache.set_report(site.report())
    cache.remove_report("n1")
    assert cache.belief("n1") is None
    if others:
        assert site.admit(taken(bound(pod("of others"), "n1")))
    again = site.report()
    cache.set_report(again)
    fresh.set_report(again)
    ours, new = cache.belief("n1"), fresh.belief("n1")
    assert ours is not None
    assert new is not None
    assert ours.available == new.available
