"""D17: the author of a producer learns what is wrong with an object, field by field."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.topology.producers import document

from numakube.api.codec import to_tree
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings
from numakube.topology import nrt_names
from numakube.topology.conformance import RULES, ConformanceSeverity, findings_in
from numakube.topology.fingerprint import fingerprint_of
from numakube.topology.model_report import nrt_of

Tree = dict[str, Any]


def good() -> Tree:
    """An object without fault."""
    tree = deepcopy(document("rte"))
    tree["zones"].sort(key=lambda zone: zone["name"])
    return tree


def changed(path: str, value: object, tree: Tree | None = None) -> Tree:
    """Return the object with another value at *path*; ``...`` removes the field."""
    tree = good() if tree is None else tree
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    place: Any = tree
    for step in steps:
        place = place[step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return tree


def found(tree: Tree) -> list[tuple[str, str]]:
    """Return which rules are broken where."""
    return [(finding.rule.id, finding.field) for finding in findings_in(tree)]


def test_objects_of_rte_and_nfd_conform() -> None:
    """Nothing is found where nothing is wrong."""
    assert found(good()) == []
    assert found(document("nfd")) == []


def test_our_own_objects_conform() -> None:
    """With exact data, and with the mark of RTE, which our exporter leaves in its place."""
    settings = KubeletSettings(topology_policy="restricted")
    node = KubeletNode(from_shape("2 sockets, 4 cores, 16Gi"), settings)
    prints = {"nodeTopologyPodsFingerprint": fingerprint_of([])}
    tree = to_tree(nrt_of("worker-0", node, attributes=prints))
    assert found(tree) == []
    tree["metadata"]["annotations"][nrt_names.RTE_UPDATE_ANNOTATION] = "periodic"
    assert found(tree) == []


def test_what_other_producers_leave_out_is_told() -> None:
    """nri-plugins and koordlet, as their readers see it."""
    nri = found(document("nri-topology-aware"))
    assert ("NRT-ZONE-TYPE", "zones[2].type") in nri
    assert ("NRT-POLICY", "attributes") in nri
    assert ("NRT-FINGERPRINT", "attributes") in nri
    assert all(
        finding.rule.severity is ConformanceSeverity.WARNING
        for finding in findings_in(document("koordlet"))
    )
    assert ("NRT-V1ALPHA1", "apiVersion") in found(document("koordlet"))
    assert ("NRT-USABLE", "zones") in found(document("nri-balloons"))


CASES = [
    ("kind", "Pod", "NRT-API", "kind"),
    ("metadata.name", "", "NRT-API", "metadata.name"),
    ("metadata", [], "NRT-API", "metadata.name"),
    ("apiVersion", "topology.node.k8s.io/v9", "NRT-API", "apiVersion"),
    ("zones", ..., "NRT-SHAPE", "zones"),
    ("zones", {}, "NRT-SHAPE", "zones"),
    ("zones.1", "node-1", "NRT-SHAPE", "zones[1]"),
    ("zones.1.type", ..., "NRT-SHAPE", "zones[1].type"),
    ("zones.1.name", 1, "NRT-SHAPE", "zones[1].name"),
    ("zones.0.costs.1.value", "20", "NRT-SHAPE", "zones[0].costs[1].value"),
    ("zones.0.resources.0.available", ..., "NRT-SHAPE", "zones[0].resources[0].available"),
    ("zones.0.resources.0.available", "many", "NRT-SHAPE", "zones[0].resources[0].available"),
    ("zones.0.resources.0.available", True, "NRT-SHAPE", "zones[0].resources[0].available"),
    ("topologyPolicies", "None", "NRT-SHAPE", "topologyPolicies"),
    ("zones.0.id", 0, "NRT-UNKNOWN-FIELD", "zones[0].id"),
    ("zones.0.name", "left", "NRT-USABLE", "zones"),
    ("zones.0.name", "numa-0", "NRT-ZONE-NAME", "zones[0].name"),
    ("zones.0.type", "NUMA node", "NRT-ZONE-TYPE", "zones[0].type"),
    ("zones.0.name", "node-1", "NRT-ZONE-TWICE", "zones[0].name"),
    ("zones.0.parent", "socket-0", "NRT-PARENT", "zones[0].parent"),
    ("zones.0.parent", "node-0", "NRT-PARENT", "zones[0].parent"),
    ("zones.1.resources.0.available", "-1", "NRT-AMOUNT", "zones[1].resources[0].available"),
    ("zones.1.resources.0.available", "5", "NRT-AMOUNT", "zones[1].resources[0].available"),
    ("zones.1.resources.0.allocatable", "5", "NRT-AMOUNT", "zones[1].resources[0].allocatable"),
    ("zones.1.resources.1.available", "1500m", "NRT-FRACTION", "zones[1].resources[1].available"),
    ("zones.1.resources.1.name", "cpu", "NRT-RESOURCE-TWICE", "zones[1].resources[1].name"),
    ("zones.0.costs", [], "NRT-COST", "zones[0].costs"),
    ("zones.0.costs.0.value", 11, "NRT-COST", "zones[0].costs[0].value"),
    ("zones.0.costs.1.value", 9, "NRT-COST", "zones[0].costs[1].value"),
    ("zones.0.costs.1.name", "node-9", "NRT-COST", "zones[0].costs[1].name"),
    ("attributes.1.name", "policy", "NRT-POLICY", "attributes"),
    ("attributes.1.value", "Restricted", "NRT-ATTRIBUTE-VALUE", "attributes[1].value"),
    ("attributes.3.value", "some", "NRT-ATTRIBUTE-VALUE", "attributes[3].value"),
    ("attributes.2.value", "pfp1", "NRT-ATTRIBUTE-VALUE", "attributes[2].value"),
    ("attributes.0.name", "topologyManagerPolicy", "NRT-ATTRIBUTE-TWICE", "attributes[1].name"),
    ("topologyPolicies", ["BestEffortPodLevel"], "NRT-LEGACY", "topologyPolicies[0]"),
    ("topologyPolicies", ["Restricted"], "NRT-LEGACY", "topologyPolicies[0]"),
    ("topologyPolicies", ["None", "None"], "NRT-LEGACY", "topologyPolicies[1]"),
    ("apiVersion", "topology.node.k8s.io/v1alpha1", "NRT-V1ALPHA1", "apiVersion"),
    ("apiVersion", "topology.node.k8s.io/v1alpha1", "NRT-UNKNOWN-FIELD", "attributes"),
    ("attributes.2.name", "fingerprint", "NRT-FINGERPRINT", "attributes"),
    ("metadata.annotations", {"topology.numakube.dev/exact": "?"}, "NRT-EXACT",
     "metadata.annotations[topology.numakube.dev/exact]"),
    ("attributes.2.name", "TopologyPolicy", "NRT-PRODUCERS", "metadata"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("annotation", "other"),
    [(nrt_names.EXACT_ANNOTATION, "numakube"), (nrt_names.RTE_UPDATE_ANNOTATION, "RTE"), ("x", "")],
)
def test_the_other_of_two_producers_is_named(annotation: str, other: str) -> None:
    """By the mark that it has left."""
    tree = changed("attributes.2.name", nrt_names.NRI_POLICY)
    tree["metadata"]["annotations"] = {annotation: "?"}
    told = [finding.message for finding in findings_in(tree) if finding.rule.id == "NRT-PRODUCERS"]
    assert [text.split()[0] for text in told] == ([other] if other else [])


@pytest.mark.parametrize(("path", "value", "rule", "field"), CASES)
def test_every_rule_names_the_field_that_breaks_it(
    path: str, value: object, rule: str, field: str
) -> None:
    """One change to an object without fault."""
    assert (rule, field) in found(changed(path, value))


def test_a_part_of_a_cpu_can_be_given_out() -> None:
    """Of all resources only CPUs are shared in thousandths."""
    assert found(changed("zones.0.resources.0.available", "1500m")) == []


def test_every_rule_has_such_a_case() -> None:
    """So that none is there in name only."""
    assert {rule for _, _, rule, _ in CASES} == {rule.id for rule in RULES}


def test_a_message_says_what_was_written() -> None:
    """And what it should have been."""
    (finding,) = findings_in(changed("zones.1.resources.0.available", "5"))
    assert finding.message == "5 is more than allocatable, 4"


PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
TREES = st.recursive(
    PLAIN,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["name", "type", "zones", "value", "resources", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(TREES, st.sampled_from(["zones", "attributes", "topologyPolicies", "metadata", "x"]))
def test_no_object_makes_the_check_fail(part: object, field: str) -> None:
    """Whatever a producer writes, its author gets an answer."""
    assert isinstance(findings_in({**good(), field: part}), list)


def test_the_legacy_policy_none_is_known() -> None:
    """Though it says nothing of the scope."""
    tree = changed("attributes.1.value", "none", changed("topologyPolicies", ["None"]))
    assert ("NRT-LEGACY", "topologyPolicies[0]") not in found(tree)


def test_zones_that_are_no_numa_nodes_may_have_any_type() -> None:
    """Readers pass over sockets and caches, as they should."""
    tree = good()
    tree["zones"].append({"name": "socket-0", "type": "Socket"})
    tree["zones"][0]["parent"] = "socket-0"
    assert found(tree) == []
