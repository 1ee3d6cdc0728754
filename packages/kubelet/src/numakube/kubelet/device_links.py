"""Whether the devices that a kubelet hands out are linked to each other, and how likely that is.

Which devices of a NUMA node a container gets is often luck (`numakube.kubelet.device_pairs`), and
so is whether they are of one island.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from math import comb
from typing import TYPE_CHECKING

from numakube.api.node_islands import NONE_TOLD
from numakube.kubelet.device_islands import islands_of
from numakube.kubelet.device_pairs import device_handouts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.api.node_islands import ToldIslands
    from numakube.kubelet.admission_outcome import Admitted
    from numakube.kubelet.device_pairs import DeviceHandout
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.pod_demand import PodDemand


@dataclass(frozen=True, slots=True)
class LinkedProspect:
    """Whether the devices of one resource that a container will get are pairwise linked.

    Attributes:
        wanted: how many it gets.
        free: how many of each island are free, the most first; empty if no links are known.
        chance: how likely they are linked, if each choice is as likely; ``None`` if that cannot be
            told because islands overlap.
    """

    resource: str
    wanted: int
    free: tuple[int, ...]
    chance: float | None


def device_sets(
    model: KubeletNode, resource: str, told: ToldIslands = NONE_TOLD
) -> tuple[frozenset[str], ...]:
    """Return the islands of a resource as sets of ids: as they are told, or else by their links."""
    devices = model.devices.devices_of(resource)
    if resource in told:
        positions = told[resource]
        return tuple(
            frozenset(device.id for at, device in enumerate(devices) if at in island)
            for island in positions
        )
    islands = islands_of(model.machine.tree, (device.pci for device in devices))
    return tuple(
        frozenset(device.id for device in devices if device.pci in island) for island in islands
    )


def linked_prospects(
    model: KubeletNode, demand: PodDemand, admitted: Admitted, told: ToldIslands = NONE_TOLD
) -> tuple[LinkedProspect, ...]:
    """Return the prospect of every resource of which *model* gives a container several devices."""
    handouts = device_handouts(model, demand, admitted)
    return tuple(
        _prospect(model, handout, device_sets(model, handout.resource, told))
        for handout in chain.from_iterable(handouts.values())
        if len(handout.certain) + handout.wanted > 1
    )


def held_linked(
    model: KubeletNode, uid: str, told: ToldIslands = NONE_TOLD
) -> dict[str, bool | None]:
    """Return by resource whether the devices of each container of a pod are linked.

    That is ``None`` where no links are known; resources of which no container has several are
    missing.
    """
    found: dict[str, bool | None] = {}
    for held in model.devices.assignments.get(uid, {}).values():
        for resource, ids in held.items():
            if len(ids) > 1:
                islands = device_sets(model, resource, told)
                linked = any(island.issuperset(ids) for island in islands)
                found[resource] = found.get(resource) is not False and linked if islands else None
    return found


def _prospect(
    model: KubeletNode, handout: DeviceHandout, islands: Sequence[frozenset[str]]
) -> LinkedProspect:
    available = model.devices.available(handout.resource)
    free = sorted((len(island & available) for island in islands), reverse=True)
    wanted = len(handout.certain) + handout.wanted
    return LinkedProspect(handout.resource, wanted, tuple(free), linked_chance(islands, handout))


def linked_chance(islands: Sequence[frozenset[str]], handout: DeviceHandout) -> float | None:
    """Return how likely it is that all that a container gets is in one of *islands*, sets of ids.

    Parts of one function are as close as can be, and count as linked.
    """
    functions = {device.pci for device in (*handout.certain, *handout.candidates)}
    if len(functions) == 1 and all(functions):
        return 1.0
    certain = {device.id for device in handout.certain}
    candidates = {device.id for device in handout.candidates}
    counts = [len(island & candidates) for island in islands if island >= certain]
    if not any(count >= handout.wanted for count in counts):
        return 0.0
    if any(count == len(candidates) for count in counts):
        return 1.0
    if sum(map(len, islands)) != len(frozenset().union(*islands)):
        return None
    ways = sum(comb(count, handout.wanted) for count in counts)
    return ways / comb(len(candidates), handout.wanted)
