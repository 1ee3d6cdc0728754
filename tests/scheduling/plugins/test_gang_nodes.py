"""Nodes on which members of a gang are being planned."""

from __future__ import annotations

import numpy as np
import pytest

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.scheduling.gang_placements import Part, Placement
from numakube.scheduling.plugins.gang_scheduling import Domain, GangNodes, domain_of

RACK = Domain(("block", "rack"), ("b1", "r1"))
OTHER = Domain(("block", "rack"), ("b1", "r2"))


def nodes(domain: Domain | None = None, name: str = "") -> GangNodes:
    """Return a few rows."""
    return GangNodes(np.array([1, 3, 4]), domain, name)


def test_a_row_is_one_of_them_or_not() -> None:
    """Also before the first, between two and after the last."""
    assert [row for row in range(7) if nodes().has(row)] == [1, 3, 4]
    assert not GangNodes(np.array([], dtype=np.intp)).has(0)


def test_they_are_called_by_their_name_or_by_what_they_have_in_common() -> None:
    """Nothing is made up."""
    assert str(nodes(RACK, "the rack")) == "the rack"
    assert str(nodes(RACK)) == str(RACK) != ""
    assert str(nodes()) == ""


@pytest.mark.parametrize(
    ("parts", "domain"),
    [
        ((nodes(RACK),), RACK),
        ((nodes(RACK), nodes(RACK)), RACK),
        ((nodes(RACK), nodes(OTHER)), None),
        ((nodes(RACK), None), None),
        ((None,), None),
        ((nodes(name="x"),), None),
    ],
)
def test_a_placement_is_in_a_domain_if_all_its_parts_are(
    parts: tuple[GangNodes | None, ...], domain: Domain | None
) -> None:
    """And no more parts may come."""
    made = tuple(Part((), 0, one) for one in parts)
    assert Placement(made).domain == domain
    assert Placement(made, more=lambda: iter(())).domain is None
    assert list(Placement(made, more=lambda: iter(made)).each()) == [*made, *made]
    assert list(Placement(made).each()) == list(made)


@pytest.mark.parametrize(
    ("labels", "values"),
    [
        ({"block": "b1", "rack": "r1"}, ("b1", "r1")),
        ({"rack": "r1"}, ("", "r1")),
        ({"block": "b1"}, None),
        ({}, None),
        ({"rack": ""}, ("", "")),
    ],
)
def test_a_node_is_in_a_domain_if_it_has_the_last_label(
    labels: dict[str, str], values: tuple[str, ...] | None
) -> None:
    """Racks of the same name in different blocks are different; what selects leaves gaps out."""
    node = Node(metadata=ObjectMeta(name="n", labels=labels))
    found = domain_of(node, ("block", "rack"))
    assert (None if found is None else found.values) == values
    if found is not None:
        assert found.selector == {key: value for key, value in labels.items() if value}
