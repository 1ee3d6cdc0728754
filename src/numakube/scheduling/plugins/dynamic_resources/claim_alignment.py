"""Devices of claims near what the kubelet gives the pod: CPUs, memory and plugin devices.

The kubelet takes no hints from devices of claims. It aligns the rest among itself and is blind to
them. Its choice is known here before it makes it, from its model, so the devices follow: each claim
takes devices on the NUMA nodes of the containers that use it. Where the kubelet insists on
alignment (``single-numa-node`` and ``restricted``), a node without such devices is refused; where
it does not, they are preferred. Every choice is one that the exact allocator has made, among fewer
devices.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from numakube.dra.allocator import SearchStopped
from numakube.dra.device_ids import AllocationError, DeviceId
from numakube.kubelet.device_pairs import certain_functions
from numakube.kubelet.outcome import Admitted
from numakube.scheduling.framework.status import SUCCESS, Status, unschedulable
from numakube.scheduling.plugins.dynamic_resources.claim_pairs import ClaimPairs, devices_of
from numakube.scheduling.snapshot.belief import ForeseesOutcomes
from numakube.values.cpuset import CpuSet
from numakube.values.numamask import nodes_of
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from numakube.api.resource_claims import AllocationResult
    from numakube.dra.allocator import Accepts, Within
    from numakube.dra.pools import Candidate
    from numakube.kubelet.device_pairs import Functions
    from numakube.kubelet.node import KubeletNode
    from numakube.kubelet.outcome import ContainerPlacement
    from numakube.scheduling.plugins.dynamic_resources.cycle_claims import (
        CycleClaims,
        NodeAllocation,
    )
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

    Nodes = frozenset[int]

ANNOTATION: Final = "numakube.dev/claim-alignment"
"""On a pod: ``Required``, ``Preferred`` or ``None``; without it the node's policy decides."""

NOT_NEAR: Final = "no devices for the claims on"
"""How the refusal of a node begins that has devices, but elsewhere."""
REQUIRED: Final = "Required"
PREFERRED: Final = "Preferred"
STRICT: Final = frozenset({TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED})


class ClaimAlignment:
    """Finds devices for the claims of one pod on one node."""

    def __init__(self, known: CycleClaims, pod: PodInfo, node: NodeInfo) -> None:
        self._known = known
        self._pod = pod
        self._node = node

    def choose(self, found: NodeAllocation) -> tuple[NodeAllocation, Status]:
        """Return *found* with devices that are close, or why the node will not do."""
        wish = self._wish()
        if wish == "None":
            return found, SUCCESS
        near = self._near()
        found, status = self._near_cpus(found, near, wish)
        return self._paired(found, near) if status.ok else (found, status)

    def _near_cpus(
        self, found: NodeAllocation, near: Mapping[int, Nodes], wish: str
    ) -> tuple[NodeAllocation, Status]:
        if not near:
            return self._together(found), SUCCESS
        closest = self._allocate(found, lambda claim, one: self._is_on(one, near.get(claim)))
        if closest is not None and self._is_near(closest, near):
            return replace(found, allocations=closest, is_alike=False), SUCCESS
        if wish == REQUIRED:
            return found, unschedulable(_refusal(near))
        return found, SUCCESS

    def _wish(self) -> str:
        """Return how much alignment is wanted: what the pod says, or as strict as the node is."""
        told = self._pod.pod.metadata.annotations.get(ANNOTATION)
        if told in (REQUIRED, PREFERRED, "None"):
            return told
        topology = self._node.numa.topology if self._node.numa is not None else None
        strict = topology is not None and topology.policy in STRICT
        return REQUIRED if strict else PREFERRED

    def _near(self) -> dict[int, Nodes]:
        """Return the NUMA nodes that each claim to allocate should be on, by its position."""
        containers = self._expected()
        whole = frozenset[int]().union(*containers.values())
        near: dict[int, Nodes] = {}
        for position, (index, _) in enumerate(self._known.to_allocate()):
            users = self._users(index)
            own = frozenset[int]().union(*(containers.get(name, ()) for name in users))
            if own or whole:
                near[position] = own or whole
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

    def _expected(self) -> dict[str, Nodes]:
        """Return the NUMA nodes on which the kubelet will put each container, where it does."""
        model, outcome = self._foreseen()
        if model is None or outcome is None:
            return {}
        return {name: _nodes_of(one, model) for name, one in outcome.containers.items()}

    def _foreseen(self) -> tuple[KubeletNode | None, Admitted | None]:
        """Return the kubelet model and what it will give the pod, as far as that is known."""
        belief = self._node.numa
        model = belief.model() if belief is not None else None
        if belief is None or model is None:
            return None, None
        if isinstance(belief, ForeseesOutcomes):
            outcome = belief.outcome_of(self._pod)
        else:
            outcome = model.clone().admit(self._pod.pod)
        return model, outcome if isinstance(outcome, Admitted) else None

    def _together(self, found: NodeAllocation) -> NodeAllocation:
        """Return devices on one PCIe root or else one NUMA node: the fullest that has room."""
        allocator = self._known.allocator
        if allocator is None:
            return found
        free = [one for one, is_free in allocator.devices(self._node.node) if is_free]
        several = sum(len(one.devices.results) for one in found.allocations) > 1
        root = self._known.pcie_root
        places: tuple[Callable[[Candidate], Hashable], ...] = (
            (root, self._numa_node) if several else (self._numa_node,)
        )
        for place in places:
            counts = Counter(at for one in free if (at := place(one)) is not None)
            for wanted, _ in sorted(counts.items(), key=lambda item: (item[1], str(item[0]))):
                closest = self._allocate(found, _at(place, wanted))
                if closest is not None:
                    return replace(found, allocations=closest, is_alike=False)
        return found

    def _paired(
        self, found: NodeAllocation, near: Mapping[int, Nodes]
    ) -> tuple[NodeAllocation, Status]:
        """Return devices of different drivers that are as close to each other as can be.

        They stay on the NUMA nodes of the containers, or else on those of the devices in *found*.
        """
        if not found.allocations:
            return found, SUCCESS
        pairs = ClaimPairs(self._known, self._node, self._given())
        level = pairs.closeness(devices_of(found.allocations))
        numas = self._numa_nodes(found)
        for better in pairs.closer_than(level):
            closest = self._allocate(
                found,
                lambda claim, one: self._is_on(one, near.get(claim) or numas or None),
                pairs.within(better),
            )
            if closest is not None and self._is_near(closest, near):
                found = replace(found, allocations=closest)
                break
        return found, pairs.verdict(devices_of(found.allocations), self._pod)

    def _numa_nodes(self, found: NodeAllocation) -> Nodes:
        """Return the NUMA nodes of the devices in *found*."""
        allocator = self._known.allocator
        chosen = set(devices_of(found.allocations))
        here = allocator.devices(self._node.node) if allocator is not None else ()
        places = (self._numa_node(one) for one, _ in here if one.id in chosen)
        return frozenset(place for place in places if place is not None)

    def _given(self) -> tuple[Functions, ...]:
        """Return the PCI functions that device plugins will give the pod, as far as certain."""
        model, outcome = self._foreseen()
        if model is None or outcome is None:
            return ()
        return certain_functions(model, model.demand_of(self._pod.pod), outcome)

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
        except (AllocationError, SearchStopped):
            return None
        return None if closest is None else tuple(closest)

    def _is_near(self, allocations: Iterable[AllocationResult], near: Mapping[int, Nodes]) -> bool:
        """Tell whether requests for all devices, which have no choice, are near as well."""
        allocator = self._known.allocator
        if allocator is None:
            return True
        places = {one.id: self._numa_node(one) for one, _ in allocator.devices(self._node.node)}
        for position, allocation in enumerate(allocations):
            for result in allocation.devices.results:
                at = places.get(DeviceId(result.driver, result.pool, result.device))
                if at is not None and position in near and at not in near[position]:
                    return False
        return True

    def _is_on(self, candidate: Candidate, nodes: Nodes | None) -> bool:
        """Tell whether a device is on one of *nodes*, or its place is unknown."""
        at = self._numa_node(candidate)
        return at is None or nodes is None or at in nodes

    def _numa_node(self, candidate: Candidate) -> int | None:
        return self._known.numa_node(candidate, self._node)


def _at(place: Callable[[Candidate], Hashable], wanted: Hashable) -> Within:
    return lambda _, candidate: place(candidate) == wanted


def _nodes_of(placement: ContainerPlacement, model: KubeletNode) -> Nodes:
    """Return where a container's own CPUs and memory are, or else what it was aligned to.

    A container that may be anywhere on the machine is nowhere in particular.
    """
    found = {number for block in placement.memory for number in block.numa_nodes}
    if placement.cpus:
        for node in model.machine.nodes:
            threads = CpuSet.of(cpu for core in node.cores for cpu in core.threads)
            if placement.cpus & threads:
                found.add(node.id)
    found = found or set(nodes_of(placement.hint.mask or 0))
    return frozenset(found if len(found) < len(model.machine.nodes) else ())


def _refusal(near: Mapping[int, Nodes]) -> str:
    nodes = sorted(frozenset[int]().union(*near.values()))
    named = ", ".join(map(str, nodes))
    where = f"NUMA node {named}" if len(nodes) == 1 else f"NUMA nodes {named}"
    return f"{NOT_NEAR} {where}, where the kubelet will put the pod"
