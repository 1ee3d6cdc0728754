"""What a claim gets: a pure function of its allocation and of what others hold.

The scheduler has chosen devices and amounts. Which CPUs of a device these are is chosen here, as
the kubelet's static CPU Manager would choose them on that NUMA node (``takeByTopology`` of
Kubernetes 1.28 to 1.37, by the kubelet model itself). The largest request of a claim comes first,
as it finds the most whole cores and caches then. Memory has no parts to choose: it is a promise of
so much of a NUMA node. A PCI function is given as a whole, to one claim.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.errors import InvalidValue
from numakube.kubelet.cpu_selection import CpuShortage, PackedOrder, take_packed
from numakube.values.cpuset import NO_CPUS, CpuMask, CpuSet, cpu_mask, union
from numakube.values.names import dns_label
from numakube.values.quantity import milli_value, value
from numakube.values.resources import CPU, MILLI_PER_CPU, quantity_of
from numakube_dra_driver.devices import DRA_CPU, DRA_CPU_MACHINE
from numakube_dra_driver.identity import OWN
from numakube_dra_driver.ledger import GivenDevice, GivenFunction, PreparedClaim
from numakube_dra_driver.parameters import MemoryBinding, Quota, Take

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence, Set

    from numakube.api.resource_claims import (
        DeviceAllocationResult,
        DeviceRequestAllocationResult,
        ResourceClaim,
    )
    from numakube.kubelet.cpu_manager import CpuManager
    from numakube_dra_driver.devices import CpuGroup
    from numakube_dra_driver.identity import Identity
    from numakube_dra_driver.ledger import Held
    from numakube_dra_driver.offer import Offer
    from numakube_dra_driver.parameters import Parameters


POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"
"""The annotation of claims that were made from templates: what the pod calls them."""


@dataclass(frozen=True, slots=True)
class ClaimRefusal:
    """Why a claim gets nothing, in words for its owner."""

    why: str


@dataclass(frozen=True, slots=True)
class _Wish:
    """A result of the allocation, and what its owner says about it."""

    place: int
    result: DeviceRequestAllocationResult
    parameters: Parameters


@dataclass(frozen=True, slots=True)
class _CpuWish:
    """CPUs that are to be chosen."""

    wish: _Wish
    group: CpuGroup
    count: int

    @property
    def cpuset(self) -> str | None:
        """The CPUs that the claim names."""
        return self.wish.parameters.cpus.cpuset

    @property
    def is_shared(self) -> bool:
        """Whether it stands for a place where others run, too."""
        return self.wish.parameters.cpus.exclusive is False


def ours(
    allocation: DeviceAllocationResult, driver: str
) -> tuple[DeviceRequestAllocationResult, ...]:
    """Return the results of an allocation that are *driver*'s."""
    return tuple(result for result in allocation.results if result.driver == driver)


def assign(
    allocation: DeviceAllocationResult, offer: Offer, held: Held, identity: Identity = OWN
) -> tuple[GivenDevice, ...] | ClaimRefusal:
    """Return what each of our results of *allocation* has, in their order.

    Args:
        allocation: what the scheduler has chosen.
        offer: what the node offers.
        held: what is taken.
        identity: in whose name.
    """
    try:
        wishes = [
            _Wish(place, result, identity.parameters_of(allocation, result.request))
            for place, result in enumerate(ours(allocation, identity.driver))
        ]
        given = _memory(wishes, offer, held)
        given |= _cpus(wishes, offer, held, has_memory=bool(given))
        given |= _functions(wishes, offer, held)
        requests = {result.request.partition("/")[0] for result in allocation.results}
        return tuple(
            _joined(given[wish.place], wish, wishes, requests)
            for wish in wishes
            if _is_known(wish, given)
        )
    except InvalidValue as error:
        return ClaimRefusal(str(error))


def _is_known(wish: _Wish, given: Mapping[int, GivenDevice]) -> bool:
    """Refuse what is allocated of devices that there are not."""
    if wish.place not in given:
        raise InvalidValue(
            f"request {wish.result.request}: device {wish.result.device} is not offered by this "
            "node (were reserved CPUs, reserved memory, the grouping or the pools changed?)"
        )
    if wish.result.admin_access:
        raise InvalidValue(f"request {wish.result.request}: there is no administrative access")
    return True


def given_of(result: DeviceRequestAllocationResult) -> GivenDevice:
    """Return what stands for a result, with nothing in it."""
    return GivenDevice(
        request=result.request,
        pool=result.pool,
        device=result.device,
        share=result.share_id or "",
    )


def _joined(
    given: GivenDevice, wish: _Wish, wishes: Sequence[_Wish], requests: Set[str]
) -> GivenDevice:
    """Return what is given, with the requests whose containers have it, too."""
    own = given.base_request
    named = wish.parameters.goes_with or ()
    if unknown := set(named) - requests:
        raise InvalidValue(f"request {own}: with: the claim has no request {min(unknown)}")
    bundled = {one.result.request.partition("/")[0] for one in wishes if one.parameters.bundle}
    heads = {
        request
        for request in requests
        if own.startswith(f"{request}-") and bundled & {own, request}
    }
    return replace(given, goes_with=tuple(sorted({*named, *heads} - {own})))


def _memory(wishes: Iterable[_Wish], offer: Offer, held: Held) -> dict[int, GivenDevice]:
    """Return what results have of memory, by their places."""
    given: dict[int, GivenDevice] = {}
    taken = dict(held.amounts)
    for wish in wishes:
        pool = offer.memory.get(wish.result.device)
        if pool is None:
            continue
        size = _amount(wish.result, pool.capacity)
        request = wish.result.request
        if size <= 0 or size % pool.step_bytes:
            step = quantity_of(pool.resource, pool.step_bytes)
            raise InvalidValue(f"request {request}: {size} bytes are not a multiple of {step}")
        free = pool.size_bytes - taken.get(pool.name, 0)
        if size > free:
            left, all_of, wanted = (
                quantity_of(pool.resource, amount) for amount in (free, pool.size_bytes, size)
            )
            raise InvalidValue(
                f"request {request}: {pool.name} has {left} of {all_of} free, and {wanted} are "
                "allocated"
            )
        taken[pool.name] = pool.size_bytes - free + size
        binds = wish.parameters.memory is not MemoryBinding.ANY
        given[wish.place] = replace(
            given_of(wish.result),
            resource=pool.resource,
            amount=size,
            mems=str(pool.numa_node) if binds else "",
        )
    return given


def _cpus(
    wishes: Iterable[_Wish], offer: Offer, held: Held, *, has_memory: bool
) -> dict[int, GivenDevice]:
    """Return what results have of CPUs, by their places."""
    taken, amounts = held.cpus, dict(held.amounts)
    given: dict[int, GivenDevice] = {}
    asked = [
        _CpuWish(wish, group, count_of(wish.result, group))
        for wish in wishes
        if (group := offer.groups.get(wish.result.device)) is not None
    ]
    # CPUs that are named come first: nothing else can stand in for them.
    for cpu in sorted(asked, key=lambda one: (one.cpuset is None, -one.count)):
        cpus = NO_CPUS if cpu.is_shared else _choose(cpu, taken, offer.manager)
        if cpu.is_shared:
            _check_room(cpu, amounts.get(cpu.group.name, 0))
        taken |= cpus
        milli = cpu.count * MILLI_PER_CPU
        amounts[cpu.group.name] = amounts.get(cpu.group.name, 0) + milli
        nodes = cpu.group.numa_nodes if cpu.is_shared else _nodes(cpus, offer.manager)
        near = not has_memory and cpu.wish.parameters.memory is MemoryBinding.NEAR
        given[cpu.wish.place] = replace(
            given_of(cpu.wish.result),
            cpus=str(CpuSet(cpus)),
            near=_text(nodes) if cpu.is_shared else "",
            mems=_text(nodes) if near else "",
            resource=CPU,
            amount=milli,
            is_throttled=cpu.wish.parameters.quota is Quota.KEEP,
        )
    return given


def _functions(wishes: Iterable[_Wish], offer: Offer, held: Held) -> dict[int, GivenDevice]:
    """Return what results have of PCI functions, by their places."""
    offered = offer.functions.by_name if offer.functions is not None else {}
    taken = dict(held.functions)
    given: dict[int, GivenDevice] = {}
    for wish in wishes:
        function = offered.get(wish.result.device)
        if function is None:
            continue
        where = f"request {wish.result.request}: {wish.result.device} ({function.id})"
        if owner := taken.get(function.id):
            raise InvalidValue(f"{where} belongs to {owner}")
        if function.trouble:
            raise InvalidValue(f"{where} {function.trouble}")
        taken[function.id] = "another request of this claim"
        given[wish.place] = replace(
            given_of(wish.result),
            resource=function.resource,
            amount=1,
            function=GivenFunction(id=function.id, resource=function.resource),
        )
    return given


def _text(nodes: Iterable[int]) -> str:
    return str(CpuSet.of(nodes))


def _nodes(cpus: CpuMask, manager: CpuManager) -> list[int]:
    return [node for node, members in manager.topology.numa.items() if members & cpus]


def _amount(result: DeviceRequestAllocationResult, capacity: str) -> int:
    """Return how many units a result takes of a capacity."""
    amount = result.consumed_capacity.get(capacity)
    if amount is None:
        raise InvalidValue(
            f"request {result.request}: the allocation of {result.device} says no {capacity}"
        )
    return value(amount)


def count_of(result: DeviceRequestAllocationResult, group: CpuGroup) -> int:
    """Return how many CPUs a result stands for."""
    if not group.is_shared:
        return group.cpus.bit_count()
    amount = result.consumed_capacity.get(group.capacity)
    if amount is None:
        raise InvalidValue(
            f"request {result.request}: the allocation of {result.device} says no {group.capacity}"
        )
    milli = milli_value(amount)
    if milli <= 0 or milli % MILLI_PER_CPU:
        raise InvalidValue(f"request {result.request}: {amount} is not a whole number of CPUs")
    return milli // MILLI_PER_CPU


def _check_room(cpu: _CpuWish, taken_milli: int) -> None:
    """Refuse a place of which so much is taken that the claim does not fit there."""
    _refuse_shortage(cpu, cpu.group.cpus.bit_count() - taken_milli // MILLI_PER_CPU)


def _refuse_shortage(cpu: _CpuWish, free: int) -> None:
    if free < cpu.count:
        raise InvalidValue(
            f"request {cpu.wish.result.request}: {cpu.group.name} has {free} of "
            f"{cpu.group.cpus.bit_count()} CPUs free, and {cpu.count} are allocated"
        )


def _choose(cpu: _CpuWish, held: CpuMask, manager: CpuManager) -> CpuMask:
    free = CpuMask(cpu.group.cpus & ~held)
    if cpu.cpuset is not None:
        return _named(cpu, CpuSet.parse(cpu.cpuset).mask, held)
    if cpu.group.name == DRA_CPU_MACHINE:
        raise InvalidValue(
            f"request {cpu.wish.result.request}: a claim of {DRA_CPU_MACHINE} names its "
            "CPUs, in cpuConfig.cpuset"
        )
    _refuse_shortage(cpu, free.bit_count())
    taken = _take(cpu, free, manager)
    if isinstance(taken, CpuShortage):
        raise InvalidValue(
            f"request {cpu.wish.result.request}: the policy options of CPUs do not let "
            f"{cpu.group.name} give {cpu.count} of its {free.bit_count()} free CPUs"
        )
    # On machines whose cores differ the kubelet takes cores for free that are half taken.
    return taken if taken & ~free == 0 else cpu_mask(islice(CpuSet(free), cpu.count))


def _take(cpu: _CpuWish, free: CpuMask, manager: CpuManager) -> CpuMask | CpuShortage:
    wanted = cpu.wish.parameters.cpus
    if wanted.take is Take.ONE_PER_CORE:
        return _one_per_core(cpu, free, manager)
    if wanted.take is None and wanted.prefer_l3 is None:
        return manager.take(free, cpu.count)
    order = PackedOrder(
        spread_over_cores=wanted.take is Take.SPREAD,
        align_by_uncore=bool(wanted.prefer_l3),
        odd_uncore_requests=manager.behaviour.odd_uncore_requests,
    )
    return take_packed(manager.topology, free, cpu.count, order)


def _one_per_core(cpu: _CpuWish, free: CpuMask, manager: CpuManager) -> CpuMask:
    """Return the first free CPU of each of as many cores."""
    cores = (core & free for core in manager.topology.cores.values())
    firsts = sorted(cpus & -cpus for cpus in cores if cpus)
    if len(firsts) < cpu.count:
        raise InvalidValue(
            f"request {cpu.wish.result.request}: {cpu.group.name} has free CPUs in {len(firsts)} "
            f"cores, and {cpu.count} are allocated, one-per-core"
        )
    return union(CpuMask(one) for one in firsts[: cpu.count])


def _named(cpu: _CpuWish, cpus: CpuMask, held: CpuMask) -> CpuMask:
    """Return CPUs that a claim names, if it may have them."""
    where = f"request {cpu.wish.result.request}: cpuset {CpuSet(cpus)}"
    if cpus.bit_count() != cpu.count:
        raise InvalidValue(f"{where}: {cpus.bit_count()} CPUs, and {cpu.count} are allocated")
    if foreign := cpus & ~cpu.group.cpus:
        raise InvalidValue(f"{where}: {cpu.group.name} does not offer CPUs {CpuSet(foreign)}")
    if taken := cpus & held:
        raise InvalidValue(f"{where}: CPUs {CpuSet(taken)} belong to others")
    return cpus


def prepared_claim(
    claim: ResourceClaim, driver: str, results: tuple[GivenDevice, ...]
) -> PreparedClaim:
    """Return a claim with what it has in the name of *driver*."""
    metadata = claim.metadata
    pod_claim = metadata.annotations.get(POD_CLAIM, "")
    return PreparedClaim(
        driver=driver,
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        consumers=tuple(consumer.uid for consumer in claim.status.reserved_for),
        results=results,
        pod_claim="" if dns_label(pod_claim) else pod_claim,
    )


def adopted(
    entry: PreparedClaim, claim: ResourceClaim, groups: Mapping[str, CpuGroup]
) -> PreparedClaim:
    """Return what *claim* has, whose CPUs *entry* holds.

    Raises:
        InvalidValue: its allocation does not agree with them.
    """
    allocation = claim.status.allocation
    if allocation is None:
        raise InvalidValue("the claim is not allocated")
    left = entry.mask
    results = []
    for result in ours(allocation.devices, DRA_CPU):
        group = groups.get(result.device)
        if group is None:
            raise InvalidValue(f"device {result.device} is not offered by this node")
        count = count_of(result, group)
        cpus = _lowest(CpuMask(left & group.cpus), count)
        if cpus.bit_count() != count:
            raise InvalidValue(
                f"CPUs {entry.cpu_set} have {cpus.bit_count()} of the {count} that are allocated "
                f"of {result.device}"
            )
        left = CpuMask(left & ~cpus)
        amount = count * MILLI_PER_CPU
        results.append(
            replace(given_of(result), cpus=str(CpuSet(cpus)), resource=CPU, amount=amount)
        )
    if left:
        raise InvalidValue(f"CPUs {CpuSet(left)} are not allocated")
    return prepared_claim(claim, DRA_CPU, tuple(results))


def _lowest(cpus: CpuMask, count: int) -> CpuMask:
    taken = 0
    for cpu in CpuSet(cpus):
        if taken.bit_count() == count:
            break
        taken |= 1 << cpu
    return CpuMask(taken)
