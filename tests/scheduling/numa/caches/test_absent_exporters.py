"""The cache notices within a minute that nobody keeps a report up to date."""

from __future__ import annotations

from itertools import count

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, of_surprises, pod, taken

from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod, PodCondition, PodStatus
from numakube.scheduling.numa.caches.cache_contract import FactKind
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound
from numakube.topology import nrt_names
from numakube.values.resources import Amounts

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


def free(cache: Predict) -> tuple[Amounts, ...]:
    """What the cache believes to be free."""
    belief = cache.belief("n1")
    assert belief is not None
    return belief.available


def orphaned(cache: Predict) -> str:
    """Why nobody keeps the report up to date."""
    belief = cache.belief("n1")
    assert belief is not None
    assert belief.topology is not None
    return belief.topology.orphaned


_TIMES = count(0, 60)


def pass_minute(cache: Predict) -> list[FactKind]:
    """Let a minute pass, with a resync every five seconds; return what was told."""
    start = next(_TIMES)
    return [fact.kind for step in range(0, 60, 5) for fact in cache.resync(start + step).facts]


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
def cache(site: ReportedNode) -> Predict:
    """A cache that knows the node, its pods and its exporter."""
    cache = Predict()
    for one in site.pods.values():
        cache.pod_seen(PodInfo(one))
    cache.pod_seen(exporter())
    cache.set_report(report(site))
    return cache


def test_pods_that_are_gone_are_forgotten_a_minute_after_the_exporter(
    site: ReportedNode, cache: Predict
) -> None:
    """Nobody would ever tell that they hold nothing any more."""
    for name in "ab":
        cache.pod_gone(name)  # by force: whether they still run is not known
    assert pass_minute(cache) == []
    before = site.free
    site.remove("a")
    site.remove("b")
    assert free(cache) == before
    cache.pod_gone(EXPORTER)
    assert pass_minute(cache) == [FactKind.EXPORTER_GONE]
    assert orphaned(cache) == f"its exporter, pod default/{EXPORTER}, is gone"
    assert free(cache) == site.free
    assert pass_minute(cache) == []


def test_a_scheduler_that_starts_later_believes_the_same(site: ReportedNode) -> None:
    """It never knew the pods that the report names."""
    cache, last = Predict(), report(site)
    site.remove("a")
    for one in site.pods.values():
        cache.pod_seen(PodInfo(one))
    cache.set_report(of_surprises(last))
    pass_minute(cache)
    assert free(cache) == site.free


def test_pods_that_come_later_are_placed_on_top(site: ReportedNode, cache: Predict) -> None:
    """The model goes on from the pods that are left."""
    cache.pod_gone("a")
    cache.pod_gone(EXPORTER)
    pass_minute(cache)
    site.remove("a")
    new = running("new")
    assert site.admit(new)
    cache.pod_seen(PodInfo(new))
    assert free(cache) == site.free
    belief = cache.belief("n1")
    assert isinstance(belief, ExactBelief)
    assert len(belief.basis.holders()) == 3


def test_an_exporter_that_is_replaced_is_not_missed(site: ReportedNode, cache: Predict) -> None:
    """Its DaemonSet is updated; the next one may take a while to write."""
    cache.pod_gone("a")
    cache.pod_gone(EXPORTER)
    cache.resync(next(_TIMES))
    cache.pod_seen(exporter("exporter-abcde"))
    assert pass_minute(cache) == []
    assert not orphaned(cache)
    cache.set_report(report(site, "exporter-abcde"))
    assert pass_minute(cache) == []
    assert not orphaned(cache)


def test_an_exporter_that_is_not_ready_does_not_count(cache: Predict) -> None:
    """Its container crashes again and again, or it cannot write."""
    cache.pod_seen(exporter(ready="False"))
    assert pass_minute(cache) == [FactKind.EXPORTER_GONE]
    assert orphaned(cache).endswith("is not ready")
    cache.pod_seen(exporter())
    pass_minute(cache)
    assert not orphaned(cache)


def test_the_next_report_ends_it(site: ReportedNode, cache: Predict) -> None:
    """Whoever writes it; what it says is believed again."""
    cache.pod_gone("a")
    cache.pod_gone(EXPORTER)
    pass_minute(cache)
    assert orphaned(cache)
    cache.set_report(site.overwrite(report(site)))
    assert not orphaned(cache)
    pass_minute(cache)
    assert not orphaned(cache)


def test_reports_that_do_not_name_a_pod_are_left_alone(site: ReportedNode) -> None:
    """Exporters may run without one."""
    cache = Predict()
    cache.set_report(site.report())
    assert pass_minute(cache) == []
    assert free(cache) == site.free


def test_who_was_stopped_for_a_while_does_not_take_exporters_for_gone(
    site: ReportedNode, cache: Predict
) -> None:
    """Their pods have come and gone meanwhile, and are yet to be read."""
    cache.set_report(report(site))
    cache.pod_gone(exporter().uid)
    cache.resync(1e6)
    assert not cache.resync(1e6 + 60).facts
    cache.pod_seen(exporter("exporter-abcde"))
    cache.resync(1e6 + 70)
    assert not orphaned(cache)


def test_an_exporter_that_writes_is_there_ready_or_not(site: ReportedNode, cache: Predict) -> None:
    """What a new report says of a pod that was deleted by force counts: it still runs."""
    cache.pod_seen(exporter(ready="False"))
    cache.pod_gone("c")
    for version in range(6):
        new = report(site)
        metadata = msgspec.structs.replace(new.metadata, resource_version=str(10**6 + version))
        cache.set_report(msgspec.structs.replace(new, metadata=metadata))
        before = free(cache)
        looks = [cache.resync(2e6 + 20 * version + step) for step in (0, 10)]
        assert not [fact for look in looks for fact in look.facts]
        assert free(cache) == before
    assert FactKind.EXPORTER_GONE in [
        fact.kind for step in range(30, 90, 10) for fact in cache.resync(2e6 + 100 + step).facts
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
    cache: Predict, looks: tuple[float, ...], gone: bool
) -> None:
    """Looks that follow each other too closely are none."""
    cache.pod_gone(EXPORTER)
    facts = [fact.kind for at in looks for fact in cache.resync(1e6 + at).facts]
    assert (FactKind.EXPORTER_GONE in facts) is gone
    assert bool(orphaned(cache)) is gone
