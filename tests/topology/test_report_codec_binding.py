"""Exact data counts only with the zones that it was written with, whoever writes the object."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from tests.scheduling.numa.caches.reported_node import ReportedNode, of_surprises, pod
from tests.topology.producers import golden

from numakube.api.koordinator import keys
from numakube.api.nrt import Attribute, NodeResourceTopology, to_v1alpha2, with_attribute
from numakube.topology import nrt_names
from numakube.topology.model_report import report_of
from numakube.topology.report_codec import encode_report
from numakube.topology.report_update import update_of, updated
from numakube.topology.topology_view import NodeTopology, Producer, view_of

LATER = "2026-11-17T10:05:00.000001Z"


@pytest.fixture
def site() -> ReportedNode:
    """A node with a pod."""
    site = ReportedNode.make()
    site.admit(pod("a"))
    return site


def seen(nrt: NodeResourceTopology) -> NodeTopology:
    """Return the view of an object that can be used."""
    view = view_of(nrt)
    assert isinstance(view, NodeTopology), view
    return view


def without_checksum(site: ReportedNode, report: NodeResourceTopology) -> NodeResourceTopology:
    """Return *report* as an exporter writes it that knows no checksums."""
    text = encode_report(report_of(site.node))
    annotations = {**report.metadata.annotations, nrt_names.EXACT_ANNOTATION: text}
    metadata = msgspec.structs.replace(report.metadata, annotations=annotations)
    return msgspec.structs.replace(report, metadata=metadata)


def rte(site: ReportedNode, last: NodeResourceTopology) -> NodeResourceTopology:
    """RTE takes the object over."""
    return site.overwrite(last)


def nfd(site: ReportedNode, last: NodeResourceTopology) -> NodeResourceTopology:
    """NFD does, which keeps attributes that it does not know."""
    zones = site.overwrite(last).zones
    return msgspec.structs.replace(
        last, zones=zones, topology_policies=golden("nfd").topology_policies
    )


def koordlet(site: ReportedNode, last: NodeResourceTopology) -> NodeResourceTopology:
    """Koordinator's agent does."""
    made = nfd(site, last)
    labels = {keys.MANAGED_BY: keys.KOORDINATOR}
    metadata = msgspec.structs.replace(made.metadata, labels=labels)
    return msgspec.structs.replace(made, metadata=metadata)


def nri_plugins(site: ReportedNode, last: NodeResourceTopology) -> NodeResourceTopology:
    """A resource policy of nri-plugins does."""
    policy = Attribute(name=nrt_names.NRI_POLICY, value="balloons")
    return msgspec.structs.replace(rte(site, last), attributes=(policy,))


def somebody(site: ReportedNode, last: NodeResourceTopology) -> NodeResourceTopology:
    """A person edits the zones."""
    return msgspec.structs.replace(last, zones=rte(site, last).zones)


TAKEN_OVER = [
    pytest.param(rte, Producer.RTE, id="rte"),
    pytest.param(nfd, Producer.NFD, id="nfd"),
    pytest.param(koordlet, Producer.KOORDLET, id="koordlet"),
    pytest.param(nri_plugins, Producer.NRI_PLUGINS, id="nri-plugins"),
    pytest.param(somebody, Producer.UNKNOWN, id="somebody"),
]
Taking = Callable[[ReportedNode, NodeResourceTopology], NodeResourceTopology]


@pytest.mark.parametrize(("take_over", "producer"), TAKEN_OVER)
def test_exact_data_ends_when_another_producer_writes_the_zones(
    site: ReportedNode, take_over: Taking, producer: Producer
) -> None:
    """What it says of pods and CPUs is old by then; the view says who wrote last."""
    last = of_surprises(site.report())
    site.remove("a")
    site.admit(pod("b", cpus=4))
    view = seen(take_over(site, last))
    assert view.report is None
    assert view.heartbeat is None
    assert view.producer is producer
    assert "its exact data is not used" in view.why_inexact
    assert str(producer) in view.why_inexact or producer is Producer.UNKNOWN
    assert tuple(zone.available for zone in view.zones) == site.free


def test_equal_amounts_of_other_pods_are_not_taken_for_the_same_report(site: ReportedNode) -> None:
    """A pod left and one like it came, where it had been."""
    last = site.report()
    site.remove("a")
    site.admit(pod("b"))
    taken_over = site.overwrite(last)
    assert taken_over.zones == last.zones
    assert seen(taken_over).report is None


def test_exact_data_counts_again_when_our_exporter_writes_again(site: ReportedNode) -> None:
    """It writes zones and exact data together."""
    last = site.overwrite(site.report())
    report = site.report()
    annotations = {**last.metadata.annotations, **report.metadata.annotations}
    metadata = msgspec.structs.replace(last.metadata, annotations=annotations)
    view = seen(msgspec.structs.replace(report, metadata=metadata))
    assert view.report == report_of(site.node)
    assert view.producer is Producer.NUMAKUBE


def test_the_word_that_a_report_is_old_does_not_end_its_exact_data(site: ReportedNode) -> None:
    """The exporter writes it without the rest."""
    report = site.report()
    stale = Attribute(name=nrt_names.STALE, value="the kubelet is away")
    marked = with_attribute(report.attributes, stale)
    view = seen(msgspec.structs.replace(report, attributes=marked))
    assert view.stale
    assert view.report is not None


def test_exact_data_counts_where_the_api_has_no_attributes(site: ReportedNode) -> None:
    """Version v1alpha1 drops them."""
    old = msgspec.structs.replace(site.report(), api_version="topology.node.k8s.io/v1alpha1")
    assert seen(to_v1alpha2(old)).report is not None


def test_the_order_of_zones_and_attributes_does_not_matter(site: ReportedNode) -> None:
    """A conversion may change it."""
    report = site.report()
    turned = msgspec.structs.replace(
        report, zones=report.zones[::-1], attributes=report.attributes[::-1]
    )
    assert seen(turned).report is not None


def test_exact_data_without_a_checksum_counts_until_somebody_else_leaves_marks(
    site: ReportedNode,
) -> None:
    """Exporters of a fleet are upgraded, and sometimes taken back, one after the other."""
    old = without_checksum(site, site.report())
    assert seen(old).report is not None
    assert seen(rte(site, old)).producer is Producer.RTE
    assert seen(nfd(site, old)).producer is Producer.NFD


def test_an_update_of_a_report_that_was_overwritten_says_nothing(site: ReportedNode) -> None:
    """Its amounts would replace those of the other producer."""
    report = of_surprises(site.report())
    site.admit(pod("b"))
    update = update_of(report, of_surprises(site.report()), time=LATER)
    assert update is not None
    assert seen(updated(report, update)).report == report_of(site.node)
    site.remove("a")
    taken_over = rte(site, report)
    assert updated(taken_over, update) is taken_over


def test_an_update_of_a_report_without_a_checksum_has_none_either(site: ReportedNode) -> None:
    """It is of an exporter that knows no checksums."""
    report = of_surprises(without_checksum(site, site.report()))
    site.admit(pod("b"))
    now = of_surprises(without_checksum(site, site.report()))
    update = update_of(report, now, time=LATER)
    assert update is not None
    exact = seen(updated(report, update)).report
    assert exact == report_of(site.node)
    assert exact is not None
    assert not exact.checksum
