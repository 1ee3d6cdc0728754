"""Devices of claims near the pod's CPUs, memory and plugin devices.

The kubelet takes no hints from devices of claims. It aligns the rest among itself and is blind to
them. Its choice is known here before it makes it, from its model, so the devices follow: each claim
takes devices on the NUMA nodes of the containers that use it. Claims that have their devices
already are compared with that choice. Where the scheduler itself gives CPUs, both are chosen
together (`numakube.scheduling.framework.joint_allotment`).

Where kubelet, node or pod insist on alignment (``single-numa-node`` and ``restricted``), a node
without such devices is refused; where they do not, such devices are preferred. Every choice is one
that the exact allocator has made, among fewer devices (`numa_allocation`).
"""

from __future__ import annotations

from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.kubelet.admission_outcome import Admitted
from numakube.kubelet.device_pairs import certain_functions
from numakube.scheduling.framework.status import SUCCESS, Status, unschedulable
from numakube.scheduling.plugins.dynamic_resources.claim_pairs import ClaimPairs, devices_of
from numakube.scheduling.plugins.dynamic_resources.numa_allocation import NearDevices
from numakube.scheduling.snapshot.zone_belief import foresees
from numakube.values.numamask import nodes_of

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Iterator, Mapping

    from numakube.api.resource_claims import AllocationResult
    from numakube.kubelet.admission_outcome import ContainerPlacement
    from numakube.kubelet.device_connections import Closeness
    from numakube.kubelet.device_pairs import Functions
    from numakube.kubelet.kubelet_model import KubeletNode
    from numakube.scheduling.framework.joint_allotment import Allots, Allotted, Places
    from numakube.scheduling.plugins.dynamic_resources.cycle_claims import (
        CycleClaims,
        NodeAllocation,
    )
    from numakube.scheduling.plugins.dynamic_resources.numa_allocation import Near, Nodes
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

ANNOTATION: Final = "numakube.dev/claim-alignment"
"""On a pod: ``Required``, ``Preferred`` or ``None``; without it the node's policy decides."""

NOT_NEAR: Final = "no devices for the claims on"
"""How the refusal of a node begins that has devices, but elsewhere."""
HELD_FAR: Final = "has devices on"
NOT_TOGETHER: Final = "no NUMA nodes have both CPUs for the pod and devices for its claims"
REQUIRED: Final = "Required"
PREFERRED: Final = "Preferred"
DECLINED: Final = "None"


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
        return found, pairs.verdict(devices_of(found.allocations), self._pod)

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
        if not any(one.devices for one in outcome.containers.values()):
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
