"""Which CPUs a claim gets: a pure function of its allocation and of what others hold.

The scheduler has chosen a group and an amount; the CPUs in the group are chosen here, as the
kubelet's static CPU Manager would choose them on that NUMA node (``takeByTopology`` of Kubernetes
1.28 to 1.37, by the kubelet model itself). The largest request of a claim comes first, as it finds
the most whole cores and caches then.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from numakube.errors import InvalidValue
from numakube.kubelet.cpu_selection import CpuShortage, PackedOrder, take_packed
from numakube.values.cpuset import CpuMask, CpuSet, cpu_mask
from numakube.values.quantity import milli_value
from numakube.values.resources import MILLI_PER_CPU
from numakube_dra_driver.devices import CPU_CAPACITY, DRIVER
from numakube_dra_driver.parameters import Take, parameters_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.resource_claims import (
        DeviceAllocationResult,
        DeviceRequestAllocationResult,
    )
    from numakube.kubelet.cpu_manager import CpuManager
    from numakube_dra_driver.devices import CpuGroup
    from numakube_dra_driver.parameters import CpuParameters


@dataclass(frozen=True, slots=True)
class ClaimRefusal:
    """Why a claim gets nothing, in words for its owner."""

    why: str


@dataclass(frozen=True, slots=True)
class _Wish:
    place: int
    result: DeviceRequestAllocationResult
    group: CpuGroup
    count: int
    parameters: CpuParameters


def ours(allocation: DeviceAllocationResult) -> tuple[DeviceRequestAllocationResult, ...]:
    """Return the results of an allocation that are this driver's."""
    return tuple(result for result in allocation.results if result.driver == DRIVER)


def assign(
    allocation: DeviceAllocationResult,
    groups: Mapping[str, CpuGroup],
    held: CpuMask,
    manager: CpuManager,
) -> tuple[CpuMask, ...] | ClaimRefusal:
    """Return the CPUs of each of our results of *allocation*, in their order.

    Args:
        allocation: what the scheduler has chosen.
        groups: what is offered, by name.
        held: CPUs that are taken.
        manager: the kubelet's CPU Manager, for its order of CPUs.
    """
    results = ours(allocation)
    try:
        wishes = [_wish(allocation, n, one, groups) for n, one in enumerate(results)]
    except InvalidValue as error:
        return ClaimRefusal(str(error))
    chosen: dict[int, CpuMask] = {}
    # CPUs that are named come first: nothing else can stand in for them.
    for wish in sorted(wishes, key=lambda one: (one.parameters.cpuset is None, -one.count)):
        cpus = _choose(wish, held, manager)
        if isinstance(cpus, ClaimRefusal):
            return cpus
        chosen[wish.place] = cpus
        held |= cpus
    return tuple(chosen[place] for place in range(len(results)))


def _wish(
    allocation: DeviceAllocationResult,
    place: int,
    result: DeviceRequestAllocationResult,
    groups: Mapping[str, CpuGroup],
) -> _Wish:
    group = groups.get(result.device)
    if group is None:
        raise InvalidValue(
            f"request {result.request}: device {result.device} is not offered by this node"
            " (were reserved CPUs or the grouping changed?)"
        )
    if result.admin_access:
        raise InvalidValue(f"request {result.request}: CPUs have no administrative access")
    count = _count(result, group)
    parameters = parameters_of(allocation, result.request, DRIVER).cpus
    return _Wish(place, result, group, count, parameters)


def _count(result: DeviceRequestAllocationResult, group: CpuGroup) -> int:
    """Return how many CPUs a result stands for."""
    if not group.is_shared:
        return group.cpus.bit_count()
    amount = result.consumed_capacity.get(CPU_CAPACITY)
    if amount is None:
        raise InvalidValue(
            f"request {result.request}: the allocation of {result.device} says no {CPU_CAPACITY}"
        )
    milli = milli_value(amount)
    if milli <= 0 or milli % MILLI_PER_CPU:
        raise InvalidValue(f"request {result.request}: {amount} is not a whole number of CPUs")
    return milli // MILLI_PER_CPU


def _choose(wish: _Wish, held: CpuMask, manager: CpuManager) -> CpuMask | ClaimRefusal:
    free = wish.group.cpus & ~held
    if wish.parameters.cpuset is not None:
        return _named(wish, CpuSet.parse(wish.parameters.cpuset).mask, held)
    taken = _take(wish, free, manager)
    if isinstance(taken, CpuShortage):
        return ClaimRefusal(
            f"request {wish.result.request}: {wish.group.name} has {free.bit_count()} of "
            f"{wish.group.cpus.bit_count()} CPUs free, and {wish.count} are allocated"
        )
    # On machines whose cores differ the kubelet takes cores for free that are half taken.
    return taken if taken & ~free == 0 else cpu_mask(islice(CpuSet(free), wish.count))


def _take(wish: _Wish, free: CpuMask, manager: CpuManager) -> CpuMask | CpuShortage:
    parameters = wish.parameters
    if parameters.take is None and parameters.prefer_l3 is None:
        return manager.take(free, wish.count)
    order = PackedOrder(
        spread_over_cores=parameters.take is Take.SPREAD,
        align_by_uncore=bool(parameters.prefer_l3),
        odd_uncore_requests=manager.behaviour.odd_uncore_requests,
    )
    return take_packed(manager.topology, free, wish.count, order)


def _named(wish: _Wish, cpus: CpuMask, held: CpuMask) -> CpuMask | ClaimRefusal:
    """Return CPUs that a claim names, if it may have them."""
    where = f"request {wish.result.request}: cpuset {CpuSet(cpus)}"
    if cpus.bit_count() != wish.count:
        return ClaimRefusal(f"{where}: {cpus.bit_count()} CPUs, and {wish.count} are allocated")
    if foreign := cpus & ~wish.group.cpus:
        return ClaimRefusal(f"{where}: {wish.group.name} does not offer CPUs {CpuSet(foreign)}")
    if taken := cpus & held:
        return ClaimRefusal(f"{where}: CPUs {CpuSet(taken)} belong to others")
    return cpus
