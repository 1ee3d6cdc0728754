"""D16: the map shows what NUMA nodes are part of, and what else a producer tells of a machine."""

from __future__ import annotations

from tests.topology.producers import golden

from numakube.insight.facts import ClusterFacts
from numakube.insight.node_map.map_json import picture_document
from numakube.insight.node_map.picture import NodePicture
from numakube.insight.node_map.picture_from_facts import node_picture
from numakube.insight.node_map.terminal_map import text_of
from numakube.insight.usage.usage_json import zones_document
from numakube.insight.usage.zone_usage import node_usage

NODE = "worker-0"


def facts_of(name: str) -> ClusterFacts:
    """A cluster of one node, of which a producer tells."""
    return ClusterFacts(topologies={NODE: golden(name)})


def picture_of(name: str) -> NodePicture:
    """The picture of the node."""
    return node_picture(facts_of(name), NODE)


def test_the_map_has_zones_in_their_sockets_and_the_tree_below_them() -> None:
    """In the words of the producer, with what is free in each part."""
    lines = text_of(picture_of("nri-topology-aware")).splitlines()
    assert any("NUMA zone 0 · socket #0" in line for line in lines)
    tree = lines[lines.index("hierarchy") :]
    assert tree[1:4] == [
        "  root (virtual node) · memory 28Gi of 32Gi free · CPUs 13 of 16 free",
        "    socket #0 · memory 12Gi of 16Gi free · CPUs 5 of 8 free",
        "      NUMA node #0 · zone 0 · memory 8Gi of 8Gi free · CPUs 3 of 4 free",
    ]


def test_a_node_of_balloons_is_drawn_as_its_pools() -> None:
    """There are no zones, and the head says why."""
    text = text_of(picture_of("nri-balloons"))
    assert "! no exact data: no zone has type 'Node'" in text
    assert "  latency[0] (balloon) · CPUs 13 of 15 free · cpuset 4-5\n" in text
    assert "    default/trainer:main (allocation for container) · cpuset 4-5\n" in text


def test_a_producer_without_hierarchy_has_none_drawn() -> None:
    """Zones side by side are all that there is."""
    assert "hierarchy" not in text_of(picture_of("rte"))
    assert "hierarchy" not in picture_document(picture_of("rte"))


def test_the_document_has_every_part_with_its_parent_and_level() -> None:
    """As data; what is not known is left out."""
    document = picture_document(picture_of("nri-one-numa-node-a-socket"))
    assert document["zones"][1]["within"] == ["socket #1"]
    root, socket, cache, *_ = document["hierarchy"]
    assert (root["level"], "parent" in root) == ("machine", False)
    assert (socket["level"], socket["zone"]) == ("socket", 0)
    assert cache == {
        "name": "socket #0/L3 cache #0",
        "type": "L3 cache",
        "level": "l3",
        "parent": "socket #0",
        "allocatable": {"memory": 16 * 2**30, "cpu": 4000},
        "available": {"memory": 16 * 2**30, "cpu": 4000},
        "attributes": {"memory set": "0", "shared cpuset": "0-3"},
    }


def test_usage_by_zone_says_what_a_zone_is_part_of() -> None:
    """``kubectl numa top zones`` prints it."""
    _, zones = node_usage(facts_of("volcano"), NODE)
    items = zones_document(zones)["items"]
    assert [item["within"] for item in items] == [
        ["socket-0"], ["socket-0"], ["socket-1"], ["socket-1"],
    ]  # fmt: skip
