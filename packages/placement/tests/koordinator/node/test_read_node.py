"""Facts of a node: from any producer of NRTs, from labels, annotations and the Device."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.codec import convert
from numakube.api.koordinator.devices import DeviceCr
from numakube.api.nodes import Node
from numakube.api.nrt import convert_nrt
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology import nrt_names
from numakube.topology.exact_report import ExactReport, Holding, uid_hash
from numakube.topology.report_codec import encode_report
from numakube.topology.report_notation import as_the_kubelet_sees_it
from numakube.topology.topology_view import Unusable, view_of
from numakube.values.cpuset import CpuSet
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import BindPolicy, Strategy
from numakube_placement.koordinator.node_facts import CpuPlace, NodeFacts
from numakube_placement.koordinator.read_node import facts_of

POLICY = "node.koordinator.sh/numa-topology-policy"
SCOPE = "node.koordinator.sh/numa-topology-scope"
BIND = "node.koordinator.sh/cpu-bind-policy"
STRATEGY = "node.koordinator.sh/numa-allocate-strategy"
RATIO = "node.koordinator.sh/resource-amplification-ratio"
RESERVATION = "node.koordinator.sh/reservation"
SYSTEM_QOS = "node.koordinator.sh/system-qos-resource"
TOPOLOGY = "node.koordinator.sh/cpu-topology"
CPU_MANAGER = "kubelet.koordinator.sh/cpu-manager-policy"
ALLOCS = "node.koordinator.sh/pod-cpu-allocs"
KOORDLET = {"app.kubernetes.io/managed-by": "Koordinator"}
GI = 1 << 30


def topology(numas: tuple[int, ...] = (0, 1), cpus: int = 4) -> dict[str, Any]:
    """Return the annotation of a machine with *cpus* single-thread cores a NUMA node."""
    return {
        "detail": [
            {"id": cpu, "core": cpu, "socket": index, "node": numa}
            for index, numa in enumerate(numas)
            for cpu in range(index * cpus, (index + 1) * cpus)
        ]
    }


def facts(
    labels: dict[str, str] | None = None,
    annotations: dict[str, Any] | None = None,
    device: dict[str, Any] | None = None,
    allocatable: dict[str, str] | None = None,
    **nrt: Any,
) -> NodeFacts:
    """Return the facts of node n1; *nrt* sets parts of its NRT, which is koordlet's by default."""
    tree = nrt_of(**nrt)
    topo = convert_nrt(tree)
    view = view_of(topo)
    node = convert(
        Node,
        {
            "metadata": {
                "name": "n1",
                "labels": labels or {},
                "annotations": texts(annotations or {}),
            },
            "status": {"allocatable": allocatable or {}},
        },
    )
    cr = convert(DeviceCr, device) if device is not None else None
    return facts_of(node, topo, None if isinstance(view, Unusable) else view, cr)


def nrt_of(
    *,
    zones: dict[str, dict[str, str]] | None = None,
    told: dict[str, Any] | None = None,
    labels_of_nrt: dict[str, str] | None = None,
    policies: tuple[str, ...] = ("None",),
    attributes: dict[str, str] | None = None,
    version: str = "v1alpha1",
) -> dict[str, Any]:
    """Return an NRT as it stands in the API server."""
    return {
        "apiVersion": f"topology.node.k8s.io/{version}",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": "n1",
            "labels": KOORDLET if labels_of_nrt is None else labels_of_nrt,
            "annotations": texts({TOPOLOGY: topology()} if told is None else told),
        },
        "topologyPolicies": list(policies),
        "attributes": [
            {"name": name, "value": value} for name, value in (attributes or {}).items()
        ],
        "zones": [
            {
                "name": name,
                "type": "Node",
                "resources": [
                    {"name": key, "capacity": text, "allocatable": text, "available": text}
                    for key, text in amounts.items()
                ],
            }
            for name, amounts in (zones or dict.fromkeys(("node-0", "node-1"), AMOUNTS)).items()
        ],
    }


AMOUNTS = {"cpu": "4", "memory": "8Gi"}


def texts(annotations: dict[str, Any]) -> dict[str, str]:
    """Return *annotations* as text; a text stays as it is."""
    return {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in annotations.items()
    }


def exact(settings: KubeletSettings, kubernetes: str = "1.35", **more: Any) -> dict[str, str]:
    """Return the annotation of our exporter for a machine of 2 NUMA nodes with 8 CPUs each."""
    machine = as_the_kubelet_sees_it(from_shape("2 sockets, 4 cores, smt 2, 16Gi"))
    report = ExactReport(machine=machine, settings=settings, kubernetes=kubernetes, **more)
    return {nrt_names.EXACT_ANNOTATION: encode_report(report)}


def test_a_node_of_koordlet_has_its_zones_and_cpus() -> None:
    """Amounts are allocatable; nothing is taken off yet."""
    found = facts()
    assert found.problems == ()
    assert found.zones == {
        0: {"cpu": 4000, "memory": 8 * GI},
        1: {"cpu": 4000, "memory": 8 * GI},
    }
    assert found.cpus is not None
    assert found.cpus.places[5] == CpuPlace(id=5, core=5, socket=1, numa=1)
    assert found.reserved_cpus == 0
    assert found.kubelet_policy is TopologyPolicy.NONE


def test_numa_ids_may_have_holes() -> None:
    """Koordinator indexes by id; we do not."""
    found = facts(
        zones={"node-0": AMOUNTS, "node-2": AMOUNTS}, told={TOPOLOGY: topology(numas=(0, 2))}
    )
    assert found.zones.keys() == {0, 2}
    assert found.cpus is not None
    assert found.cpus.by_numa == {0: 0b1111, 2: 0b11110000}


@pytest.mark.parametrize(
    ("word", "policy", "scope"),
    [
        ("None", TopologyPolicy.NONE, None),
        ("", TopologyPolicy.NONE, None),
        ("Whatever", TopologyPolicy.NONE, None),
        ("BestEffort", TopologyPolicy.BEST_EFFORT, TopologyScope.CONTAINER),
        ("Restricted", TopologyPolicy.RESTRICTED, TopologyScope.CONTAINER),
        ("SingleNUMANode", TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.CONTAINER),
        ("BestEffortContainerLevel", TopologyPolicy.BEST_EFFORT, TopologyScope.CONTAINER),
        ("BestEffortPodLevel", TopologyPolicy.BEST_EFFORT, TopologyScope.POD),
        ("RestrictedContainerLevel", TopologyPolicy.RESTRICTED, TopologyScope.CONTAINER),
        ("RestrictedPodLevel", TopologyPolicy.RESTRICTED, TopologyScope.POD),
        ("SingleNUMANodeContainerLevel", TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.CONTAINER),
        ("SingleNUMANodePodLevel", TopologyPolicy.SINGLE_NUMA_NODE, TopologyScope.POD),
    ],
)
def test_every_word_for_the_kubelets_policy_is_known(
    word: str, policy: TopologyPolicy, scope: TopologyScope | None
) -> None:
    """Koordinator understands one of those that its own agent writes."""
    found = facts(policies=(word,))
    assert found.kubelet_policy is policy
    assert scope in {None, found.kubelet_scope}


@pytest.mark.parametrize("policy", ["best-effort", "restricted", "single-numa-node"])
@pytest.mark.parametrize("scope", ["pod", "container"])
def test_attributes_tell_the_kubelets_policy_as_well(policy: str, scope: str) -> None:
    """As RTE, NFD and our exporter write them."""
    attributes = {"topologyManagerPolicy": policy, "topologyManagerScope": scope}
    found = facts(policies=(), attributes=attributes, version="v1alpha2", labels_of_nrt={})
    assert found.kubelet_policy == policy
    assert found.kubelet_scope == scope


@pytest.mark.parametrize(
    ("word", "policy"),
    [
        ("BestEffort", TopologyPolicy.BEST_EFFORT),
        ("Restricted", TopologyPolicy.RESTRICTED),
        ("SingleNUMANode", TopologyPolicy.SINGLE_NUMA_NODE),
        ("None", TopologyPolicy.NONE),
        ("none", TopologyPolicy.NONE),
        ("", TopologyPolicy.NONE),
    ],
)
def test_the_label_names_the_policy(word: str, policy: TopologyPolicy) -> None:
    """The word None is no policy, and no mistake."""
    found = facts(labels={POLICY: word})
    assert (found.label_policy, found.problems) == (policy, ())


def test_labels_tell_scope_binding_and_strategy() -> None:
    """All of them at once."""
    found = facts(labels={SCOPE: "container", BIND: "SpreadByPCPUs", STRATEGY: "MostAllocated"})
    assert found.problems == ()
    assert found.label_scope is TopologyScope.CONTAINER
    assert (found.bind_policy, found.binds_all) == (BindPolicy.SPREAD_BY_PCPUS, True)
    assert found.strategy is Strategy.MOST_ALLOCATED


@pytest.mark.parametrize(
    ("key", "word"),
    [(POLICY, "single"), (SCOPE, "Pod"), (BIND, "FullPCPUs"), (STRATEGY, "Packed")],
)
def test_an_unknown_word_in_a_label_means_none_and_is_told(key: str, word: str) -> None:
    """With the node, the label and the words that are known."""
    found = facts(labels={key: word})
    (problem,) = found.problems
    assert problem.startswith(f"Node n1: metadata.labels[{key}]: unknown word {word!r}: use one of")
    plain = facts()
    assert (found.label_policy, found.label_scope, found.bind_policy, found.strategy) == (
        plain.label_policy,
        plain.label_scope,
        plain.bind_policy,
        plain.strategy,
    )


def test_a_label_that_a_live_kubelet_overrules_is_told() -> None:
    """The kubelet will do what it does."""
    found = facts(
        labels={POLICY: "Restricted", SCOPE: "container"}, policies=("SingleNUMANodePodLevel",)
    )
    assert [problem.split(": ")[2] for problem in found.problems] == [
        "Restricted does not count, because the kubelet aligns by SingleNUMANode",
        "container does not count, because the kubelet aligns by pod",
    ]
    agreed = facts(labels={POLICY: "Restricted"}, policies=("RestrictedPodLevel",))
    assert agreed.problems == ()


def test_a_kubelet_of_whole_cores_binds_by_whole_cores_but_not_everybody() -> None:
    """Pods in its shared pool stay there."""
    policy = {"policy": "static", "options": {"full-pcpus-only": "true"}}
    found = facts(told={TOPOLOGY: topology(), CPU_MANAGER: policy})
    assert (found.bind_policy, found.binds_all) == (BindPolicy.FULL_PCPUS, False)
    both = facts(labels={BIND: "SpreadByPCPUs"}, told={CPU_MANAGER: policy})
    assert (both.bind_policy, both.binds_all) == (BindPolicy.SPREAD_BY_PCPUS, True)
    assert facts(told={CPU_MANAGER: {"policy": "static"}}).bind_policy is BindPolicy.NONE


def test_reserved_cpus_come_from_four_sources() -> None:
    """The kubelet, pods that it has pinned, the owner of the node, and the system."""
    found = facts(
        annotations={RESERVATION: {"reservedCPUs": "1"}, SYSTEM_QOS: {"cpuset": "2"}},
        told={
            TOPOLOGY: topology(),
            CPU_MANAGER: {"policy": "static", "reservedCPUs": "0"},
            ALLOCS: [
                {"uid": "a", "cpuset": "4-5", "managedByKubelet": True},
                {"uid": "b", "cpuset": "6", "managedByKubelet": False},
                {"cpuset": "7", "managedByKubelet": True},
            ],
        },
    )
    assert found.problems == ()
    assert str(CpuSet(found.reserved_cpus)) == "0-2,4-5"


def test_the_copies_on_the_nrt_count_as_well() -> None:
    """There koordlet has filled in what the node's owner left open."""
    found = facts(
        annotations={RESERVATION: {"resources": {"cpu": "1500m"}}},
        told={
            TOPOLOGY: topology(),
            RESERVATION: {"reservedCPUs": "6-7"},
            SYSTEM_QOS: {"cpuset": "3"},
            ALLOCS: "null",
        },
    )
    assert found.problems == ()
    assert str(CpuSet(found.reserved_cpus)) == "3,6-7"


def test_a_reservation_without_a_list_takes_whole_cores_in_order() -> None:
    """If nobody has done so yet."""
    found = facts(annotations={RESERVATION: {"resources": {"cpu": "1500m"}}})
    assert str(CpuSet(found.reserved_cpus)) == "0-1"


def test_cpus_of_the_system_that_are_not_exclusive_may_be_bound() -> None:
    """They are exclusive unless it says otherwise."""
    shared = {"cpuset": "2", "cpusetExclusive": False}
    assert facts(annotations={SYSTEM_QOS: shared}).reserved_cpus == 0


@pytest.mark.parametrize(
    ("ratios", "known", "told"),
    [
        ({"cpu": 1.5, "memory": 1.2}, {"cpu": 1.5, "memory": 1.2}, 0),
        ({"cpu": 1}, {}, 0),
        ({"cpu": 0.5, "memory": 2}, {"memory": 2.0}, 1),
        ({"cpu": 1e30}, {}, 1),
        ({"cpu": "2"}, {}, 1),
        ("{", {}, 1),
    ],
)
def test_ratios_below_one_and_other_mistakes_count_as_not_set(
    ratios: Any, known: dict[str, float], told: int
) -> None:
    """The node is used without them."""
    found = facts(annotations={RATIO: ratios})
    assert found.ratios == known
    assert len(found.problems) == told
    assert all(
        problem.startswith(f"Node n1: metadata.annotations[{RATIO}]") for problem in found.problems
    )


def test_ratios_on_the_nrt_come_first() -> None:
    """Their writer has seen the node's."""
    found = facts(annotations={RATIO: {"cpu": 2}}, told={RATIO: {"cpu": 1.5}})
    assert found.ratios == {"cpu": 1.5}


@pytest.mark.parametrize(
    ("told", "place"),
    [
        ({TOPOLOGY: "{"}, TOPOLOGY),
        ({TOPOLOGY: {"detail": []}}, TOPOLOGY),
        ({TOPOLOGY: {"detail": topology()["detail"] * 2}}, TOPOLOGY),
        ({TOPOLOGY: {"detail": [{"id": -1, "core": 0, "socket": 0, "node": 0}]}}, TOPOLOGY),
        ({TOPOLOGY: {"detail": [{"id": 0, "core": 0, "socket": 0}]}}, TOPOLOGY),
        ({RESERVATION: {"reservedCPUs": "a"}}, RESERVATION),
        ({SYSTEM_QOS: {"cpuset": "3-1"}}, SYSTEM_QOS),
        ({ALLOCS: {}}, ALLOCS),
        ({ALLOCS: [{"uid": "a", "managedByKubelet": True, "cpuset": "x"}]}, ALLOCS),
        ({CPU_MANAGER: {"reservedCPUs": "x"}}, CPU_MANAGER),
    ],
)
def test_a_node_with_unreadable_data_is_used_without_it(told: dict[str, Any], place: str) -> None:
    """And the object and the annotation are told."""
    found = facts(told=told)
    (problem,) = found.problems
    assert problem.startswith(f"NodeResourceTopology n1: metadata.annotations[{place}]")
    assert found.cpus is None
    assert found.reserved_cpus == 0
    assert found.zones.keys() == {0, 1}


def test_without_an_nrt_only_labels_are_known() -> None:
    """Then nothing can be aligned there."""
    node = convert(Node, {"metadata": {"name": "n1", "labels": {POLICY: "Restricted"}}})
    found = facts_of(node, None, None, None)
    assert (found.zones, found.cpus, found.label_policy) == ({}, None, TopologyPolicy.RESTRICTED)


def test_our_exact_report_tells_cpus_and_memory_of_a_kubelet_that_manages_none() -> None:
    """Its zones have nothing to say of what the kubelet does not give out."""
    found = facts(
        told=exact(KubeletSettings()),
        labels_of_nrt={},
        policies=(),
        zones={"node-0": {"vendor.example/nic": "2"}, "node-1": {}},
        allocatable={"memory": "30Gi"},
    )
    assert found.zones == {
        0: {"cpu": 8000, "memory": 15 * GI, "vendor.example/nic": 2},
        1: {"cpu": 8000, "memory": 15 * GI},
    }
    assert found.cpus is not None
    assert found.cpus.cpus_per_core == 2
    assert found.reserved_cpus == 0


def test_our_exact_report_tells_what_a_static_cpu_manager_keeps() -> None:
    """Reserved CPUs, listed or picked by the kubelet, and those of pods that it has pinned."""
    listed = KubeletSettings(cpu_policy="static", reserved_cpus=CpuSet.parse("0,8"))
    picked = KubeletSettings(cpu_policy="static", reserved_cpu_milli=500)
    pinned = {uid_hash("a"): Holding(cpus=CpuSet.parse("2-3"))}
    zones = {"node-0": {"cpu": "7"}, "node-1": {"cpu": "8"}}
    for settings, kept in ((listed, "0,2-3,8"), (picked, "0,2-3")):
        told = exact(settings, shared_cpus=CpuSet.parse("0-1,4-15"), pods=pinned)
        found = facts(told=told, labels_of_nrt={}, policies=(), zones=zones)
        assert str(CpuSet(found.reserved_cpus)) == kept
        assert {zone: amounts["cpu"] for zone, amounts in found.zones.items()} == {
            0: 8000,
            1: 8000,
        }


def test_rte_tells_zones_and_no_cpus() -> None:
    """So pods can be aligned there but not bound."""
    found = facts(
        told={"k8stopoawareschedwg/rte-update": "periodic"},
        labels_of_nrt={},
        policies=(),
        version="v1alpha2",
    )
    assert found.cpus is None
    assert found.zones[0] == {"cpu": 4000, "memory": 8 * GI}


def test_devices_are_read_with_their_places() -> None:
    """A NUMA node below 0 or none at all is no preference."""
    device = {
        "metadata": {"name": "n1"},
        "spec": {
            "devices": [
                {
                    "type": "rdma",
                    "id": "0000:5f:00.0",
                    "health": True,
                    "resources": {"kubernetes.io/rdma": "100"},
                    "topology": {"nodeID": 1, "pcieID": "pci0000:5e", "busID": "0000:5f:00.0"},
                    "vfGroups": [
                        {"vfs": [{"minor": -1, "busID": "b"}]},
                        {"labels": {"fast": "yes"}, "vfs": [{"busID": "a"}]},
                    ],
                },
                {"type": "gpu", "minor": 1, "topology": {"nodeID": -1}, "labels": {"a": "b"}},
                {"type": "gpu", "minor": 0, "resources": {"koordinator.sh/gpu-core": "x"}},
                {"type": "gpu", "minor": 1},
            ]
        },
    }
    found = facts(device=device)
    gpu0, gpu1, rdma = found.devices
    assert (gpu0.type, gpu0.minor, gpu0.healthy, gpu0.resources) == ("gpu", 0, False, {})
    assert (gpu1.numa, gpu1.labels) == (None, {"a": "b"})
    assert (rdma.numa, rdma.pcie, rdma.vfs) == (1, "pci0000:5e", ("a", "b"))
    assert rdma.resources == {"koordinator.sh/rdma": 100}
    assert rdma.vf_labels == {"a": {"fast": "yes"}}
    assert [problem.split(": ")[1] for problem in found.problems] == [
        "spec.devices[2].resources",
        "spec.devices[3]",
    ]


_KEYS = (RATIO, RESERVATION, SYSTEM_QOS, TOPOLOGY, CPU_MANAGER, ALLOCS)
_VALUES = st.text(max_size=8) | st.sampled_from(
    ["{}", "[]", "null", "[null]", '{"cpu":-1}', '{"detail":[{}]}', '{"cpu":1e400}']
)


@given(st.dictionaries(st.sampled_from(_KEYS), _VALUES), st.text(max_size=8))
def test_no_annotation_or_label_raises(annotations: dict[str, str], word: str) -> None:
    """They are what people and other programs write."""
    labels = dict.fromkeys((POLICY, SCOPE, BIND, STRATEGY), word)
    found = facts(labels=labels, annotations=annotations, told=annotations, policies=(word,))
    assert found.zones


def test_facts_of_a_live_kubelet_do_not_change_with_its_pods() -> None:
    """Nothing is allotted there, so who holds what is for the kubelet model to know."""
    settings = KubeletSettings(
        topology_policy="restricted", cpu_policy="static", reserved_cpu_milli=1000
    )
    pinned = {uid_hash("a"): Holding(cpus=CpuSet.parse("2-3"))}
    idle = exact(settings, shared_cpus=CpuSet.parse("0-15"))
    busy = exact(settings, shared_cpus=CpuSet.parse("0-1,4-15"), pods=pinned)
    found = [facts(told=told, policies=("RestrictedPodLevel",)) for told in (idle, busy)]
    assert found[0] == found[1]
    assert found[0].kubelet_policy is TopologyPolicy.RESTRICTED


def test_a_kubelet_that_the_model_does_not_know_keeps_whole_cores() -> None:
    """One with an unknown option."""
    settings = KubeletSettings(
        cpu_policy="static", cpu_options={"unheard-of": "true"}, reserved_cpu_milli=1500
    )
    told = exact(settings, shared_cpus=CpuSet.parse("0-15"))
    found = facts(told=told, labels_of_nrt={}, policies=())
    assert found.reserved_cpus.bit_count() == 2
