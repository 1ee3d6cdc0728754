"""Devices of several types that are placed together, as close as any choice of them can be.

The leading type is chosen first, the others beside it: behind the PCIe switch of a leading device
that has none yet, else on its NUMA node, else anywhere. A choice of leading devices is judged by
how many of the scarcer devices then miss a partner on the NUMA node, and how many behind the
switch. The first one that misses nothing is taken, and of those that miss something the best. All
choices are looked at, those that keep branches of the tree whole (`groups`) first; where there are
more than `_MOST`, only those.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations
from math import comb
from typing import TYPE_CHECKING, Final

from numakube.koordinator.devices.groups import in_scope, pcie_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from numakube.koordinator.devices.groups import Left
    from numakube.koordinator.devices.wanted_devices import Want

    Ways = Callable[[Want, Sequence[Left]], Iterator[list[Left]]]
    Chosen = list[tuple[Want, list[Left]]]
    """Devices of each type."""

_MOST: Final = 500


def together(
    wants: Sequence[Want],
    offers: Mapping[str, list[Left]],
    ways: Ways,
    *,
    strictly: bool,
    freely: bool,
) -> Chosen | None:
    """Return devices of all types, the leading one first; ``None`` if there are none.

    Args:
        wants: what is wanted of each type, the leading one first.
        offers: devices that have what is wanted of one, by type.
        ways: yields ways to take devices of a type, the best first.
        strictly: whether they must be behind the same PCIe switches.
        freely: whether leading devices may be taken in other ways as well.
    """
    leading, others = wants[0], wants[1:]
    candidates = offers[leading.type]
    if strictly:
        switches = [{pcie_of(one.place) for one in offers[other.type]} for other in others]
        candidates = [
            one for one in candidates if all(pcie_of(one.place) in those for those in switches)
        ]
    best: tuple[tuple[int, int], Chosen] | None = None
    for leaders in chain(ways(leading, candidates), _others(leading, candidates, freely=freely)):
        chosen = _with_others(leading, leaders, others, offers, strictly=strictly)
        if chosen is None:
            continue
        misses = _misses(chosen)
        if best is None or misses < best[0]:
            best = misses, chosen
        if not any(misses):
            break
    return None if best is None else best[1]


def _others(want: Want, candidates: Sequence[Left], *, freely: bool) -> Iterator[list[Left]]:
    """Yield every choice of devices, if there are not too many."""
    if not freely or comb(len(candidates), want.count) > _MOST:
        return
    for chosen in combinations(sorted(candidates, key=lambda one: one.place.minor), want.count):
        if in_scope(want, chosen):
            yield list(chosen)


def _with_others(
    leading: Want,
    leaders: list[Left],
    others: Iterable[Want],
    offers: Mapping[str, list[Left]],
    *,
    strictly: bool,
) -> Chosen | None:
    chosen: Chosen = [(leading, leaders)]
    for other in others:
        beside = _beside(other, offers[other.type], leaders, strictly=strictly)
        if beside is None:
            return None
        chosen.append((other, beside))
    return chosen


def _beside(
    want: Want, offers: Sequence[Left], leaders: Sequence[Left], *, strictly: bool
) -> list[Left] | None:
    """Return the devices closest to *leaders*, each of whom counts once as a partner."""
    ranked = sorted(offers, key=_turns(offers, leaders))
    chosen: list[Left] = []
    for place in (pcie_of_left, numa_of_left):
        room = Counter(map(place, leaders))
        room.subtract(map(place, chosen))
        for one in ranked:
            if len(chosen) < want.count and one not in chosen and room[place(one)] > 0:
                room[place(one)] -= 1
                chosen.append(one)
    chosen += [one for one in ranked if one not in chosen][: want.count - len(chosen)]
    switches = {pcie_of(one.place) for one in leaders}
    if strictly and {pcie_of(one.place) for one in chosen} != switches:
        return None
    return chosen if len(chosen) == want.count else None


def _turns(
    offers: Sequence[Left], leaders: Sequence[Left]
) -> Callable[[Left], tuple[int, int, int, int]]:
    """Return a sort key: the closest first, taking turns among the switches of *leaders*."""
    switches = list(dict.fromkeys(map(pcie_of_left, leaders)))
    numas = {one.place.numa for one in leaders}
    turns: Counter[Hashable] = Counter()
    turn_of: dict[int, int] = {}
    for one in sorted(offers, key=lambda one: one.place.minor):
        turn_of[one.place.minor] = turns[pcie_of(one.place)]
        turns[pcie_of(one.place)] += 1

    def key(one: Left) -> tuple[int, int, int, int]:
        switch = pcie_of(one.place)
        if switch in switches:
            return 0, turn_of[one.place.minor], switches.index(switch), one.place.minor
        return (1 if one.place.numa in numas else 2), 0, 0, one.place.minor

    return key


def pcie_of_left(one: Left) -> Hashable:
    """Return the PCIe switch of a device."""
    return pcie_of(one.place)


def numa_of_left(one: Left) -> Hashable:
    """Return the NUMA node of a device."""
    return one.place.numa


def _misses(chosen: Chosen) -> tuple[int, int]:
    """Return how many devices miss a partner on their NUMA node, and behind their switch."""
    (_, leaders), *others = chosen
    numa = sum(_unpaired(leaders, devices, numa_of_left) for _, devices in others)
    switch = sum(_unpaired(leaders, devices, pcie_of_left) for _, devices in others)
    return numa, switch


def _unpaired(one: Sequence[Left], other: Sequence[Left], place: Callable[[Left], Hashable]) -> int:
    paired = Counter(map(place, one)) & Counter(map(place, other))
    return min(len(one), len(other)) - paired.total()
