"""D27: NodeResourceTopologies are converted between v1alpha1, v1alpha2 and v1beta1 without loss."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.topology.producers import NAMES, document

from numakube.api.nrt import GROUP, V1ALPHA1, V1ALPHA2, convert_nrt
from numakube.errors import MalformedObject
from numakube.topology import nrt_names
from numakube.topology.nrt_conversion import KEPT_PREFIX, VERSIONS, convert_version
from numakube.topology.nrt_v1beta1 import V1BETA1, legacy_policies
from numakube.topology.topology_view import NodeTopology, view_of

Tree = dict[str, Any]

NAME = st.sampled_from(["node-0", "node-1", "socket-0", "cpu", "memory", "vendor.example/gpu", ""])
TEXT = NAME | st.text(max_size=6)
QUANTITY = st.sampled_from(["0", "4", "1500m", "16Gi", "-1"]) | st.integers(0, 64)
ATTRIBUTE_NAMES = st.sampled_from(
    [
        nrt_names.TOPOLOGY_POLICY, nrt_names.TOPOLOGY_SCOPE, nrt_names.MAX_NUMA_NODES,
        nrt_names.CPU_POLICY, nrt_names.MEMORY_POLICY, nrt_names.FINGERPRINT,
        nrt_names.FINGERPRINT_METHOD, nrt_names.STALE, nrt_names.POLICY_UNKNOWN,
        nrt_names.PLACEMENT_METADATA, nrt_names.PLACEMENT_VECTOR,
        "cpuManagerOptionFullPcpusOnly", "topologyManagerOptionPreferClosestNumaNodes",
        "topologyManagerOptionodd", "cpuManagerOption",
    ]
)  # fmt: skip
ATTRIBUTES = st.lists(
    st.fixed_dictionaries(
        {
            "name": ATTRIBUTE_NAMES | TEXT,
            "value": TEXT
            | st.sampled_from(
                ["restricted", "single-numa-node", "pod", "static", "Static", "16", "+16", "true"]
            ),
        }
    ),
    max_size=5,
)
POLICIES = st.lists(
    st.sampled_from(["None", "SingleNUMANodePodLevel", "RestrictedContainerLevel", "Restricted"])
    | TEXT,
    max_size=2,
)
COSTS = st.lists(
    st.fixed_dictionaries({"name": TEXT, "value": st.integers(0, 255)}), max_size=2
)  # fmt: skip
RESOURCES = st.lists(
    st.fixed_dictionaries(
        {"name": NAME, "capacity": QUANTITY, "allocatable": QUANTITY, "available": QUANTITY}
    ),
    max_size=3,
)
ZONES = st.lists(
    st.fixed_dictionaries(
        {"name": NAME, "type": st.just("Node") | TEXT},
        optional={"parent": TEXT, "costs": COSTS, "attributes": ATTRIBUTES, "resources": RESOURCES},
    ),
    max_size=3,
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("worker-0"), "uid": st.just("1")},
    optional={"annotations": st.dictionaries(TEXT, TEXT, min_size=1, max_size=2)},
)


def objects(version: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Tree]:
    """Objects of a version; *fields* may be missing."""
    envelope = {
        "apiVersion": st.just(version),
        "kind": st.just("NodeResourceTopology"),
        "metadata": METADATA,
    }
    return st.fixed_dictionaries(envelope, optional=fields)


OLD = objects(V1ALPHA1, topologyPolicies=POLICIES, zones=ZONES)
NOW = objects(V1ALPHA2, topologyPolicies=POLICIES, attributes=ATTRIBUTES, zones=ZONES)
MANAGER = st.fixed_dictionaries(
    {},
    optional={
        "policy": st.sampled_from(["none", "static", "restricted", "Static"]),
        "scope": st.sampled_from(["pod", "container"]),
        "maxNUMANodes": st.integers(0, 64),
        "policyOptions": st.dictionaries(
            st.sampled_from(["full-pcpus-only", "x", "Odd Option"]), TEXT, max_size=2
        ),
    },
)
CONDITIONS = st.lists(
    st.fixed_dictionaries(
        {
            "type": st.sampled_from(["Current", "KubeletConfigurationKnown", "Ready"]),
            "status": st.sampled_from(["True", "False", "Unknown"]),
        },
        optional={
            "reason": TEXT,
            "message": TEXT,
            "lastTransitionTime": st.just("2026-11-16T08:00:00Z"),
        },
    ),
    max_size=3,
)
SPEC = st.fixed_dictionaries(
    {},
    optional={
        "kubelet": st.dictionaries(
            st.sampled_from(["topologyManager", "cpuManager", "memoryManager"]), MANAGER
        ),
        "attributes": ATTRIBUTES,
        "zones": st.lists(
            st.fixed_dictionaries(
                {"name": NAME, "type": TEXT},
                optional={
                    "parent": TEXT,
                    "attributes": ATTRIBUTES,
                    "distances": st.lists(
                        st.fixed_dictionaries({"zone": TEXT, "value": st.integers(0, 255)}),
                        max_size=2,
                    ),
                    "resources": st.lists(
                        st.fixed_dictionaries(
                            {"name": NAME, "capacity": QUANTITY, "allocatable": QUANTITY}
                        ),
                        max_size=2,
                    ),
                },
            ),
            max_size=3,
        ),
    },
)
STATUS = st.fixed_dictionaries(
    {},
    optional={
        "heartbeatTime": st.just("2026-11-16T08:00:00.000000Z"),
        "conditions": CONDITIONS,
        "pods": st.fixed_dictionaries(
            {}, optional={"fingerprint": TEXT, "fingerprintMethod": TEXT}
        ),
        "attributes": ATTRIBUTES,
        "zones": st.lists(
            st.fixed_dictionaries(
                {"name": NAME},
                optional={
                    "attributes": ATTRIBUTES,
                    "resources": st.lists(
                        st.fixed_dictionaries({"name": NAME, "available": QUANTITY}), max_size=2
                    ),
                },
            ),
            max_size=3,
        ),
    },
)
NEW = objects(V1BETA1, spec=SPEC, status=STATUS)


@given(tree=OLD | NOW | NEW, way=st.lists(st.sampled_from(VERSIONS), max_size=4))
def test_an_object_comes_back_as_it_was_by_any_way(tree: Tree, way: list[str]) -> None:
    """D27: whatever versions it goes through, to the last field, order and annotation."""
    before = deepcopy(tree)
    moved = tree
    for version in way:
        moved = convert_version(moved, version)
        assert moved["apiVersion"] == version
    assert convert_version(moved, before["apiVersion"]) == before
    assert tree == before


@given(tree=NOW)
def test_only_labels_and_annotations_of_the_metadata_change(tree: Tree) -> None:
    """An API server refuses a conversion that changes more."""
    moved = convert_version(tree, V1BETA1)
    for metadata in (moved["metadata"], tree["metadata"]):
        metadata.pop("annotations", None)
    assert moved["metadata"] == tree["metadata"]


SEEN = (
    "zones", "policy", "scope", "max_numa_nodes", "cpu_manager_policy", "memory_manager_policy",
    "fingerprint", "stale_reason", "policy_unknown",
)  # fmt: skip


@given(tree=NOW)
def test_schedulers_see_the_same_even_without_what_was_kept(tree: Tree) -> None:
    """What an annotation carries is form; what a scheduler needs is in the fields."""
    moved = convert_version(tree, V1BETA1)
    annotations = moved["metadata"].get("annotations", {})
    moved["metadata"]["annotations"] = {
        name: value for name, value in annotations.items() if not name.startswith(KEPT_PREFIX)
    }
    before, after = (view_of(convert_nrt(one)) for one in (tree, convert_version(moved, V1ALPHA2)))
    if not isinstance(before, NodeTopology):
        assert type(after) is type(before)
        return
    assert isinstance(after, NodeTopology)
    for field in SEEN:
        assert getattr(after, field) == getattr(before, field), field


@pytest.mark.parametrize("name", [name for name in NAMES if name != "volcano"])
def test_objects_of_every_producer_come_back_as_they_were(name: str) -> None:
    """From their own version to each other one."""
    tree = document(name)
    for version in VERSIONS:
        assert convert_version(convert_version(tree, version), tree["apiVersion"]) == tree


def test_the_new_version_has_what_the_machine_is_apart_from_what_is_left() -> None:
    """D27: attributes that readers know are fields."""
    moved = convert_version(document("rte"), V1BETA1)
    spec, status = moved["spec"], moved["status"]
    manager = {"policy": "single-numa-node", "scope": "container"}
    assert spec["kubelet"] == {"topologyManager": manager}
    assert spec["zones"][0]["resources"][0] == {"name": "cpu", "capacity": "4", "allocatable": "4"}
    assert spec["zones"][0]["distances"][0] == {"zone": "node-0", "value": 12}
    assert status["zones"][0]["resources"][0] == {"name": "cpu", "available": "2"}
    assert status["pods"] == {
        "fingerprint": "pfp0v001fe53c4dbd2c5f4a0",
        "fingerprintMethod": "with-exclusive-resources",
    }


def test_a_stale_report_has_a_condition() -> None:
    """And a condition makes a stale report for readers of v1alpha2."""
    tree = document("rte")
    tree["attributes"].append({"name": nrt_names.STALE, "value": "the kubelet is away"})
    moved = convert_version(tree, V1BETA1)
    condition = {"type": "Current", "status": "False", "reason": "Stale"}
    assert moved["status"]["conditions"] == [{**condition, "message": "the kubelet is away"}]
    moved["status"]["conditions"][0]["message"] = "the node is away"
    view = view_of(convert_nrt(convert_version(moved, V1ALPHA2)))
    assert isinstance(view, NodeTopology)
    assert view.stale_reason == "the node is away"


def test_what_is_written_in_another_version_counts() -> None:
    """What was kept of a field that has changed since is dropped; the rest comes back."""
    tree = convert_version(document("rte"), V1BETA1)
    tree["status"]["heartbeatTime"] = "2026-11-16T08:00:00.000000Z"
    stored = convert_version(tree, V1ALPHA2)
    stored["zones"][0]["resources"][0]["available"] = "1"
    moved = convert_version(stored, V1BETA1)
    assert moved["status"]["zones"][0]["resources"][0]["available"] == "1"
    assert moved["status"]["heartbeatTime"] == "2026-11-16T08:00:00.000000Z"
    moved["spec"]["kubelet"]["topologyManager"]["policy"] = "restricted"
    again = convert_version(moved, V1ALPHA1)
    assert again["topologyPolicies"] == ["RestrictedContainerLevel"]


def test_an_old_writer_keeps_what_it_does_not_know() -> None:
    """C21: without a conversion v1alpha1 loses the attributes; with it they stay."""
    old = convert_version(document("nfd"), V1ALPHA1)
    assert "attributes" not in old
    old["zones"][0]["resources"][1]["available"] = "1"
    now = convert_version(old, V1ALPHA2)
    assert now["attributes"] == document("nfd")["attributes"]
    assert now["zones"][0]["resources"][1]["available"] == "1"


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"apiVersion": f"{GROUP}/v9"}, "apiVersion"),
        ({"kind": "Pod"}, "apiVersion"),
        ({"zones": [1]}, ""),
        ({"zones": [{"name": "node-0"}]}, ""),
        ({"attributes": [{"name": "x"}]}, ""),
    ],
)
def test_what_cannot_be_converted_is_refused_by_name(change: Tree, path: str) -> None:
    """An API server shows it to the caller."""
    with pytest.raises(MalformedObject) as caught:
        convert_version({**document("rte"), **change}, V1BETA1)
    assert (caught.value.path or "") == path
    assert "worker-0" in str(caught.value)


def test_an_object_from_before_available_was_there_comes_back_as_it_was() -> None:
    """D27: such objects may still be stored; what they have left is nothing until it is told."""
    tree = document("koordlet")
    for zone in tree["zones"]:
        for resource in zone["resources"]:
            del resource["available"]
    moved = convert_version(tree, V1BETA1)
    assert "resources" not in moved["status"]["zones"][0]
    assert convert_version(moved, V1ALPHA1) == tree


def test_a_spoiled_annotation_keeps_nothing() -> None:
    """People edit annotations."""
    tree = document("rte")
    for text in ("{", "[]", '{"attributes": 1}', '{"attributes": {}}'):
        tree["metadata"]["annotations"][KEPT_PREFIX + "v1beta1"] = text
        assert convert_version(tree, V1BETA1)["spec"]["zones"]


@pytest.mark.parametrize("name", [name for name in NAMES if name != "volcano"])
def test_zones_of_an_object_that_was_written_in_v1beta1_are_read(name: str) -> None:
    """It carries nothing along from an earlier version."""
    old = document(name)
    new = convert_version(old, V1BETA1)
    new["metadata"].pop("annotations", None)
    assert convert_nrt(convert_version(new, V1ALPHA2)).zones == convert_nrt(old).zones


def test_what_has_a_field_is_not_an_attribute_too() -> None:
    """Writers of v1beta1 would change the field and leave a contradiction."""
    tree = document("rte")
    tree["attributes"] += [
        {"name": nrt_names.STALE, "value": "the kubelet is away"},
        {"name": nrt_names.POLICY_UNKNOWN, "value": "no answer"},
        {"name": nrt_names.MAX_NUMA_NODES, "value": "16"},
        {"name": nrt_names.MEMORY_POLICY, "value": "Static"},
        {"name": "cpuManagerOptionFullPcpusOnly", "value": "true"},
        {"name": "example.com/team", "value": "a"},
    ]
    moved = convert_version(tree, V1BETA1)
    assert moved["spec"]["attributes"] == [{"name": "example.com/team", "value": "a"}]
    assert "attributes" not in moved["status"]
    assert moved["spec"]["kubelet"] == {
        "topologyManager": {
            "policy": "single-numa-node",
            "scope": "container",
            "maxNUMANodes": 16,
        },
        "cpuManager": {"policyOptions": {"full-pcpus-only": "true"}},
        "memoryManager": {"policy": "Static"},
    }
    assert [condition["type"] for condition in moved["status"]["conditions"]] == [
        "Current",
        "KubeletConfigurationKnown",
    ]


def test_fields_of_pods_are_attributes_for_readers_of_v1alpha2() -> None:
    """Also of an object that was written in v1beta1, with one of the two or none."""
    tree = convert_version(document("rte"), V1BETA1)
    del tree["metadata"]["annotations"]
    for pods in ({}, {"fingerprint": "pfp0v001fe53c4dbd2c5f4a0"}, {"fingerprintMethod": "all"}):
        tree["status"]["pods"] = pods
        told = convert_version(tree, V1ALPHA2)["attributes"]
        names = (nrt_names.FINGERPRINT, nrt_names.FINGERPRINT_METHOD)
        found = [entry["value"] for entry in told if entry["name"] in names]
        assert found == list(pods.values())


def test_policies_of_v1alpha1_are_attributes_in_v1alpha2() -> None:
    """Where writers look for them; without a policy there are none."""
    old = {
        "apiVersion": V1ALPHA1,
        "kind": "NodeResourceTopology",
        "metadata": {"name": "worker-0"},
        "topologyPolicies": ["RestrictedPodLevel"],
        "zones": [],
    }
    assert convert_version(old, V1ALPHA2)["attributes"] == [
        {"name": nrt_names.TOPOLOGY_POLICY, "value": "restricted"},
        {"name": nrt_names.TOPOLOGY_SCOPE, "value": "pod"},
    ]
    assert "attributes" not in convert_version({**old, "topologyPolicies": []}, V1ALPHA2)


def test_attributes_that_tell_no_policy_leave_the_legacy_field_empty() -> None:
    """Readers of that field take their own default, which need not be none."""
    assert legacy_policies([{"name": nrt_names.TOPOLOGY_SCOPE, "value": "pod"}]) == []
    assert legacy_policies([{"name": nrt_names.TOPOLOGY_POLICY, "value": "none"}]) == ["None"]
