"""Devices of several types that are placed together, as close as any choice of them can be.

The leading type is chosen first, the others beside it: behind the PCIe switch of a leading device
that has none yet, else below its PCIe root, else on its NUMA node, else anywhere. A choice of
leading devices is judged by how many of the scarcer devices then miss a partner on the NUMA node,
below the root, and behind the switch. The first one that misses nothing is taken, and of those that
miss something the best. All choices are looked at, those that keep branches of the tree whole
(`device_groups`) first. Where there are more than `_MOST`, only those are, and the one that takes
the closest pairs one after the other: places are nested, so that none misses less with two types.
"""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations
from math import comb
from typing import TYPE_CHECKING, Final

from numakube.kubelet.device_pairs import pairing
from numakube.kubelet.machine import DeviceTree, PciPath
from numakube_placement.koordinator.device_groups import in_scope, pcie_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from numakube.kubelet.machine import Closeness
    from numakube_placement.koordinator.device_groups import Left, Want
    from numakube_placement.koordinator.node_facts import DevicePlace

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
        switches = [{pcie_of(offer.place) for offer in offers[other.type]} for other in others]
        candidates = [
            candidate
            for candidate in candidates
            if all(pcie_of(candidate.place) in those for those in switches)
        ]
    best: tuple[tuple[int, ...], Chosen] | None = None
    more = _others(leading, candidates, offers[others[0].type]) if freely else ()
    for leaders in chain(ways(leading, candidates), more):
        chosen = _with_others(leading, leaders, others, offers, strictly=strictly)
        if chosen is None:
            continue
        misses = _misses(chosen)
        if best is None or misses < best[0]:
            best = misses, chosen
        if not any(misses):
            break
    return None if best is None else best[1]


def _others(
    want: Want, candidates: Sequence[Left], partners: Sequence[Left]
) -> Iterator[list[Left]]:
    """Yield every choice of devices, or the one closest to *partners* if there are too many."""
    ordered = sorted(candidates, key=lambda candidate: candidate.place.minor)
    if comb(len(candidates), want.count) > _MOST:
        choices: Iterable[Sequence[Left]] = [_closest(want, ordered, partners)]
    else:
        choices = combinations(ordered, want.count)
    yield from (list(chosen) for chosen in choices if in_scope(want, chosen))


def _closest(want: Want, candidates: Sequence[Left], partners: Sequence[Left]) -> list[Left]:
    """Return the devices that have a partner of their own, the closest pairs first."""
    chosen: list[Left] = []
    used: list[Left] = []
    for place in _PLACES:
        free = [partner for partner in partners if partner not in used]
        for candidate in candidates:
            partner = next((other for other in free if place(other) == place(candidate)), None)
            if candidate not in chosen and partner is not None and len(chosen) < want.count:
                chosen.append(candidate)
                used.append(partner)
                free.remove(partner)
    return [*chosen, *(candidate for candidate in candidates if candidate not in chosen)][
        : want.count
    ]


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
    for place in _PLACES:
        room = Counter(map(place, leaders))
        room.subtract(map(place, chosen))
        for one in ranked:
            if len(chosen) < want.count and one not in chosen and room[place(one)] > 0:
                room[place(one)] -= 1
                chosen.append(one)
    chosen += [one for one in ranked if one not in chosen][: want.count - len(chosen)]
    switches = {pcie_of(leader.place) for leader in leaders}
    if strictly and {pcie_of(one.place) for one in chosen} != switches:
        return None
    return chosen if len(chosen) == want.count else None


def _turns(
    offers: Sequence[Left], leaders: Sequence[Left]
) -> Callable[[Left], tuple[int, int, int, int]]:
    """Return a sort key: the closest first, taking turns among the switches of *leaders*."""
    switches = list(dict.fromkeys(map(pcie_of_left, leaders)))
    numas = {leader.place.numa for leader in leaders}
    turns: Counter[Hashable] = Counter()
    turn_of: dict[int, int] = {}
    for offer in sorted(offers, key=lambda offer: offer.place.minor):
        turn_of[offer.place.minor] = turns[pcie_of(offer.place)]
        turns[pcie_of(offer.place)] += 1

    def key(one: Left) -> tuple[int, int, int, int]:
        switch = pcie_of(one.place)
        if switch in switches:
            return 0, turn_of[one.place.minor], switches.index(switch), one.place.minor
        return (1 if one.place.numa in numas else 2), 0, 0, one.place.minor

    return key


def pcie_of_left(one: Left) -> Hashable:
    """Return the PCIe switch or root of a device, as its Device tells it."""
    return pcie_of(one.place)


def _of_switch(one: Left) -> Hashable:
    return *pcie_of(one.place), *one.place.bridges[:1]


def _of_inner_switch(one: Left) -> Hashable:
    """Return the switch right above a device, of several that are cascaded."""
    return *pcie_of(one.place), *(one.place.bridges[:-1] or one.place.bridges)


def _of_numa_node(one: Left) -> Hashable:
    return one.place.numa


_PLACES: Final = (_of_inner_switch, _of_switch, pcie_of_left, _of_numa_node)
"""What a device shares with others, each place within the next."""


def _misses(chosen: Chosen) -> tuple[int, ...]:
    """Return how many devices miss a partner on their NUMA node, and in each place within."""
    (_, leaders), *others = chosen
    return tuple(
        sum(_unpaired(leaders, devices, place) for _, devices in others)
        for place in reversed(_PLACES)
    )


def _unpaired(one: Sequence[Left], other: Sequence[Left], place: Callable[[Left], Hashable]) -> int:
    paired = Counter(map(place, one)) & Counter(map(place, other))
    return min(len(one), len(other)) - paired.total()


def closeness_of(groups: Sequence[Sequence[DevicePlace]]) -> Closeness | None:
    """Return how close the worst pair of devices of different types is; ``None`` if not known."""
    paths = [tuple(map(_path, places)) for places in groups]
    tree = DeviceTree({path.address: path for some in paths for path in some})
    return pairing(tree, [tuple(path.address for path in some) for some in paths])


def _path(place: DevicePlace) -> PciPath:
    """Return where a device is; one that does not tell its root shares it with no other."""
    name = f"{place.type} {place.minor}"
    return PciPath(name, place.pcie or f"of {name}", place.bridges, place.numa)
