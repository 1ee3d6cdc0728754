"""Weights by which native mode rates nodes."""

from __future__ import annotations

import pytest

from numakube.scheduling.numa.native.native_options import NativeOptions


@pytest.mark.parametrize(
    ("weights", "points"),
    [
        ((70, 20, 10), (69.3, 19.8, 9.9)),
        ((1, 0, 0), (99.0, 0.0, 0.0)),
        ((0, 1, 0), (0.0, 99.0, 0.0)),
        ((0, 0, 3), (0.0, 0.0, 99.0)),
        ((1, 1, 2), (24.75, 24.75, 49.5)),
    ],
)
def test_weights_share_what_a_node_with_data_can_get(
    weights: tuple[int, int, int], points: tuple[float, float, float]
) -> None:
    """One point is left for having data at all."""
    alignment, packing, balance = weights
    options = NativeOptions(
        alignment_weight=alignment, packing_weight=packing, balance_weight=balance
    )
    assert options.points == pytest.approx(points)


@pytest.mark.parametrize("weights", [(0, 0, 0), (-1, 2, 0), (2, -1, 0), (2, 0, -1)])
def test_weights_are_not_negative_nor_all_zero(weights: tuple[int, int, int]) -> None:
    """They are named."""
    alignment, packing, balance = weights
    with pytest.raises(ValueError, match="weights must not be negative, nor all zero"):
        NativeOptions(alignment_weight=alignment, packing_weight=packing, balance_weight=balance)


@pytest.mark.parametrize(("weight", "good"), [(-1, False), (0, True), (100, True), (101, False)])
def test_closeness_counts_for_a_part_of_a_hundred(weight: int, good: bool) -> None:
    """Both ends included."""
    if good:
        assert NativeOptions(closeness_weight=weight).closeness_weight == weight
    else:
        with pytest.raises(ValueError, match=f"closeness_weight must be 0 to 100: {weight}"):
            NativeOptions(closeness_weight=weight)
