"""How amounts are split over NUMA nodes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube_placement.koordinator.cpu_pick import even_parts


@pytest.mark.parametrize(
    ("available", "amount", "unit", "parts"),
    [
        ({0: 4, 1: 1}, 4, 1, {0: 3, 1: 1}),
        ({0: 2, 1: 2}, 4, 1, {0: 2, 1: 2}),
        ({0: 2, 1: 2}, 3, 1, {0: 1, 1: 2}),
        ({1: 10, 3: 1}, 10, 1, {1: 9, 3: 1}),
        ({0: 1, 2: 10}, 10, 1, {0: 1, 2: 9}),
        ({0: 9, 1: 1, 2: 9, 3: 5}, 24, 1, {0: 9, 1: 1, 2: 9, 3: 5}),
        ({0: 4, 1: 3}, 6, 2, {0: 4, 1: 2}),
        ({0: 3, 1: 3}, 6, 2, None),
        ({0: 4, 1: 4}, 5, 2, None),
        ({0: 4, 1: 4}, 2, 2, {1: 2}),
        ({0: 4, 1: 4}, 0, 1, {}),
        ({}, 1, 1, None),
        ({0: 0, 1: 3}, 3, 1, {1: 3}),
    ],
)
def test_parts_are_even_as_far_as_nodes_have_them(
    available: dict[int, int], amount: int, unit: int, parts: dict[int, int] | None
) -> None:
    """The node that has least comes first, whatever its id is."""
    assert even_parts(available, amount, unit=unit) == parts


@given(
    available=st.dictionaries(st.integers(0, 63), st.integers(0, 20), max_size=8),
    amount=st.integers(0, 60),
    unit=st.sampled_from([1, 2, 4]),
)
def test_what_fits_is_split_and_what_does_not_is_refused(
    available: dict[int, int], amount: int, unit: int
) -> None:
    """No order of nodes makes a fitting amount fail."""
    parts = even_parts(available, amount, unit=unit)
    fits = amount % unit == 0 and amount <= sum(left // unit * unit for left in available.values())
    assert (parts is not None) == fits
    if parts is not None:
        assert sum(parts.values()) == amount
        assert all(0 < part <= available[node] and part % unit == 0 for node, part in parts.items())
