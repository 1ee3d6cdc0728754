"""The arithmetic of rolling updates."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube_lab.controllers.workloads.deployment_sets import (
    Limits,
    Size,
    new_size,
    rolling_limits,
    scale_in_proportion,
    share_of,
    shrink_old,
)


@pytest.mark.parametrize(
    ("part", "whole", "up", "down"),
    [(3, 10, 3, 3), ("25%", 10, 3, 2), ("100%", 4, 4, 4), ("0%", 4, 0, 0), ("nonsense", 4, 0, 0)],
)
def test_shares_are_rounded_up_or_down(part: int | str, whole: int, up: int, down: int) -> None:
    """A surge is rounded up, unavailability down."""
    assert share_of(part, whole, round_up=True) == up
    assert share_of(part, whole, round_up=False) == down


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "limits"),
    [
        (10, "25%", "25%", Limits(10, 3, 2)),
        (1, "25%", "25%", Limits(1, 1, 0)),
        (4, 0, 0, Limits(4, 0, 1)),
        (4, 0, "1%", Limits(4, 0, 1)),
        (2, 0, 5, Limits(2, 0, 2)),
        (0, 0, 0, Limits(0, 0, 0)),
    ],
)
def test_limits(replicas: int, surge: int | str, unavailable: int | str, limits: Limits) -> None:
    """There is always room for at least one step."""
    assert rolling_limits(replicas, surge, unavailable) == limits


@pytest.mark.parametrize(
    ("new", "total", "limits", "expected"),
    [
        (0, 0, Limits(3, 1, 1), 3),
        (0, 3, Limits(3, 1, 1), 1),
        (1, 4, Limits(3, 1, 1), 1),
        (2, 3, Limits(3, 1, 1), 3),
        (5, 5, Limits(3, 1, 1), 3),
    ],
)
def test_the_new_set_grows_into_the_room_there_is(
    new: int, total: int, limits: Limits, expected: int
) -> None:
    """Never beyond the surge, and never beyond what is wanted."""
    assert new_size(new, total, limits) == expected


def test_unavailable_old_pods_go_first() -> None:
    """They serve nobody."""
    old = [Size("a", 3, 3), Size("b", 2, 0)]
    assert shrink_old(old, Size("new", 0, 0), Limits(4, 1, 1)) == {"b": 0}


def test_old_sets_shrink_by_what_is_available_in_excess() -> None:
    """The oldest first."""
    old = [Size("a", 3, 3), Size("b", 2, 2)]
    assert shrink_old(old, Size("new", 2, 2), Limits(4, 3, 1)) == {"a": 0, "b": 1}


def test_old_sets_wait_for_new_pods() -> None:
    """As long as new pods are not available nothing more is taken away."""
    assert shrink_old([Size("a", 3, 3)], Size("new", 1, 0), Limits(3, 1, 0)) == {}


@pytest.mark.parametrize(
    ("sets", "limits", "expected"),
    [
        # 10 wanted, now 20: both double.
        ([Size("a", 6, 6, 10), Size("b", 4, 4, 10)], Limits(20, 0, 0), {"a": 12, "b": 8}),
        ([Size("a", 6, 6, 10), Size("b", 4, 4, 10)], Limits(5, 0, 0), {"a": 3, "b": 2}),
        ([Size("a", 6, 6, 10), Size("b", 4, 4, 10)], Limits(0, 2, 0), {"a": 0, "b": 0}),
        ([Size("a", 5, 5, 10), Size("b", 5, 5, 10)], Limits(11, 0, 0), {"a": 6, "b": 5}),
    ],
)
def test_a_changed_size_is_spread_in_proportion(
    sets: list[Size], limits: Limits, expected: dict[str, int]
) -> None:
    """What cannot be divided goes to the first."""
    assert scale_in_proportion(sets, limits, 10) == expected


@given(
    replicas=st.integers(0, 20),
    surge=st.integers(0, 5),
    unavailable=st.integers(0, 5),
    old=st.lists(st.integers(0, 20), max_size=3),
)
def test_a_rollout_ends_and_keeps_to_its_limits(
    replicas: int, surge: int, unavailable: int, old: list[int]
) -> None:
    """Whatever it starts from, as long as new pods become available, it comes to its end."""
    limits = rolling_limits(replicas, surge, unavailable)
    sizes = {f"old-{number}": count for number, count in enumerate(old)}
    new = 0
    for _ in range(200):
        before = (new, dict(sizes))
        grown = new_size(new, new + sum(sizes.values()), limits)
        assert grown <= max(new, limits.most - sum(sizes.values()), 0) or grown == replicas
        if grown != new:
            new = grown
            continue
        active = [Size(name, count, count) for name, count in sizes.items() if count]
        available = new + sum(sizes.values())
        sizes |= shrink_old(active, Size("new", new, new), limits)
        assert new + sum(sizes.values()) >= min(available, limits.least_available)
        if (new, sizes) == before:
            break
    assert new == replicas
    assert not any(sizes.values())
