"""A report and its update are the report that was not written, and what is new in one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from random import Random

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, machine, of_surprises, pod

from numakube.api.codec import decode, encode
from numakube.api.meta import ObjectMeta
from numakube.api.nrt import Attribute, NodeResourceTopology, attribute_value, with_attribute
from numakube.api.nrt_update import NodeResourceTopologyUpdate
from numakube.topology import nrt_names
from numakube.topology.exact_report import ExactReport
from numakube.topology.report_codec import PLAIN_LIMIT, decode_report, with_exact
from numakube.topology.report_update import (
    configuration_of,
    current_reports,
    is_of,
    is_overdue,
    may_take_more,
    update_of,
    updated,
)
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.times import parse_time

WRITTEN = "2026-11-17T10:00:00.000000Z"
LATER = "2026-11-17T10:05:00.000001Z"
POLICY = Attribute(name=nrt_names.TOPOLOGY_POLICY, value="none")


def promising(report: NodeResourceTopology, at: str = WRITTEN) -> NodeResourceTopology:
    """Return *report* as an exporter writes it that reports only surprises."""
    metadata = msgspec.structs.replace(report.metadata, resource_version="")
    return of_surprises(msgspec.structs.replace(report, metadata=metadata), at=at)


def with_vectors(report: NodeResourceTopology, *vectors: str) -> NodeResourceTopology:
    """Return *report* with NUMA placement."""
    zones = tuple(
        msgspec.structs.replace(zone, attributes=tuple(_vector(vector)))
        for zone, vector in zip(report.zones, vectors, strict=True)
    )
    told = Attribute(name=nrt_names.PLACEMENT_METADATA, value=f"{vectors}")
    attributes = with_attribute(report.attributes, told)
    exact = decode_report(report.metadata.annotations[nrt_names.EXACT_ANNOTATION])
    assert isinstance(exact, ExactReport)
    changed = msgspec.structs.replace(report, zones=zones, attributes=attributes)
    return with_exact(changed, exact)


def _vector(text: str) -> Iterator[Attribute]:
    if text:
        yield Attribute(name=nrt_names.PLACEMENT_VECTOR, value=text)


def node() -> ReportedNode:
    """Return a node with pods."""
    site = ReportedNode.make("n1", on=machine(cores=6, memory_gib=24, gpus=4))
    for number in range(3):
        site.admit(pod(f"p{number}", cpus=1))
    return site


@pytest.mark.parametrize("seed", range(20))
def test_whatever_pods_do_both_are_what_the_whole_report_would_be(seed: int) -> None:
    """Through the wire, and not much of it."""
    rng = Random(seed)
    site = node()
    report = promising(site.report())
    for number in range(30):
        if rng.random() < 0.5 and site.pods:
            site.remove(rng.choice(sorted(site.pods)))
        else:
            gpus, cpus = rng.choice([0, 1]), rng.choice([0.5, 1, 2])
            site.admit(pod(f"q{number}", cpus=cpus, gpus=gpus))
        now = site.report()
        update = update_of(report, now, time=LATER)
        assert update is not None
        read = decode(NodeResourceTopologyUpdate, encode(update))
        assert updated(report, read) == promising(now, at=LATER)


def test_numa_placement_moves_too() -> None:
    """A zone may get its first container, and lose its last."""
    report = promising(with_vectors(node().report(), "!", ""))
    for vectors in (("", "$!"), ("", "")):
        now = with_vectors(node().report(), *vectors)
        update = update_of(report, now, time=LATER)
        assert update is not None
        assert updated(report, update).zones == now.zones
        assert updated(report, update).attributes == now.attributes


def test_a_long_text_is_compressed_in_both() -> None:
    """A node with many pods."""
    site = ReportedNode.make("n1", on=machine(cores=400, memory_gib=900, gpus=4))
    report = promising(site.report())
    for number in range(380):
        site.admit(pod(f"p{number}", cpus=1, memory_gib=1))
    now = site.report()
    assert now.metadata.annotations[nrt_names.EXACT_ANNOTATION].startswith("z:")
    update = update_of(report, now, time=LATER)
    assert update is not None
    assert len(update.exact) < PLAIN_LIMIT
    assert updated(report, update) == promising(now, at=LATER)


def test_what_pods_do_not_change_is_no_update() -> None:
    """The configuration, an owner, an annotation; a report without exact data, or a promise."""
    site = node()
    report, now = promising(site.report()), site.report()
    stale = Attribute(name=nrt_names.STALE, value="away")
    meta = now.metadata
    others = {
        "attribute": msgspec.structs.replace(now, attributes=(*now.attributes, stale)),
        "zone": msgspec.structs.replace(now, zones=now.zones[:1]),
        "annotation": msgspec.structs.replace(
            now,
            metadata=msgspec.structs.replace(
                meta, annotations={**meta.annotations, nrt_names.PCI_ANNOTATION: "0000:00=0"}
            ),
        ),
        "no exact data": msgspec.structs.replace(
            now, metadata=msgspec.structs.replace(meta, annotations={})
        ),
    }
    assert update_of(report, now, time=LATER) is not None
    assert [name for name, one in others.items() if update_of(report, one, time=LATER)] == []
    assert update_of(now, now, time=LATER) is None


def test_an_update_of_another_report_says_nothing() -> None:
    """One that came before it, or that has yet to come."""
    site = node()
    first = promising(site.report())
    site.remove("p0")
    update = update_of(first, site.report(), time=LATER)
    assert update is not None
    second = promising(site.report(), at=LATER)
    assert is_of(update, first)
    assert not is_of(update, second)
    assert not is_of(update, site.report())
    assert updated(second, update) == second
    assert list(current_reports([second], [update])) == [second]
    assert list(current_reports([first], [update])) != [first]


def test_both_together_have_the_version_of_the_later_write() -> None:
    """A report is marked stale without a new update, and readers must notice."""
    site = node()
    report = promising(site.report())
    update = update_of(report, site.report(), time=LATER)
    assert update is not None
    for of_report, of_update in (("9", "10"), ("11", "10")):
        first = msgspec.structs.replace(report.metadata, resource_version=of_report)
        second = msgspec.structs.replace(update.metadata, resource_version=of_update)
        found = updated(
            msgspec.structs.replace(report, metadata=first),
            msgspec.structs.replace(update, metadata=second),
        )
        assert found.metadata.resource_version == str(max(int(of_report), int(of_update)))


def test_a_report_is_overdue_that_promised_more() -> None:
    """With some grace."""
    report = promising(node().report())
    written = parse_time(WRITTEN)
    assert not is_overdue(report, written + timedelta(seconds=119))
    assert is_overdue(report, written + timedelta(seconds=121))
    assert not is_overdue(node().report(), written)
    assert not is_overdue(promising(node().report(), at="once"), written)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("available", ("1 2",), "the report has 2 zones"),
        ("available", ("1", "2"), "node-0 has 3 resources"),
        ("vectors", ("!",), "the report has 2 zones"),
        ("attributes", (POLICY,), "pods do not change topologyManagerPolicy"),
        ("exact", "", "Input data was truncated"),
        ("exact", '{"pods":7}', "Expected `object`"),
        ("exact", "z:???", "compressed text"),
        ("exact", '{"pods":{"x":"\ud800"}}', "surrogates not allowed"),
    ],
)
def test_a_report_whose_update_cannot_be_read_is_not_trusted(
    field: str, value: object, reason: str
) -> None:
    """It is old, and says why."""
    site = node()
    report = promising(site.report())
    update = update_of(report, site.report(), time=LATER)
    assert update is not None
    meta = ObjectMeta(name="n1", resource_version="7")
    broken = msgspec.structs.replace(update, metadata=meta, **{field: value})
    found = updated(report, broken)
    stale = attribute_value(found.attributes, nrt_names.STALE) or ""
    assert stale.startswith("its NodeResourceTopologyUpdate cannot be read: ")
    assert reason in stale
    assert found.metadata.resource_version == "7"
    view = view_of(found)
    assert isinstance(view, NodeTopology)
    assert view.stale


# What makes a kubelet that rejected a pod worth another try.


def seen(site: ReportedNode) -> NodeTopology:
    """Return what the node's report says now."""
    view = view_of(site.report())
    assert isinstance(view, NodeTopology)
    return view


@pytest.mark.parametrize("exact", [True, False])
def test_a_pod_that_left_makes_room(*, exact: bool) -> None:
    """With exact data or by the amounts alone; a pod that came makes none."""
    site = ReportedNode.make(on=machine(), exact=exact)
    empty = seen(site)
    site.admit(pod("one"))
    full = seen(site)
    assert may_take_more(full, empty)
    assert not may_take_more(empty, full)
    assert not may_take_more(full, seen(site))


def test_a_pod_that_left_counts_though_the_amounts_are_the_same() -> None:
    """Another came that holds as much of other CPUs; only exact data can tell."""
    site = ReportedNode.make(on=machine())
    site.admit(pod("one"))
    before = seen(site)
    site.remove("one")
    site.admit(pod("other"))
    after = seen(site)
    assert [zone.available for zone in before.zones] == [zone.available for zone in after.zones]
    assert may_take_more(before, after)
    bare_before, bare_after = (replace(topology, report=None) for topology in (before, after))
    assert not may_take_more(bare_before, bare_after)
    assert may_take_more(bare_before, after)
    assert may_take_more(before, bare_after)


def test_another_configuration_is_worth_a_try() -> None:
    """As is the first report of a node; no report is not."""
    view = seen(ReportedNode.make(on=machine()))
    assert may_take_more(None, view)
    assert not may_take_more(view, None)
    assert not may_take_more(None, None)
    assert not may_take_more(view, view)
    assert may_take_more(view, replace(view, max_numa_nodes=16))
    assert configuration_of(view) != configuration_of(None)
