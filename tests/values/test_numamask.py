"""NUMA masks: order and iteration as the kubelet's bitmask package."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import InvalidValue
from numakube.values.numamask import mask_of, masks_over, narrowness, nodes_of

nodes = st.sets(st.integers(0, 63))


@given(nodes)
def test_a_mask_holds_exactly_its_nodes(ids: set[int]) -> None:
    """All 64 nodes can be held."""
    assert nodes_of(mask_of(ids)) == tuple(sorted(ids))


@pytest.mark.parametrize("node", [-1, 64])
def test_nodes_out_of_range_are_refused(node: int) -> None:
    """A mask has 64 bits."""
    with pytest.raises(InvalidValue, match="0 to 63"):
        mask_of([node])


def test_fewer_nodes_are_narrower_then_the_smaller_number() -> None:
    """So sort the masks of two nodes and of one."""
    assert sorted([0b011, 0b100, 0b010, 0b001], key=narrowness) == [0b001, 0b010, 0b100, 0b011]


def test_subsets_come_by_size_then_by_position() -> None:
    """Position in the given order counts, also when ids have holes."""
    assert masks_over((0, 1, 2)) == (0b001, 0b010, 0b100, 0b011, 0b101, 0b110, 0b111)
    assert masks_over((3, 1)) == (0b1000, 0b0010, 0b1010)
    assert masks_over(()) == ()
