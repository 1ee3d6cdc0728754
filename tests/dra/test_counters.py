"""Devices that share counters: what is left for each, and which go together."""

from __future__ import annotations

import pytest

from numakube.dra.counters import Groups

A, B, AB, NONE = frozenset("a"), frozenset("b"), frozenset("ab"), frozenset[str]()


@pytest.mark.parametrize(
    ("there", "comes", "goes"),
    [
        ((), NONE, True),
        ((), A, True),
        ((NONE,), NONE, True),
        ((NONE,), A, False),
        ((A,), NONE, False),
        ((A,), A, True),
        ((A,), B, False),
        ((AB,), B, True),
        ((AB, A), B, False),
        ((AB, A), A, True),
    ],
)
def test_devices_of_a_counter_set_have_a_group_in_common_or_none_has_any(
    there: tuple[frozenset[str], ...], comes: frozenset[str], goes: bool
) -> None:
    """The first device may be of any group."""
    groups = Groups()
    for one in there:
        groups = groups.joined(one)
    assert groups.admits(comes) is goes


def test_a_device_without_groups_changes_nothing_for_those_that_have_some() -> None:
    """It may be there from before groups were written down."""
    assert Groups(AB).joined(NONE) == Groups(AB)
    assert Groups(NONE).joined(A) == Groups(NONE)
