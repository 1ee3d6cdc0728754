"""A model's report says what the model says."""

from __future__ import annotations

from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology.model_from_report import report_of
from numakube.topology.model_report import nrt_of
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.topology.zone_amounts import zones_of
from numakube.values.cpuset import CpuSet


def test_the_view_of_a_models_report_is_the_models_state() -> None:
    """Zones, distances, policies and exact data come back unchanged."""
    settings = KubeletSettings(
        topology_policy="restricted",
        topology_scope="pod",
        cpu_policy="static",
        reserved_cpus=CpuSet.parse("0"),
    )
    node = KubeletNode(from_shape("2 sockets, 4 cores, smt 2, 16Gi, gpu 2"), settings)
    view = view_of(nrt_of("n1", node))
    assert isinstance(view, NodeTopology)
    assert (view.policy, view.scope, view.cpu_manager_policy) == ("restricted", "pod", "static")
    assert [zone.available for zone in view.zones] == [one.available for one in zones_of(node)]
    assert view.zones[0].costs == {0: 10, 1: 20}
    assert view.report == report_of(node)


def test_a_report_can_do_without_exact_data_and_with_more_attributes() -> None:
    """As those of other producers."""
    node = KubeletNode(from_shape("2 sockets, 4 cores, 16Gi"), KubeletSettings())
    nrt = nrt_of("n1", node, exact=False, attributes={"nodeTopologyPodsFingerprint": "pfp0v001"})
    assert not nrt.metadata.annotations
    assert nrt.attributes[-1].value == "pfp0v001"
