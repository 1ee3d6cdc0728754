"""What is chosen is the best there is, and what is refused fits nowhere."""

from __future__ import annotations

import os
import random
import time
from itertools import accumulate
from typing import Any

import pytest
from packages.levels.tests.brute_force import best_cost

from numakube_levels.balanced_domains import levelled
from numakube_levels.placement_choice import choices
from numakube_levels.placement_wish import Area, Balance, Slices, Wish

BLOCK, RACK = 0, 1
_RUNS = int(os.environ.get("LEVELS_RUNS", "400"))
"""How many random clusters are compared with brute force; 2,000 take a minute."""


def racks(*takes: int) -> Area:
    """Return a cluster of racks that take so many pods."""
    parts = tuple(Area(0, f"r{number}", count) for number, count in enumerate(takes, 1))
    return Area(-1, "", sum(takes), parts)


def blocks(**takes: list[int]) -> Area:
    """Return a cluster of blocks with racks that take so many pods."""
    made = tuple(
        Area(
            BLOCK,
            block,
            sum(counts),
            tuple(Area(RACK, f"{block}/r{at}", count) for at, count in enumerate(counts, 1)),
        )
        for block, counts in takes.items()
    )
    return Area(-1, "", sum(one.takes for one in made), made)


def placed(whole: Area, wish: Wish) -> dict[str, int]:
    """Return how many pods each domain gets; nothing if they do not fit."""
    found = choices(whole, wish)
    return {area.name: count for area, count in found[0].shares} if found else {}


def test_the_rack_with_just_enough_room_is_taken() -> None:
    """Larger ones stay whole."""
    assert placed(racks(4, 9, 6), Wish(needed=6, wanted=6, required=0)) == {"r3": 6}
    assert placed(racks(5, 5, 5), Wish(needed=6, wanted=6, required=0)) == {}


def test_a_block_is_chosen_by_the_racks_in_it() -> None:
    """Fewest racks first, then least left over in them."""
    wish = Wish(needed=8, wanted=8, required=BLOCK, preferred=frozenset({RACK}))
    two = blocks(A=[5, 5], B=[5, 4])
    assert placed(two, wish) == {"B/r1": 5, "B/r2": 3}
    assert placed(blocks(A=[5, 5], B=[5, 4], C=[8]), wish) == {"C/r1": 8}


def test_slices_stay_whole() -> None:
    """Sixteen and sixteen, and not eighteen and fourteen."""
    wish = Wish(needed=32, wanted=32, slices=(Slices(0, 16),))
    assert placed(racks(18, 18, 14), wish) == {"r1": 16, "r2": 16}
    assert placed(racks(18, 14, 14), wish) == {}
    many = Wish(needed=128, wanted=128, slices=(Slices(0, 16),))
    assert placed(racks(*[16] * 12), many) == {f"r{number}": 16 for number in range(1, 13)} or (
        set(placed(racks(*[16] * 12), many).values()) == {16}
    )


@pytest.mark.parametrize(
    ("takes", "count", "fewest", "even"),
    [
        ((18, 14, 14), 32, [18, 14], [11, 11, 10]),
        ((10, 5, 5, 5), 15, [10, 5], [5, 5, 5]),
        ((16, 16, 16), 40, [14, 13, 13], [14, 13, 13]),
        ((9, 9), 12, [6, 6], [6, 6]),
    ],
)
def test_sizes_are_balanced(
    takes: list[int], count: int, fewest: list[int], even: list[int]
) -> None:
    """Over the fewest domains, or over as many as make them equal."""
    for balance, expected in ((Balance.FEWEST, fewest), (Balance.EVEN, even)):
        wish = Wish(needed=count, wanted=count, preferred=frozenset({0}), balance=balance)
        assert sorted(placed(racks(*takes), wish).values(), reverse=True) == expected


def test_slices_of_slices() -> None:
    """Three of sixteen in each zone."""
    wish = Wish(needed=96, wanted=96, slices=(Slices(BLOCK, 48), Slices(RACK, 16)))
    got = placed(blocks(a=[18] * 3, b=[18] * 3, c=[18] * 3), wish)
    assert got == {f"{zone}/r{number}": 16 for zone in "ab" for number in (1, 2, 3)}
    assert placed(blocks(a=[18] * 3, b=[18] * 2, c=[18] * 2), wish) == {}


def test_pods_beyond_the_minimum_decide_last() -> None:
    """The domain with room for most of them, among those with room for what is needed."""
    wish = Wish(needed=12, wanted=16, required=0)
    assert placed(racks(13, 12), wish) == {"r1": 13}
    assert placed(racks(13, 12, 30, 17), wish) == {"r4": 16}


def test_the_last_slice_may_be_smaller_if_that_is_allowed() -> None:
    """Seventeen pods are a slice of sixteen, and one."""
    strict = Wish(needed=17, wanted=17, slices=(Slices(0, 16),))
    assert placed(racks(18, 3), strict) == {}
    loose = Wish(needed=17, wanted=17, slices=(Slices(0, 16),), allows_rest=True)
    assert placed(racks(18, 3), loose) == {"r1": 17}
    assert placed(racks(16, 3), loose) == {"r1": 16, "r2": 1}


def test_members_that_run_hold_the_others_in_their_domain() -> None:
    """If it is required; if not, theirs are no further domains."""
    mine = Area(0, "mine", 2, is_own=True)
    other = Area(0, "other", 9)
    whole = Area(-1, "", 11, (mine, other))
    assert placed(whole, Wish(needed=1, wanted=4, required=0)) == {"mine": 2}
    assert placed(whole, Wish(needed=4, wanted=4, required=0)) == {}
    preferred = Wish(needed=2, wanted=2, preferred=frozenset({0}))
    assert placed(whole, preferred) == {"mine": 2}


def _random_case(rng: random.Random) -> tuple[Area, Wish]:
    """Return a small cluster and a wish."""
    takes = {
        name: [rng.randint(0, 4) for _ in range(rng.randint(1, 3))]
        for name in "abc"[: rng.randint(1, 2)]
    }
    needed = rng.randint(1, 9)
    kind = rng.choice(["preferred", "slices", "nested", "required", "balanced"])
    required = rng.choice([None, BLOCK])
    more: dict[str, Any] = {
        "needed": needed,
        "wanted": needed + rng.choice([0, 0, 2]),
        "required": required,
    }
    if kind == "required":
        return blocks(**takes), Wish(**{**more, "required": rng.choice([BLOCK, RACK])})
    if kind == "slices":
        size, level = rng.randint(1, 3), rng.choice([BLOCK, RACK])
        whole: dict[str, Any] = {"needed": size * rng.randint(1, 3)}
        whole["wanted"] = whole["needed"] + size * rng.choice([0, 1])
        if level == BLOCK:
            more["required"] = None
        return blocks(**takes), Wish(**{**more, **whole}, slices=(Slices(level, size),))
    if kind == "nested":
        size = rng.randint(1, 2)
        whole = {"needed": 2 * size * rng.randint(1, 2), "required": None}
        whole["wanted"] = whole["needed"]
        return blocks(**takes), Wish(
            **{**more, **whole}, slices=(Slices(BLOCK, 2 * size), Slices(RACK, size))
        )
    levels = rng.choice([{RACK}, {BLOCK, RACK}]) if required is None else {RACK}
    if kind == "preferred":
        return blocks(**takes), Wish(**more, preferred=frozenset(levels))
    balance = rng.choice([Balance.FEWEST, Balance.EVEN])
    more["wanted"] = needed
    return blocks(**takes), Wish(
        **{**more, "required": required}, preferred=frozenset({RACK}), balance=balance
    )


@pytest.mark.parametrize("seed", range(_RUNS))
def test_nothing_costs_less_than_what_is_chosen(seed: int) -> None:
    """Every way to place them is tried beside it."""
    whole, wish = _random_case(random.Random(seed))
    found = choices(whole, wish)
    expected = best_cost(whole, wish)
    if expected is None:
        assert not found
        return
    cost = found[0].cost
    assert (cost[0], cost[1], cost[3], cost[4], cost[5]) == expected
    assert wish.needed <= found[0].count <= wish.wanted


@pytest.mark.parametrize("seed", range(50))
def test_levels_are_as_even_as_sizes_allow(seed: int) -> None:
    """And nothing is lost."""
    rng = random.Random(seed)
    sizes = [rng.randint(0, 6) for _ in range(rng.randint(1, 5))]
    count = rng.randint(0, sum(sizes))
    shares = levelled(sizes, count)
    assert sum(shares) == count
    assert all(share <= size for share, size in zip(shares, sizes, strict=True))
    open_ = [share for share, size in zip(shares, sizes, strict=True) if share < size]
    assert not open_ or max(shares) - min(open_) <= 1


def test_many_domains_that_may_be_required_hold_up_nobody() -> None:
    """A hundred uneven zones of fifty uneven racks: the fewest racks are found within seconds."""
    rng = random.Random(1)
    zones = []
    for zone in range(100):
        racks = tuple(Area(1, f"z{zone}/r{n}", rng.randint(1, 9)) for n in range(50))
        zones.append(Area(0, f"z{zone}", sum(one.takes for one in racks), racks))
    whole = Area(-1, "", sum(one.takes for one in zones), tuple(zones))
    wish = Wish(needed=200, wanted=200, required=0, preferred=frozenset({1}))
    began = time.process_time()

    found = choices(whole, wish)

    assert time.process_time() - began < 6
    assert len(found) == sum(one.takes >= 200 for one in zones)
    assert len(found[0].shares) == min(
        sum(total < 200 for total in accumulate(sizes, initial=0))
        for one in zones
        for sizes in [sorted((rack.takes for rack in one.parts), reverse=True)]
        if sum(sizes) >= 200
    )


def test_a_smaller_slice_has_its_place_among_many_racks_soon() -> None:
    """Racks of two hundred sizes: any may be the one where the last slice is smaller."""
    rng = random.Random(2)
    sizes = [rng.randint(2, 400) for _ in range(250)]
    wish = Wish(needed=301, wanted=301, slices=(Slices(0, 2),), allows_rest=True)
    began = time.process_time()

    found = choices(racks(*sizes), wish)

    assert time.process_time() - began < 6
    assert [one.count for one in found] == [301]
