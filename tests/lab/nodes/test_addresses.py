"""Addresses of nodes and pods."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import ConfigError
from numakube_lab.nodes.node_documents import MAX_NODES, NodeAddresses


@given(st.sets(st.integers(0, MAX_NODES - 1), min_size=2, max_size=5))
def test_nodes_do_not_overlap(numbers: set[int]) -> None:
    """Every node has a block and an address of its own."""
    nodes = [NodeAddresses(number) for number in numbers]
    networks = [IPv4Network(node.cidr) for node in nodes]
    assert len({node.host for node in nodes}) == len(nodes)
    assert not any(a.overlaps(b) for a in networks for b in networks if a is not b)


def test_pods_get_addresses_of_their_own_within_the_block() -> None:
    """And keep them until they are gone."""
    node = NodeAddresses(3)
    given_out = {uid: node.pod(uid) for uid in map(str, range(253))}
    assert len(set(given_out.values())) == 253
    assert all(IPv4Address(one) in IPv4Network(node.cidr) for one in given_out.values())
    assert node.pod("5") == given_out["5"]
    with pytest.raises(ConfigError, match="no address left"):
        node.pod("one too many")
    node.release("5")
    assert node.pod("another") == given_out["5"]


def test_a_pod_keeps_its_address_over_a_restart() -> None:
    """Unless somebody else has it by now."""
    node = NodeAddresses(0)
    assert node.pod("a", wanted="10.128.0.9") == "10.128.0.9"
    assert node.pod("b", wanted="10.128.0.9") != "10.128.0.9"


def test_there_is_an_end_to_the_numbers() -> None:
    """A lab of more nodes than addresses says so."""
    with pytest.raises(ConfigError, match="32768 nodes"):
        NodeAddresses(MAX_NODES)
