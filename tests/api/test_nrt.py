"""NodeResourceTopology: both versions, attributes, zone names."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.codec import to_tree
from numakube.api.meta import ObjectMeta
from numakube.api.nrt import (
    V1ALPHA1,
    V1ALPHA2,
    Attribute,
    Cost,
    NodeResourceTopology,
    Zone,
    ZoneResource,
    attribute_value,
    convert_nrt,
    numa_id_of,
    with_attribute,
    without_attribute,
    zone_name,
)
from numakube.errors import InvalidValue, MalformedObject


def attributes(text: str) -> tuple[Attribute, ...]:
    """Return the attributes of a text such as ``a=1 b=2``."""
    pairs = (part.split("=") for part in text.split())
    return tuple(Attribute(name=name, value=value) for name, value in pairs)


def test_an_object_of_v1alpha2_is_read_whole() -> None:
    """As an agent writes it, with numbers as texts or as numbers."""
    body = b"""{"apiVersion": "topology.node.k8s.io/v1alpha2", "kind": "NodeResourceTopology",
      "metadata": {"name": "worker-0"},
      "attributes": [{"name": "topologyManagerScope", "value": "container"}],
      "zones": [{"name": "node-0", "type": "Node", "costs": [{"name": "node-0", "value": 10}],
        "resources": [{"name": "cpu", "capacity": "12", "allocatable": 11, "available": "11"}]}]}"""

    topology = convert_nrt(json.loads(body))

    assert topology.metadata.name == "worker-0"
    assert attribute_value(topology.attributes, "topologyManagerScope") == "container"
    assert topology.zones[0].costs == (Cost(name="node-0", value=10),)
    assert topology.zones[0].resources[0].allocatable == 11
    assert convert_nrt(to_tree(topology)) == topology


def test_zones_are_written_even_if_there_are_none() -> None:
    """The schema requires them; Go writes null for none."""
    assert to_tree(NodeResourceTopology()) == {
        "zones": [],
        "apiVersion": V1ALPHA2,
        "kind": "NodeResourceTopology",
    }
    assert convert_nrt({"zones": None}) == NodeResourceTopology()


def test_c20_what_is_left_was_once_called_allocatable() -> None:
    """Zones had no ``available`` before v0.0.10 of the API."""
    cpu = {"name": "cpu", "capacity": 20, "allocatable": 10}
    zones = [{"name": "node-0", "type": "Node", "resources": [cpu]}]
    topology = convert_nrt({"apiVersion": V1ALPHA1, "metadata": {"name": "n"}, "zones": zones})
    assert topology.zones[0].resources[0].available == 10


def test_an_object_of_v1alpha1_is_converted() -> None:
    """Its policies stay, node attributes it cannot have, and the version is the current one."""
    tree = {
        "apiVersion": V1ALPHA1,
        "metadata": {"name": "worker-0"},
        "topologyPolicies": ["RestrictedPodLevel"],
        "zones": [{"name": "node-0", "type": "Node"}],
        "attributes": [{"name": "a", "value": "b"}],
    }

    assert convert_nrt(tree) == NodeResourceTopology(
        metadata=ObjectMeta(name="worker-0"),
        topology_policies=("RestrictedPodLevel",),
        zones=(Zone(name="node-0", type="Node"),),
    )


def test_an_unknown_version_and_a_wrong_field_are_refused() -> None:
    """With the name of the object."""
    with pytest.raises(MalformedObject, match=r"Topology n: apiVersion: .*v1beta1"):
        convert_nrt({"apiVersion": "topology.node.k8s.io/v1beta1", "metadata": {"name": "n"}})
    zone = {"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "capacity": "1"}]}
    with pytest.raises(MalformedObject) as refused:
        convert_nrt({"metadata": {"name": "n"}, "zones": [zone]})
    assert str(refused.value) == (
        "NodeResourceTopology n: zones[0].resources[0].allocatable: is required"
    )


def test_the_first_attribute_of_a_name_counts() -> None:
    """Missing is different from empty."""
    assert attribute_value(attributes("a=1 b= a=2"), "a") == "1"
    assert attribute_value(attributes("a=1 b= a=2"), "b") == ""
    assert attribute_value((), "a") is None


def test_an_attribute_is_replaced_in_place_or_appended() -> None:
    """One without a name changes nothing."""
    some = attributes("a=1 b=2 a=3")

    assert with_attribute(some, Attribute(name="a", value="9")) == attributes("a=9 b=2 a=3")
    assert with_attribute(some, Attribute(name="c", value="9")) == attributes("a=1 b=2 a=3 c=9")
    assert with_attribute(some, Attribute(name="", value="9")) is some


def test_deleting_removes_every_one_of_a_name() -> None:
    """And nothing else."""
    assert without_attribute(attributes("a=1 b=2 a=3"), "a") == attributes("b=2")


@pytest.mark.parametrize(
    ("name", "numa_id"), [("node-0", 0), ("node-65535", 65535), ("node-+3", 3)]
)
def test_zone_names_of_numa_nodes(name: str, numa_id: int) -> None:
    """A sign is accepted on reading, as upstream does."""
    assert numa_id_of(name) == numa_id


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("node--1", "bad NUMA id: -1"),
        ("cell-1", "bad prefix"),
        ("Node-1", "bad prefix"),
        ("NODE-2", "bad prefix"),
        ("node_3", "bad prefix"),
        ("node 4", "bad prefix"),
        ("node-5-1", 'strconv.Atoi: parsing "5-1": invalid syntax'),
        ("node6", "bad prefix"),
        ("--node-7", "bad prefix"),
    ],
)
def test_other_zone_names_are_refused(name: str, problem: str) -> None:
    """In upstream's words."""
    with pytest.raises(InvalidValue) as refused:
        numa_id_of(name)

    assert str(refused.value) == f'invalid format for name "{name}": {problem}'


def test_there_are_no_negative_numa_nodes() -> None:
    """The opposite direction."""
    assert numa_id_of(zone_name(7)) == 7
    with pytest.raises(InvalidValue, match="invalid NUMA id range numaID: -1"):
        zone_name(-1)


texts = st.text("abc-/", max_size=5)
quantities = st.sampled_from(["0", "4", "1k", "17179869184", "1500m", "2Gi"]) | st.integers(0, 99)
resources = st.builds(
    ZoneResource, name=texts, capacity=quantities, allocatable=quantities, available=quantities
)
some_attributes = st.lists(st.builds(Attribute, name=texts, value=texts), max_size=3).map(tuple)
zones = st.builds(
    Zone,
    name=texts,
    type=texts,
    parent=texts,
    costs=st.lists(st.builds(Cost, name=texts, value=st.integers(0, 255)), max_size=3).map(tuple),
    attributes=some_attributes,
    resources=st.lists(resources, max_size=3).map(tuple),
)
topologies = st.builds(
    NodeResourceTopology,
    metadata=st.builds(ObjectMeta, name=texts, labels=st.dictionaries(texts, texts, max_size=2)),
    attributes=some_attributes,
    topology_policies=st.lists(texts, max_size=2).map(tuple),
    zones=st.lists(zones, max_size=3).map(tuple),
)


@given(topologies)
def test_objects_survive_the_wire(topology: NodeResourceTopology) -> None:
    """In the current version everything."""
    assert convert_nrt(to_tree(topology)) == topology


@given(topologies)
def test_converting_from_v1alpha1_only_loses_what_it_cannot_hold(
    topology: NodeResourceTopology,
) -> None:
    """The same object, read through the older version, lacks the node attributes only."""
    tree: dict[str, Any] = to_tree(topology) | {"apiVersion": V1ALPHA1}
    expected = to_tree(topology)
    expected.pop("attributes", None)

    assert to_tree(convert_nrt(tree)) == expected
