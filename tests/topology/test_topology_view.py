"""NRTs of any producer become one view of the node, or the reason why they cannot."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import (
    Attribute,
    Cost,
    NodeResourceTopology,
    Zone,
    ZoneResource,
    convert_nrt,
)
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology import nrt_names
from numakube.topology.exact_report import ExactReport
from numakube.topology.report_codec import encode_report
from numakube.topology.report_notation import as_the_kubelet_sees_it
from numakube.topology.topology_view import (
    FingerprintMethod,
    NodeTopology,
    Producer,
    Unusable,
    ZoneView,
    view_of,
)
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

GI = 2**30
MOST = str((2**63 - 1) // 1000)


def resource(name: str, capacity: str, allocatable: str, available: str) -> ZoneResource:
    """A resource of a zone."""
    return ZoneResource(name=name, capacity=capacity, allocatable=allocatable, available=available)


def zone(name: str, *resources: ZoneResource, **more: object) -> Zone:
    """A NUMA zone; *more* sets other fields."""
    return msgspec.structs.replace(Zone(name=name, type="Node", resources=resources), **more)


def nrt(
    *zones: Zone,
    attributes: dict[str, str] | None = None,
    policies: tuple[str, ...] = (),
    **meta: object,
) -> NodeResourceTopology:
    """An NRT of node worker-0; *meta* sets its metadata."""
    return NodeResourceTopology(
        metadata=msgspec.structs.replace(ObjectMeta(name="worker-0"), **meta),
        zones=zones or (zone("node-0"),),
        topology_policies=policies,
        attributes=tuple(
            Attribute(name=name, value=value) for name, value in (attributes or {}).items()
        ),
    )


def seen(topology: NodeResourceTopology) -> NodeTopology:
    """Return the view of an NRT that can be used."""
    view = view_of(topology)
    assert isinstance(view, NodeTopology), view
    return view


def refused(topology: NodeResourceTopology) -> str:
    """Return why an NRT cannot be used."""
    view = view_of(topology)
    assert isinstance(view, Unusable), view
    return view.reason


RTE = b"""{"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
"metadata": {"name": "worker-0", "resourceVersion": "77", "generation": 4, "annotations": {
 "k8stopoawareschedwg/rte-update": "periodic",
 "topology.node.k8s.io/fingerprint": "pfp0v001fe53c4dbd2c5f4a0"}},
"attributes": [{"name": "nodeTopologyPodsFingerprint", "value": "pfp0v001fe53c4dbd2c5f4a0"},
 {"name": "nodeTopologyPodsFingerprintMethod", "value": "with-exclusive-resources"},
 {"name": "topologyManagerScope", "value": "pod"},
 {"name": "topologyManagerPolicy", "value": "single-numa-node"}],
"zones": [
 {"name": "node-1", "type": "Node", "costs": [{"name": "node-0", "value": 20},
  {"name": "node-1", "value": 10}], "resources": [
  {"name": "cpu", "capacity": "12", "allocatable": "12", "available": "10"},
  {"name": "vendor.example/net", "capacity": "2", "allocatable": "2", "available": "1"}]},
 {"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": 10},
  {"name": "node-1", "value": 20}], "resources": [
  {"name": "memory", "capacity": "128G", "allocatable": "17179869184", "available": "1Gi"},
  {"name": "cpu", "capacity": "12", "allocatable": "11", "available": "11"}]}]}"""


def test_an_object_of_the_resource_topology_exporter_is_read() -> None:
    """Zones come in any order; quantities in any notation."""
    view = seen(convert_nrt(msgspec.json.decode(RTE)))
    assert view == NodeTopology(
        node="worker-0",
        zones=(
            ZoneView(
                id=0,
                name="node-0",
                capacity={"memory": 128 * 10**9, "cpu": 12000},
                allocatable={"memory": 16 * GI, "cpu": 11000},
                available={"memory": GI, "cpu": 11000},
                costs={0: 10, 1: 20},
                attributes={},
            ),
            ZoneView(
                id=1,
                name="node-1",
                capacity={"cpu": 12000, "vendor.example/net": 2},
                allocatable={"cpu": 12000, "vendor.example/net": 2},
                available={"cpu": 10000, "vendor.example/net": 1},
                costs={0: 20, 1: 10},
                attributes={},
            ),
        ),
        policy=TopologyPolicy.SINGLE_NUMA_NODE,
        scope=TopologyScope.POD,
        fingerprint="pfp0v001fe53c4dbd2c5f4a0",
        fingerprint_method=FingerprintMethod.WITH_EXCLUSIVE_RESOURCES,
        producer=Producer.RTE,
        resource_version="77",
        generation=4,
        topology_options={},
        cpu_manager_options={},
    )


def test_an_object_of_node_feature_discovery_is_read() -> None:
    """It writes the deprecated field and the attributes, and fingerprints all pods."""
    view = seen(
        nrt(
            policies=("RestrictedPodLevel",),
            attributes={
                "topologyManagerPolicy": "restricted",
                "topologyManagerScope": "pod",
                "cpu_core": "0-3",
                "nodeTopologyPodsFingerprint": "pfp0v001ef46db3751d8e999",
            },
        )
    )
    assert (view.producer, view.policy, view.scope) == (Producer.NFD, "restricted", "pod")
    assert view.fingerprint_method is FingerprintMethod.ALL
    assert view.problems == ()


def test_an_object_of_koordlet_is_read_and_known_not_to_follow_the_pods() -> None:
    """Version v1alpha1, with the CPU policy in an annotation."""
    tree = {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": "worker-0",
            "labels": {"app.kubernetes.io/managed-by": "Koordinator"},
            "annotations": {
                "kubelet.koordinator.sh/cpu-manager-policy": (
                    '{"policy":"static","options":{"full-pcpus-only":"true"},"reservedCPUs":"0"}'
                )
            },
        },
        "topologyPolicies": ["BestEffortContainerLevel"],
        "zones": [{"name": "node-0", "type": "Node", "resources": []}],
    }
    view = seen(convert_nrt(tree))
    assert (view.producer, view.live) == (Producer.KOORDLET, False)
    assert (view.policy, view.scope) == ("best-effort", "container")
    assert view.cpu_manager_policy == "static"
    assert view.cpu_manager_options == {"full-pcpus-only": "true"}


def test_a_koordlet_annotation_that_is_no_json_is_a_problem_only() -> None:
    """The zones serve nevertheless."""
    view = seen(nrt(annotations={"kubelet.koordinator.sh/cpu-manager-policy": "{"}))
    assert view.cpu_manager_policy is None
    assert len(view.problems) == 1


def test_our_own_attributes_tell_every_manager() -> None:
    """Options are spelled as the plugin's documentation asks."""
    view = seen(
        nrt(
            attributes={
                nrt_names.TOPOLOGY_POLICY: "restricted",
                nrt_names.TOPOLOGY_SCOPE: "container",
                nrt_names.MAX_NUMA_NODES: "16",
                "topologyManagerOptionPreferClosestNumaNodes": "true",
                nrt_names.CPU_POLICY: "static",
                "cpuManagerOptionFullPcpusOnly": "true",
                nrt_names.MEMORY_POLICY: "Static",
                nrt_names.STALE: "kubelet away since 12:00",
            }
        )
    )
    assert view.producer is Producer.NUMAKUBE
    assert view.max_numa_nodes == 16
    assert view.topology_options == {"prefer-closest-numa-nodes": "true"}
    assert (view.cpu_manager_policy, view.memory_manager_policy) == ("static", "Static")
    assert view.cpu_manager_options == {"full-pcpus-only": "true"}
    assert view.stale
    assert view.stale_reason == "kubelet away since 12:00"
    assert view.why_old == "kubelet away since 12:00"
    assert replace(view, stale_reason=None, orphaned="it is gone").why_old == "it is gone"
    assert replace(view, stale_reason=None).why_old == ""


def test_missing_attributes_have_the_kubelet_s_defaults() -> None:
    """Managers that the report does not mention stay unknown."""
    view = seen(nrt())
    assert (view.policy, view.scope, view.max_numa_nodes) == ("none", "container", 8)
    assert (view.cpu_manager_policy, view.memory_manager_policy) == (None, None)
    assert (view.fingerprint, view.stale, view.producer) == (None, False, Producer.UNKNOWN)


@pytest.mark.parametrize(
    ("policies", "attributes", "policy", "scope"),
    [
        (("SingleNUMANodePodLevel",), {}, "single-numa-node", "pod"),
        (("SingleNUMANodePodLevel", "None"), {}, "single-numa-node", "pod"),
        (("SingleNUMANodePodLevel",), {"topologyManagerScope": "container"}, "single-numa-node",
         "container"),
        (("BestEffortPodLevel",), {"topologyManagerPolicy": "restricted"}, "restricted", "pod"),
        (("Restricted",), {}, "restricted", "container"),
        (("None",), {}, "none", "container"),
        (("Nonsense",), {"topologyManagerPolicy": "Restricted"}, "none", "container"),
    ],
)  # fmt: skip
def test_attributes_override_legacy_policies_one_by_one(
    policies: tuple[str, ...], attributes: dict[str, str], policy: str, scope: str
) -> None:
    """As in the Go plugin, except that a policy without scope counts."""
    view = seen(nrt(policies=policies, attributes=attributes))
    assert (view.policy, view.scope) == (policy, scope)


@pytest.mark.parametrize(
    ("policies", "attributes", "producer"),
    [
        (("Restricted",), {}, Producer.UNKNOWN),
        ((), {nrt_names.TOPOLOGY_POLICY: "restricted"}, Producer.UNKNOWN),
        (("Restricted",), {nrt_names.TOPOLOGY_SCOPE: "pod"}, Producer.UNKNOWN),
        (("Restricted",), {nrt_names.TOPOLOGY_POLICY: "restricted"}, Producer.NFD),
        (("Restricted",), {nrt_names.TOPOLOGY_POLICY: "x", nrt_names.NRI_POLICY: "x"},
         Producer.NRI_PLUGINS),
    ],
)  # fmt: skip
def test_only_nfd_tells_a_policy_in_both_ways(
    policies: tuple[str, ...], attributes: dict[str, str], producer: Producer
) -> None:
    """Unless another one has left its mark."""
    assert seen(nrt(policies=policies, attributes=attributes)).producer is producer


def test_legacy_policies_after_the_first_are_a_problem() -> None:
    """Which are ignored is told; one policy alone is none."""
    told = seen(nrt(policies=("Restricted", "None", "BestEffort"))).problems
    assert told == ("topologyPolicies: all but the first ignored: None, BestEffort",)
    assert seen(nrt(policies=("Restricted",))).problems == ()


def test_the_last_valid_attribute_of_a_name_wins() -> None:
    """As in the Go plugin."""
    texts = ("restricted", "best-effort", "BEST")
    attributes = tuple(Attribute(name=nrt_names.TOPOLOGY_POLICY, value=text) for text in texts)
    view = seen(msgspec.structs.replace(nrt(), attributes=attributes))
    assert view.policy == "best-effort"
    assert view.problems == ("attribute topologyManagerPolicy: 'BEST' ignored",)


@pytest.mark.parametrize(
    ("text", "most"), [("2", 2), ("1", 8), ("0", 8), ("-3", 8), ("x", 8), ("5000", 1024)]
)
def test_the_number_of_numa_nodes_is_bounded(text: str, most: int) -> None:
    """The plugin's bounds."""
    view = seen(nrt(attributes={nrt_names.MAX_NUMA_NODES: text}))
    assert view.max_numa_nodes == most
    assert (view.problems == ()) == (text in ("2", "5000"))


def test_the_annotation_serves_where_there_is_no_fingerprint_attribute() -> None:
    """It is always of all pods."""
    view = seen(
        nrt(
            annotations={nrt_names.FINGERPRINT_ANNOTATION: "pfp0v001ef46db3751d8e999"},
            attributes={nrt_names.FINGERPRINT_METHOD: "with-exclusive-resources"},
        )
    )
    assert view.fingerprint == "pfp0v001ef46db3751d8e999"
    assert view.fingerprint_method is FingerprintMethod.ALL


def test_an_empty_fingerprint_attribute_hides_the_annotation() -> None:
    """The attribute is looked at first, even if it says nothing."""
    view = seen(
        nrt(
            annotations={nrt_names.FINGERPRINT_ANNOTATION: "pfp0v001ef46db3751d8e999"},
            attributes={nrt_names.FINGERPRINT: "", nrt_names.FINGERPRINT_METHOD: "odd"},
        )
    )
    assert view.fingerprint is None
    assert view.problems == ("attribute nodeTopologyPodsFingerprintMethod: 'odd' read as all",)


@pytest.mark.parametrize(
    ("zone_names", "ids"),
    [
        (("node-1", "node-0"), (0, 1)),
        (("node-0", "node-8"), (0, 8)),
        (("numa-node-0", "numa-node-1"), (0, 1)),
        (("NUMA1", "NUMA0"), (0, 1)),
        (("1", "0"), (0, 1)),
        (("node-01", "node-+2"), (1, 2)),
        (("socket-1-numa-3",), (3,)),
        (("node-63",), (63,)),
    ],
)
def test_a_zone_is_the_numa_node_whose_number_ends_its_name(
    zone_names: tuple[str, ...], ids: tuple[int, ...]
) -> None:
    """Ids may have holes."""
    view = seen(nrt(*(zone(name) for name in zone_names)))
    assert tuple(one.id for one in view.zones) == ids


@pytest.mark.parametrize(
    ("zone_names", "reason"),
    [
        (("left", "node-1"), "zone 'left': the name has no NUMA id from 0 to 63"),
        (("node-64",), "zone 'node-64': the name has no NUMA id from 0 to 63"),
        (("node--1",), "zone 'node--1': the name has no NUMA id from 0 to 63"),
        (("",), "zone '': the name has no NUMA id from 0 to 63"),
        (("node-1", "node-01"), "zone 'node-01': NUMA id 1 appears twice"),
        (("node-0", "node-0"), "zone 'node-0': NUMA id 0 appears twice"),
    ],
)
def test_a_numa_node_that_cannot_be_identified_makes_the_object_unusable(
    zone_names: tuple[str, ...], reason: str
) -> None:
    """The reason names the zone."""
    assert refused(nrt(*(zone(name) for name in zone_names))) == reason


def test_zones_of_other_types_are_passed_over() -> None:
    """They are no problem either."""
    view = seen(
        nrt(
            Zone(name="socket-0", type="Socket"),
            zone("node-0", parent="socket-0"),
            Zone(name="pool-7", type="balloon", parent="node-0"),
        )
    )
    assert [one.name for one in view.zones] == ["node-0"]
    assert view.problems == ()


def test_a_part_of_a_numa_node_is_not_counted_twice() -> None:
    """It is listed as a problem."""
    view = seen(nrt(zone("node-0"), zone("node-0-half-1", parent="node-0")))
    assert [one.name for one in view.zones] == ["node-0"]
    assert view.problems == ("zone 'node-0-half-1': ignored as a part of zone 'node-0'",)


def test_an_object_without_numa_nodes_is_unusable() -> None:
    """The reason says what was found instead."""
    empty = msgspec.structs.replace(nrt(), zones=())
    assert refused(empty) == "there are no zones"
    pools = msgspec.structs.replace(nrt(), zones=(Zone(name="p", type="balloon"),))
    assert refused(pools) == (
        "no zone has type 'Node'; found 'balloon': pools of CPUs tell no NUMA nodes"
    )
    assert refused(nrt(name="")) == "the object has no name, so its node is not known"


@pytest.mark.parametrize(
    ("texts", "amounts", "problem"),
    [
        (("4", "4", "-1"), (4, 4, 0), "available is negative, read as 0"),
        (("4", "3", "4"), (4, 3, 3), "more available than allocatable, read as allocatable"),
        (("4", "4", "1e30"), (0, 0, 0), "read as none: quantity '1e30': too large"),
        ((MOST, MOST, MOST), (int(MOST), int(MOST), int(MOST)), None),
        (
            ("4", "4", f"{int(MOST) + 1}"),
            (0, 0, 0),
            f"read as none: quantity '{int(MOST) + 1}': too large",
        ),
        (("4", "4", "1500m"), (4, 4, 1), None),
        (("4", "4", "0"), (4, 4, 0), None),
    ],
)
def test_odd_quantities_give_no_credit(
    texts: tuple[str, str, str], amounts: tuple[int, int, int], problem: str | None
) -> None:
    """What cannot be given out is not available."""
    view = seen(nrt(zone("node-0", resource("vendor.example/gpu", *texts))))
    (only,) = view.zones
    found = (only.capacity, only.allocatable, only.available)
    assert tuple(entry["vendor.example/gpu"] for entry in found) == amounts
    expected = (f"zone 'node-0': vendor.example/gpu: {problem}",) if problem else ()
    assert view.problems == expected


def test_text_that_is_no_quantity_gives_no_credit() -> None:
    """The resource is still known to the zone."""
    view = seen(nrt(zone("node-0", resource("cpu", "x", "1", "1"))))
    assert view.zones[0].available == {"cpu": 0}
    assert view.problems[0].startswith("zone 'node-0': cpu: read as none: quantity 'x'")


def test_of_a_resource_listed_twice_the_last_counts() -> None:
    """As in the Go plugin."""
    view = seen(nrt(zone("node-0", resource("cpu", "4", "4", "4"), resource("cpu", "2", "2", "1"))))
    assert view.zones[0].available == {"cpu": 1000}
    assert view.problems == ("zone 'node-0': cpu: appears twice, the last one counts",)


def test_costs_to_unknown_zones_are_dropped() -> None:
    """Others are kept."""
    costs = (Cost(name="node-0", value=10), Cost(name="node-9", value=30))
    view = seen(nrt(zone("node-0", costs=costs)))
    assert view.zones[0].costs == {0: 10}
    assert view.problems == ("zone 'node-0': cost to unknown zone 'node-9' ignored",)


def test_zone_attributes_are_kept() -> None:
    """Of a name that appears twice, the first."""
    attributes = (
        Attribute(name=nrt_names.PLACEMENT_VECTOR, value="#"),
        Attribute(name=nrt_names.PLACEMENT_VECTOR, value="later"),
    )
    view = seen(nrt(zone("node-0", attributes=attributes)))
    assert view.zones[0].attributes == {nrt_names.PLACEMENT_VECTOR: "#"}
    assert view.zone(0) is view.zones[0]
    assert view.zone(1) is None


TEXTS = st.text(max_size=8) | st.sampled_from(
    ["node-0", "node-1", "numa-1", "Node", "cpu", "1Gi", "-1", "nan", "1e999999999", *()]
)
QUANTITIES = TEXTS | st.integers() | st.floats()
ZONES = st.builds(
    Zone,
    name=TEXTS,
    type=st.just("Node") | TEXTS,
    parent=TEXTS,
    costs=st.lists(st.builds(Cost, name=TEXTS, value=st.integers()), max_size=2).map(tuple),
    resources=st.lists(
        st.builds(
            ZoneResource,
            name=TEXTS,
            capacity=QUANTITIES,
            allocatable=QUANTITIES,
            available=QUANTITIES,
        ),
        max_size=2,
    ).map(tuple),
)
KNOWN = st.sampled_from(
    [
        nrt_names.TOPOLOGY_POLICY, nrt_names.MAX_NUMA_NODES, nrt_names.FINGERPRINT, nrt_names.STALE,
        nrt_names.EXACT_ANNOTATION, "cpuManagerOption", "kubelet.koordinator.sh/cpu-manager-policy",
    ]
)  # fmt: skip


@given(
    zones=st.lists(ZONES, max_size=3),
    attributes=st.dictionaries(KNOWN | TEXTS, TEXTS, max_size=3),
    annotations=st.dictionaries(KNOWN | TEXTS, TEXTS, max_size=3),
)
def test_no_object_makes_reading_fail(
    zones: list[Zone], attributes: dict[str, str], annotations: dict[str, str]
) -> None:
    """And available stays between nothing and allocatable."""
    whole = nrt(attributes=attributes, annotations=annotations)
    view = view_of(msgspec.structs.replace(whole, zones=tuple(zones)))
    if isinstance(view, NodeTopology):
        for one in view.zones:
            for name, amount in one.available.items():
                assert 0 <= amount <= max(0, one.allocatable[name])


@pytest.mark.parametrize("option", ["full-pcpus-only", "prefer-align-cpus-by-uncorecache"])
def test_the_attribute_of_an_option_reads_back_as_the_option(option: str) -> None:
    """Camel case there, dashes here."""
    attribute = nrt_names.option_attribute(nrt_names.CPU_OPTION_PREFIX, option)
    assert nrt_names.option_of(nrt_names.CPU_OPTION_PREFIX, attribute) == option
    assert nrt_names.option_of(nrt_names.TOPOLOGY_OPTION_PREFIX, attribute) is None


def test_an_exact_report_is_part_of_the_view() -> None:
    """A reader that knows the version uses it."""
    report = ExactReport(
        machine=as_the_kubelet_sees_it(from_shape("2 sockets, 2 cores, 1Gi")),
        settings=KubeletSettings(),
        kubernetes="1.35",
    )
    view = seen(nrt(annotations={nrt_names.EXACT_ANNOTATION: encode_report(report)}))
    assert view.report == report
    assert view.producer is Producer.NUMAKUBE


def test_an_exact_report_of_another_version_is_ignored_with_a_reason() -> None:
    """The counts still serve."""
    view = seen(nrt(annotations={nrt_names.EXACT_ANNOTATION: '{"v":9}'}))
    assert view.report is None
    assert view.problems == (
        "annotation topology.numakube.dev/exact ignored: version 9 is not known; this reader "
        "knows 1",
    )
