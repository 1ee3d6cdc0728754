"""Devices of claims near the pod's CPUs, memory and plugin devices.

The kubelet takes no hints from devices of claims. It aligns the rest among itself and is blind to
them. Its choice is known here before it makes it, from its model, so the devices follow: each claim
takes devices on the NUMA nodes of the containers that use it. Claims that have their devices
already are compared with that choice. Where the scheduler itself gives CPUs, both are chosen
together (`numakube.scheduling.framework.cycle_state`).

Where kubelet, node or pod insist on alignment (``single-numa-node`` and ``restricted``), a node
without such devices is refused; where they do not, such devices are preferred. Every choice is one
that the exact allocator has made, among fewer devices (`numa_allocation`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec.structs import replace

from numakube.api.zone_relations import Insistence, zone_wish_of
from numakube.dra.allocated_state import part_of
from numakube.dra.device_ids import AllocationError, DeviceId, SearchStopped
from numakube.dra.requests import asks_for_all
from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.device_pairs import certain_functions
from numakube.scheduling.framework.status import SUCCESS, Status, unschedulable
from numakube.scheduling.plugins.dynamic_resources.claim_pairs import ClaimPairs, devices_of
from numakube.scheduling.snapshot.zone_belief import foresees
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from collections.abc import (
        Callable,
        Collection,
        Container,
        Hashable,
        Iterable,
        Iterator,
        Mapping,
    )

    from numakube.api.pod import Pod
    from numakube.api.resource_claims import AllocationResult
    from numakube.dra.allocator import Accepts, Allocator, Within
    from numakube.dra.pools import CandidateDevice
    from numakube.kubelet.admission_outcome import ContainerPlacement
    from numakube.kubelet.device_pairs import Functions
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.kubelet.machine import Closeness
    from numakube.scheduling.framework.cycle_state import Allots, Allotted, Places
    from numakube.scheduling.plugins.dynamic_resources.claim_tracker import (
        CycleClaims,
        NodeAllocation,
    )
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


# ------------------------------------------------------------------------------------------------
# The devices of one node for the claims of one pod: which of them are on given NUMA nodes.
#
# A device may be local to several NUMA nodes: it is on given ones if it is local to one of them.

Nodes: TypeAlias = "frozenset[int]"
Kind: TypeAlias = "tuple[str, tuple[str, ...]]"
"""The driver of devices, and what they have amounts of: devices of one kind serve alike."""
Place: TypeAlias = "Callable[[CandidateDevice], Collection[Hashable]]"
"""Tells at which places a device is."""
Near: TypeAlias = "Mapping[int, Nodes]"
"""The NUMA nodes that claims should be on, by their positions among the pod's claims."""

NOWHERE: Final[Nodes] = frozenset()


@dataclass(frozen=True, slots=True)
class HeldDevices:
    """The NUMA nodes that the devices of an allocated claim are local to, device by device."""

    index: int
    places: tuple[Nodes, ...]

    @property
    def nodes(self) -> Nodes:
        """All of them."""
        return frozenset[int]().union(*self.places)

    def is_near(self, nodes: Nodes) -> bool:
        """Tell whether every device is local to one of *nodes*."""
        return all(at & nodes for at in self.places)


class NearDevices:
    """Allocates devices on some NUMA nodes only, and knows where allocated ones are.

    Attributes:
        stopped: whether a search had to stop early.
    """

    def __init__(self, known: CycleClaims, node: NodeInfo) -> None:
        self._known = known
        self._node = node
        self.stopped = False
        self._numa_nodes: dict[int, Nodes] = {}

    def allocate(
        self,
        found: NodeAllocation,
        near: Near,
        accepts: Accepts | None = None,
        without: Container[DeviceId] = (),
    ) -> tuple[AllocationResult, ...] | None:
        """Return allocations on the NUMA nodes *near* for the claims that have none.

        Returns:
            ``None`` if there are none on the node.
        """
        positions = [index for index, _ in self._known.to_allocate()]
        if not positions or not found.allocations:
            return found.allocations

        def within(position: int, candidate: CandidateDevice) -> bool:
            if candidate.id in without:
                return False
            at, nodes = self._local(candidate), near.get(positions[position])
            return not at or nodes is None or bool(at & nodes)

        closest = self._allocate(found, within, accepts)
        if closest is None or not any(asks_for_all(one) for _, one in self._known.to_allocate()):
            return closest
        # Requests for all devices have no choice.
        places = zip(positions, map(self._places, closest), strict=True)
        found_near = (
            index not in near or HeldDevices(index, places).is_near(near[index])
            for index, places in places
        )
        return closest if all(found_near) else None

    def available(self) -> list[DeviceId]:
        """Return the devices of the node that a claim may get."""
        allocator = self._known.allocator
        devices = allocator.devices(self._node.node) if allocator is not None else ()
        return [
            one.id for one, is_free in devices if is_free or one.device.allow_multiple_allocations
        ]

    def numa_nodes(self, found: NodeAllocation) -> Nodes:
        """Return the NUMA nodes that all devices in *found* are local to, or else some of them."""
        places = [at for allocation in found.allocations for at in self._places(allocation)]
        return frozenset.intersection(*places) or frozenset.union(*places) if places else NOWHERE

    def held_far(self, near: Near) -> HeldDevices | None:
        """Return the first allocated claim that has devices on other NUMA nodes than *near*."""
        for held in self.held:
            if held.index in near and not held.is_near(near[held.index]):
                return held
        return None

    def together(self, found: NodeAllocation) -> NodeAllocation:
        """Return devices on one PCIe root or else one NUMA node: the fullest that has room.

        If the pod's other claims have devices, those places come first.
        """
        allocator = self._known.allocator
        if allocator is None or not found.allocations:
            return found
        held = [
            self._candidates[device]
            for device in self._held_devices()
            if device in self._candidates
        ]
        several = (
            sum(len(allocation.devices.results) for allocation in found.allocations) + len(held) > 1
        )
        for place in (self._roots, self._local) if several else (self._local,):
            room = self._room(place, allocator, found)
            others = {at for device in held for at in place(device)}
            for wanted in sorted(room, key=lambda at: (at not in others, room[at], str(at))):
                closest = self._allocate(found, _at(place, wanted))
                if closest is not None:
                    return replace(found, allocations=closest, alike=None)
        return found

    def _room(
        self, place: Place, allocator: Allocator, found: NodeAllocation
    ) -> dict[Hashable, tuple[float, float, float]]:
        """Return what would be left at each place if the claims had what *found* gives them.

        That is, of devices like those in *found*: of the kind of which least would be left, and of
        all kinds; and of other devices. It counts which part of each kind is left there, so that a
        hundred network functions do not weigh more than all CPUs. The least comes first: where CPUs
        run out, memory is stranded. And a place that has many other devices is left to pods that
        want those.
        """
        needed = self._needed(found)
        has: dict[Hashable, Counter[Kind]] = {}
        left: dict[Hashable, defaultdict[Kind, float]] = {}
        for candidate, _ in allocator.devices(self._node.node):
            kind, part = _kind(candidate), allocator.left(candidate)
            for at in place(candidate):
                has.setdefault(at, Counter())[kind] += 1
                left.setdefault(at, defaultdict(float))[kind] += part
        room: dict[Hashable, tuple[float, float, float]] = {}
        for at, kinds in has.items():
            like = [(left[at][kind] - needed[kind]) / kinds[kind] for kind in needed if kinds[kind]]
            other = [left[at][kind] / kinds[kind] for kind in kinds if kind not in needed]
            if like:
                room[at] = min(like), sum(like), sum(other)
        return room

    def _needed(self, found: NodeAllocation) -> Mapping[Kind, float]:
        """Return how many devices of each kind claims take, or which part of one."""
        needed: defaultdict[Kind, float] = defaultdict(float)
        for allocation in found.allocations:
            for result in allocation.devices.results:
                id_ = DeviceId(result.driver, result.pool, result.device)
                candidate = self._candidates.get(id_)
                if candidate is not None and not result.admin_access:
                    needed[_kind(candidate)] += part_of(candidate.device, result.consumed_capacity)
        return needed

    def _allocate(
        self, found: NodeAllocation, within: Within, accepts: Accepts | None = None
    ) -> tuple[AllocationResult, ...] | None:
        known = self._known
        if known.allocator is None:
            return None
        claims = [
            found.extended if index == known.extended and found.extended is not None else claim
            for index, claim in known.to_allocate()
        ]
        try:
            closest = known.allocator.allocate(self._node.node, claims, within, accepts)
        except AllocationError:
            return None
        except SearchStopped:
            self.stopped = True
            return None
        return None if closest is None else tuple(closest)

    def _local(self, candidate: CandidateDevice) -> Nodes:
        key = id(candidate)
        if key not in self._numa_nodes:
            self._numa_nodes[key] = self._known.numa_nodes(candidate, self._node)
        return self._numa_nodes[key]

    def _roots(self, candidate: CandidateDevice) -> Collection[str]:
        root = self._known.pcie_root(candidate)
        return () if root is None else (root,)

    def _places(self, allocation: AllocationResult) -> tuple[Nodes, ...]:
        """Return where the devices of *allocation* are, those of which it is known."""
        devices = (self._candidates.get(device) for device in _devices(allocation))
        places = (self._local(device) for device in devices if device is not None)
        return tuple(at for at in places if at)

    @cached_property
    def held(self) -> tuple[HeldDevices, ...]:
        """The pod's claims that are allocated, and where."""
        return tuple(
            HeldDevices(index, self._places(claim.status.allocation))
            for index, claim in enumerate(self._known.claims)
            if claim.status.allocation is not None
        )

    def _held_devices(self) -> Iterator[DeviceId]:
        for claim in self._known.claims:
            if claim.status.allocation is not None:
                yield from _devices(claim.status.allocation)

    @cached_property
    def _candidates(self) -> dict[DeviceId, CandidateDevice]:
        inventory = self._known.inventory
        try:
            pools = inventory.pools_for(self._node.node) if inventory is not None else ()
        except AllocationError:
            return {}
        return {candidate.id: candidate for pool in pools for candidate in pool.candidates}


def _devices(allocation: AllocationResult) -> Iterator[DeviceId]:
    """Yield the devices of *allocation*; who only administers one need not be near."""
    for result in allocation.devices.results:
        if not result.admin_access:
            yield DeviceId(result.driver, result.pool, result.device)


def _kind(candidate: CandidateDevice) -> Kind:
    """Return what makes devices alike: their driver, and what they have amounts of."""
    return candidate.id.driver, tuple(sorted(candidate.device.capacity))


def _at(place: Place, wanted: Hashable) -> Within:
    return lambda _, candidate: wanted in place(candidate)


# ------------------------------------------------------------------------------------------------
# Devices of claims near the pod's CPUs, memory and plugin devices.

ANNOTATION: Final = "numakube.dev/claim-alignment"
"""On a pod: ``Required``, ``Preferred`` or ``None``; without it the node's policy decides."""

NOT_NEAR: Final = "no devices for the claims on"
"""How the refusal of a node begins that has devices, but elsewhere."""
HELD_FAR: Final = "has devices on"
NO_LINKS: Final = "which devices of claims are linked is not known"
NOT_TOGETHER: Final = "no NUMA nodes have both CPUs for the pod and devices for its claims"
REQUIRED: Final = "Required"
PREFERRED: Final = "Preferred"
DECLINED: Final = "None"


def _links_asked(pod: Pod) -> Insistence | None:
    return zone_wish_of(pod.metadata.annotations).linked


class ClaimAlignment:
    """Finds devices for the claims of one pod on one node."""

    def __init__(
        self, known: CycleClaims, pod: PodInfo, node: NodeInfo, allots: Allots | None = None
    ) -> None:
        self._known = known
        self._pod = pod
        self._node = node
        self._allots = allots
        self._devices = NearDevices(known, node)
        self._wish = pod.pod.metadata.annotations.get(ANNOTATION)

    @cached_property
    def surroundings(self) -> Hashable:
        """What the choice depends on besides claims, pod and devices, unless we give CPUs."""
        if self._wish == DECLINED:
            return ()
        told = self._known.trees.told_by(self._node)
        return tuple(self._expected.items()), self._given(), self._insists(), told

    @property
    def is_complete(self) -> bool:
        """Whether no search had to stop early."""
        return not self._devices.stopped

    def choose(self, found: NodeAllocation) -> tuple[NodeAllocation, Status]:
        """Return *found* with devices that are close, or why the node will not do."""
        wish = self._wish
        if wish == DECLINED or not (found.allocations or self._devices.held):
            return found, SUCCESS
        allotted = self._jointly(found)
        places = _by_nodes(allotted.places) if allotted else self._expected
        near = self._near(places, whole=_union(places.values()))
        if not near:
            return self._paired(self._devices.together(found), near)
        closest = self._devices.allocate(found, near)
        trouble = self._trouble(near, is_missing=closest is None, is_ours=allotted is not None)
        strict = allotted.strict if allotted else self._insists()
        if trouble and (wish == REQUIRED or (strict and wish != PREFERRED)):
            return found, unschedulable(trouble)
        if closest is not None:
            found = replace(found, allocations=closest, alike=None)
        # Where not all can be near the CPUs, they can still be near each other.
        found, status = self._paired(found, near if closest is not None else {})
        if trouble and status.ok:
            return found, Status(reasons=(trouble,))
        return found, status

    def _paired(self, found: NodeAllocation, near: Near) -> tuple[NodeAllocation, Status]:
        """Return devices of different drivers that are as close to each other as can be.

        They stay on the NUMA nodes of the containers. Where there are none, those of the devices in
        *found* come first, and others if pairs are closer there.
        """
        if not found.allocations:
            return found, SUCCESS
        pairs = ClaimPairs(self._known, self._node, self._given())
        level = pairs.closeness(devices_of(found.allocations))
        here = self._devices.numa_nodes(found)
        around = {
            index: nodes
            for index, _ in self._known.to_allocate()
            if (nodes := near.get(index) or here)
        }
        tries = product(pairs.closer_than(level), (around,) if around == near else (around, near))
        closer = (self._closer(found, pairs, better, area) for better, area in tries)
        closest = next((one for one in closer if one is not None), None)
        if closest is not None:
            found = replace(found, allocations=closest, alike=None)
        status = pairs.verdict(devices_of(found.allocations), self._pod)
        return self._linked(found, pairs, around) if status.ok else (found, status)

    def _linked(
        self, found: NodeAllocation, pairs: ClaimPairs, near: Near
    ) -> tuple[NodeAllocation, Status]:
        """Return devices that are linked, if the pod asks for that and there are some."""
        asked = self._pod.memo("linked", _links_asked)
        if asked is None or pairs.are_linked(devices_of(found.allocations)):
            return found, SUCCESS
        better = self._devices.allocate(found, near, pairs.linked(), frozenset())
        if better is not None:
            found = replace(found, allocations=better, alike=None)
        verdict = pairs.are_linked(devices_of(found.allocations))
        if verdict:
            return found, SUCCESS
        why = "no devices of claims that are linked are left" if verdict is False else NO_LINKS
        required = asked is Insistence.REQUIRED
        return found, unschedulable(why) if required else Status(reasons=(why,))

    def _closer(
        self, found: NodeAllocation, pairs: ClaimPairs, level: Closeness, near: Near
    ) -> tuple[AllocationResult, ...] | None:
        """Return devices that are within *level* of each other, if there are any."""
        free = self._devices.available()
        lonely = pairs.lonely(level, devices_of(found.allocations), free)
        return self._devices.allocate(found, near, pairs.within(level), lonely)

    def _given(self) -> tuple[Functions, ...]:
        """Return the PCI functions that device plugins will give the pod, as far as certain."""
        belief, outcome = self._node.numa, self._foreseen
        if belief is None or outcome is None:
            return ()
        if not any(container.devices for container in outcome.containers.values()):
            return ()
        model = belief.model()
        if model is None:
            return ()
        return certain_functions(model, model.demand_of(self._pod.pod), outcome)

    def _insists(self) -> bool:
        """Tell whether the kubelet rejects pods that it cannot align."""
        topology = self._node.numa.topology if self._node.numa is not None else None
        return topology is not None and topology.policy.insists

    def _jointly(self, found: NodeAllocation) -> Allotted | None:
        """Let the scheduler choose CPUs that the devices go with, where it is who chooses."""
        if self._allots is None:
            return None

        def agrees(masks: Places) -> bool:
            places = _by_nodes(masks)  # of the containers before the one in question, and its own
            near = self._near(places, whole=places.get("", frozenset()))
            if self._devices.held_far(near) is not None:
                return False
            return self._devices.allocate(found, near) is not None

        return self._allots.allot(self._node, agrees)

    def _near(self, places: Mapping[str, Nodes], *, whole: Nodes) -> Near:
        """Return the NUMA nodes that each claim should be on, by its position.

        A claim that no container with a place uses should be near the *whole* pod.
        """
        near: dict[int, Nodes] = {}
        for index in range(len(self._known.claims)):
            own = _union(places.get(name, frozenset()) for name in self._users(index))
            if own or whole:
                near[index] = own or whole
        return near

    def _users(self, index: int) -> Iterator[str]:
        """Yield the names of the containers that use the claim at *index*."""
        if index >= len(self._known.names):
            return
        name = self._known.names[index]
        spec = self._pod.pod.spec
        for container in (*spec.init_containers, *spec.containers):
            claims = container.resources.claims if container.resources else ()
            if any(use.name == name for use in claims):
                yield container.name

    @cached_property
    def _expected(self) -> dict[str, Nodes]:
        """Return the NUMA nodes on which the kubelet will put each container, where it does."""
        belief, outcome = self._node.numa, self._foreseen
        if belief is None or outcome is None:
            return {}
        kubelet = belief.frame() if foresees(belief) else belief.model()
        if kubelet is None:
            return {}
        return {name: _nodes_of(one, kubelet) for name, one in outcome.containers.items()}

    @cached_property
    def _foreseen(self) -> Admitted | None:
        """What the kubelet will give the pod, as far as that is known."""
        belief = self._node.numa
        if belief is None:
            return None
        if foresees(belief):
            outcome = belief.outcome_of(self._pod)
        else:
            model = belief.model()
            outcome = None if model is None else model.clone().admit(self._pod.pod)
        return outcome if isinstance(outcome, Admitted) else None

    def _trouble(self, near: Near, *, is_missing: bool, is_ours: bool) -> str:
        """Say which devices are not near; empty if all are."""
        held = self._devices.held_far(near)
        if held is not None:
            claim = self._known.claims[held.index].metadata.key
            kubelet = f"the kubelet will put the pod on {numa_nodes_text(near[held.index])}"
            where = "there are no CPUs for the pod" if is_ours else kubelet
            return f"resource claim {claim} {HELD_FAR} {numa_nodes_text(held.nodes)}, but {where}"
        if not is_missing:
            return ""
        if is_ours:
            return NOT_TOGETHER
        where = numa_nodes_text(_union(near.values()))
        return f"{NOT_NEAR} {where}, where the kubelet will put the pod"


def _by_nodes(places: Places) -> dict[str, Nodes]:
    return {name: frozenset(nodes_of(mask)) for name, mask in places.items()}


def _union(some: Iterable[Nodes]) -> Nodes:
    return frozenset[int]().union(*some)


def _nodes_of(placement: ContainerPlacement, model: KubeletNode) -> Nodes:
    """Return where a container's own CPUs and memory are, or else what it was aligned to.

    A container that may be anywhere on the machine is nowhere in particular.
    """
    found = {number for block in placement.memory for number in block.numa_nodes}
    if placement.cpus and model.cpus is not None:
        mask = placement.cpus.mask
        found |= {node for node, cpus in model.cpus.topology.numa.items() if cpus & mask}
    found = found or set(nodes_of(placement.hint.mask or 0))
    return frozenset(found if len(found) < len(model.machine.nodes) else ())


def numa_nodes_text(nodes: Iterable[int]) -> str:
    """Return *nodes* in words."""
    numbers = sorted(nodes)
    named = ", ".join(map(str, numbers))
    return f"NUMA node {named}" if len(numbers) == 1 else f"NUMA nodes {named}"
