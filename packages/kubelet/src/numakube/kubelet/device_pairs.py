"""How close to each other the devices are that a kubelet will hand out.

A container with GPUs and network cards wants each device of the resource with fewer devices to
have one of the other resource beside it. `pairing` pairs them so that the worst pair is as close as
possible.

Which devices the kubelet hands out is certain if the model knows how it chooses: if the plugin of
the resource has published its preference, or if all devices near the container's NUMA nodes are
needed.
Otherwise the kubelet takes any of them (it iterates over a Go map, kubelet 1.37:
``devicesToAllocate``), or leaves it to a plugin whose preference is not known. Then luck decides:
`foresee` says how close the devices may be, and how likely that is if every choice is as likely.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations, product
from math import comb, prod
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.strictness import RequiredCloseness
from numakube.kubelet.machine import Closeness
from numakube.kubelet.pod_demand import ContainerRole
from numakube.values.numamask import mask_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.kubelet.admission_outcome import Admitted, ContainerPlacement
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import Device, DeviceTree
    from numakube.kubelet.pod_demand import PodDemand

WITHIN: Final = {
    RequiredCloseness.SAME_SWITCH: Closeness.PXB,
    RequiredCloseness.SAME_ROOT: Closeness.PHB,
    RequiredCloseness.SAME_NUMA: Closeness.NODE,
}
"""How close devices must be at least."""

Functions: TypeAlias = tuple[str, ...]
"""Addresses of PCI functions, one for each device."""

_CHOICES_AT_MOST: Final = 1000
"""Beyond that many ways to choose, only the best and the worst conceivable are told."""


@dataclass(frozen=True, slots=True)
class Handout:
    """The devices of one resource that a container will get.

    Attributes:
        certain: functions of those that it gets in any case.
        candidates: functions of those among which luck decides.
        wanted: how many of the candidates it gets.
    """

    certain: Functions
    candidates: Functions = ()
    wanted: int = 0


@dataclass(frozen=True, slots=True)
class Prospect:
    """How close the devices of a container, or of a pod, will be.

    Attributes:
        container: the container; empty if it is the pod as a whole.
        resources: those whose devices are paired.
        chances: the likelihood of each closeness of the worst pair, closest first; ``None`` instead
            of a likelihood if there are too many choices.
        unknown: resources whose devices are connected in an unknown way.
    """

    container: str = ""
    resources: tuple[str, ...] = ()
    chances: tuple[tuple[Closeness, float | None], ...] = ()
    unknown: tuple[str, ...] = ()

    @property
    def best(self) -> Closeness | None:
        """The closest that it can be; ``None`` if nothing is known."""
        return self.chances[0][0] if self.chances else None

    @property
    def worst(self) -> Closeness | None:
        """The farthest that it can be; ``None`` if nothing is known."""
        return self.chances[-1][0] if self.chances else None

    def likelihood(self, closeness: Closeness) -> float | None:
        """Return how likely it is that close or closer; ``None`` if there is no telling."""
        within = [share for level, share in self.chances if level <= closeness]
        if len(within) in (0, len(self.chances)):
            return 1.0 if within else 0.0
        known = [share for share in within if share is not None]
        return sum(known) if len(known) == len(within) else None


def pairing(tree: DeviceTree, groups: Sequence[Functions]) -> Closeness | None:
    """Return how close the worst pair is if every two *groups* are paired in the best way."""
    worst: Closeness | None = None
    for one, other in combinations(groups, 2):
        level = _worst_pair(tree, one, other)
        if level is None:
            return None
        worst = level if worst is None else max(worst, level)
    return worst


def _worst_pair(tree: DeviceTree, one: Functions, other: Functions) -> Closeness | None:
    few, many = sorted((one, other), key=len)
    levels = [[_level(tree, a, b) for b in many] for a in few]
    known = sorted({level for row in levels for level in row if level is not None})
    return next((level for level in known if _paired(levels, level) == len(few)), None)


def _level(tree: DeviceTree, one: str, other: str) -> Closeness | None:
    connection = tree.between(one, other)
    return None if connection is None else connection.closeness


def _paired(levels: Sequence[Sequence[Closeness | None]], most: Closeness) -> int:
    """Return how many rows can have a column of their own that is close enough (Kuhn)."""
    partner: dict[int, int] = {}

    def place(row: int, tried: set[int]) -> bool:
        for column, level in enumerate(levels[row]):
            if level is None or level > most or column in tried:
                continue
            tried.add(column)
            if column not in partner or place(partner[column], tried):
                partner[column] = row
                return True
        return False

    return sum(place(row, set()) for row in range(len(levels)))


def foresee(model: KubeletNode, demand: PodDemand, admitted: Admitted) -> tuple[Prospect, ...]:
    """Return how close the devices will be that *model*, not changed yet, gives to a pod.

    Each container with devices of several resources is looked at by itself; a pod none of whose
    containers has, as a whole. Nothing is returned for pods without such devices.
    """
    handouts = _handouts(model, demand, admitted)
    alone = [item for item in handouts.items() if len(item[1]) > 1]
    if alone:
        return tuple(_prospect(model.machine.tree, name, held) for name, held in alone)
    whole = _of_pod(handouts.values())
    return (_prospect(model.machine.tree, "", whole),) if len(whole) > 1 else ()


def certain_functions(
    model: KubeletNode, demand: PodDemand, admitted: Admitted
) -> tuple[Functions, ...]:
    """Return the functions of each resource whose devices a pod will get for certain."""
    whole = _of_pod(_handouts(model, demand, admitted).values())
    return tuple(
        handout.certain
        for handout in whole.values()
        if not handout.candidates and all(handout.certain)
    )


def _of_pod(containers: Iterable[Mapping[str, Handout]]) -> dict[str, Handout]:
    whole: dict[str, Handout] = {}
    for held in containers:
        for resource, handout in held.items():
            whole[resource] = _joined(whole.get(resource, Handout(())), handout)
    return whole


def _joined(one: Handout, other: Handout) -> Handout:
    return Handout(
        one.certain + other.certain,
        one.candidates or other.candidates,
        one.wanted + other.wanted,
    )


@dataclass(frozen=True, slots=True)
class DeviceHandout:
    """The same as devices: those that a container gets in any case, and those for which luck is.

    Attributes:
        wanted: how many of the candidates it gets.
    """

    resource: str
    certain: tuple[Device, ...]
    candidates: tuple[Device, ...] = ()
    wanted: int = 0

    @property
    def functions(self) -> Handout:
        """The PCI functions of the devices."""
        certain, candidates = (
            tuple(device.pci for device in some) for some in (self.certain, self.candidates)
        )
        return Handout(certain, candidates, self.wanted)


def device_handouts(
    model: KubeletNode, demand: PodDemand, admitted: Admitted
) -> dict[str, tuple[DeviceHandout, ...]]:
    """Return what each container that lasts will get of *model*, which is not changed yet."""
    taken: set[tuple[str, str]] = set()
    found: dict[str, tuple[DeviceHandout, ...]] = {}
    for container in demand.containers:
        placement = admitted.containers[container.name]
        if container.role is not ContainerRole.INIT:
            found[container.name] = tuple(
                _handout(model, resource, placement, taken)
                for resource, ids in placement.devices.items()
                if ids
            )
            taken.update((name, id_) for name, ids in placement.devices.items() for id_ in ids)
    return found


def _handouts(
    model: KubeletNode, demand: PodDemand, admitted: Admitted
) -> dict[str, dict[str, Handout]]:
    return {
        container: {handout.resource: handout.functions for handout in handouts}
        for container, handouts in device_handouts(model, demand, admitted).items()
    }


def _handout(
    model: KubeletNode, resource: str, placement: ContainerPlacement, taken: set[tuple[str, str]]
) -> DeviceHandout:
    devices = model.devices.devices_of(resource)
    by_id = {device.id: device for device in devices}
    given = placement.devices[resource]
    chosen = tuple(by_id[id_] for id_ in given)
    if model.devices.preferred(resource) is not None:
        return DeviceHandout(resource, chosen)
    free = model.devices.available(resource)
    left = [
        device for device in devices if device.id in free and (resource, device.id) not in taken
    ]
    aligned, others = _by_affinity(left, placement.hint.mask)
    if len(aligned) > len(given):
        return DeviceHandout(resource, (), tuple(aligned), len(given))
    rest = len(given) - len(aligned)
    if rest in (0, len(others)):
        return DeviceHandout(resource, chosen)
    return DeviceHandout(resource, tuple(aligned), tuple(others), rest)


def _by_affinity(devices: Iterable[Device], mask: int | None) -> tuple[list[Device], list[Device]]:
    """Return the devices that the kubelet takes first, and the others."""
    near: list[Device] = []
    others: list[Device] = []
    for device in devices:
        aligned = mask is not None and bool(mask_of(device.numa_nodes) & mask)
        (near if aligned else others).append(device)
    return near, others


def _prospect(tree: DeviceTree, container: str, held: Mapping[str, Handout]) -> Prospect:
    known = {name: one for name, one in held.items() if all((*one.certain, *one.candidates))}
    unknown = tuple(sorted(held.keys() - known.keys()))
    resources = tuple(sorted(known))
    chances = _chances(tree, tuple(known[name] for name in resources))
    return Prospect(container, resources, chances, unknown)


def _chances(
    tree: DeviceTree, handouts: tuple[Handout, ...]
) -> tuple[tuple[Closeness, float | None], ...]:
    ways = [Counter(handout.candidates) for handout in handouts]
    if prod(comb(len(w) + h.wanted, h.wanted) for w, h in zip(ways, handouts, strict=True)) > (
        _CHOICES_AT_MOST
    ):
        return _extremes(tree, handouts)
    weights: Counter[Closeness] = Counter()
    for choice in product(*(tuple(_choices(handout)) for handout in handouts)):
        level = pairing(tree, [functions for functions, _ in choice])
        if level is None:
            return ()
        weights[level] += prod(weight for _, weight in choice)
    total = sum(weights.values())
    return tuple((level, weights[level] / total) for level in sorted(weights))


@lru_cache(maxsize=4096)
def _choices(handout: Handout) -> tuple[tuple[Functions, int], ...]:
    """Return the functions that a container may get, and in how many ways."""
    counts = sorted(Counter(handout.candidates).items())

    def pick(position: int, wanted: int) -> Iterator[tuple[Functions, int]]:
        if not wanted:
            yield (), 1
        if not wanted or position == len(counts):
            return
        function, count = counts[position]
        for number in range(min(count, wanted), -1, -1):
            for rest, weight in pick(position + 1, wanted - number):
                yield (function,) * number + rest, weight * comb(count, number)

    return tuple((handout.certain + rest, weight) for rest, weight in pick(0, handout.wanted))


def _extremes(
    tree: DeviceTree, handouts: Sequence[Handout]
) -> tuple[tuple[Closeness, float | None], ...]:
    """Return the best that there could be and the worst that any two devices are."""
    everything = [handout.certain + handout.candidates for handout in handouts]
    levels = [
        _level(tree, a, b)
        for one, other in combinations(everything, 2)
        for a in set(one)
        for b in set(other)
    ]
    known = [level for level in levels if level is not None]
    if not levels or len(known) < len(levels):
        return ()
    best, worst = _best_choice(tree, handouts), max(known)
    return ((best, None), (worst, None)) if best < worst else ((best, 1.0),)


def _best_choice(tree: DeviceTree, handouts: Sequence[Handout]) -> Closeness:
    """Return a bound of how close the devices can be: each two resources by themselves.

    All of them are connected in a known way, so that enough can be paired at the farthest.
    """
    closest = []
    for one, other in combinations(handouts, 2):
        few, many = sorted((one, other), key=lambda h: len(h.certain) + h.wanted)
        levels = [
            [_level(tree, a, b) for b in many.certain + many.candidates]
            for a in few.certain + few.candidates
        ]
        need = len(few.certain) + few.wanted
        known = sorted({level for row in levels for level in row if level is not None})
        closest.append(next(level for level in known if _paired(levels, level) >= need))
    return max(closest)
