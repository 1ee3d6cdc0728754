"""Why the claims of a pod cannot be allocated: where devices drop out, and who holds the rest.

Everything is asked of the allocator that the scheduler's cycle has made for the pod. A claim is
tried piece by piece on every node: each request alone, then the claim without each constraint.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.api.resource_claims import ALL
from numakube.dra.cel_selectors import is_selected
from numakube.dra.device_ids import AllocationError, DeviceId, SearchStopped
from numakube.dra.device_places import KNOWN_PLACES
from numakube.dra.extended_resources import (
    classes_by_resource,
    requests_and_mappings,
    with_requests,
)
from numakube.dra.pools import repelling_taint
from numakube.insight.explain.explanation_document import (
    CapacityLeft,
    ClaimAsk,
    ClaimHolder,
    DeviceRequestAsk,
    DeviceStep,
)
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import numa_nodes_text
from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CYCLE_CLAIMS
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numakube.api.nodes import Node
    from numakube.api.resource_claims import DeviceConstraint, ExactDeviceRequest, ResourceClaim
    from numakube.api.resource_slices import DeviceSelector
    from numakube.dra.allocator import Allocator
    from numakube.dra.pools import CandidateDevice
    from numakube.insight.explain.what_if import Bench
    from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CycleClaims
    from numakube.scheduling.snapshot.nodes import NodeInfo

    Offer = tuple[str, CandidateDevice, bool]
    """The name of a node, a device that it reaches, and whether no claim holds any of it."""

PLUGIN: Final = "DynamicResources"
_MOST_AMOUNTS: Final = 64


def claims_of(bench: Bench) -> tuple[ClaimAsk, ...]:
    """Return what each claim of the pod that has no devices yet asks for, and what there is."""
    known = bench.cycle_state().read(CYCLE_CLAIMS)
    if known is None or known.allocator is None:
        return ()
    nodes = [one.node for one in bench.engine.cluster.nodes()]
    offers = list(_offers(known.allocator, nodes))
    asks = [
        _ClaimTrial(known, known.allocator, claim, nodes, offers).ask()
        for index, claim in known.to_allocate()
        if index != known.extended
    ]
    if known.extended_claim is not None:
        asks.append(_extended(bench, known, known.allocator, known.extended_claim))
    return tuple(asks)


def _extended(
    bench: Bench, known: CycleClaims, allocator: Allocator, claim: ResourceClaim
) -> ClaimAsk:
    """Return what the extended resources of the pod amount to where no device plugin has them."""
    classes = classes_by_resource(known.objects.device_classes.values())
    wanted = [name for name in PodInfo(bench.pod).requests if name in classes]
    requests, _ = requests_and_mappings(bench.pod, wanted, classes)
    nodes = [
        one.node
        for one in bench.engine.cluster.nodes()
        if not any(one.allocatable.get(name) for name in wanted)
    ]
    offers = list(_offers(allocator, nodes))
    ask = _ClaimTrial(known, allocator, with_requests(claim, requests), nodes, offers).ask()
    return replace(ask, claim=f"for {', '.join(wanted)}")


def free_places(bench: Bench, node: NodeInfo) -> str:
    """Say on which NUMA nodes of *node* the devices are that no claim holds."""
    known = bench.cycle_state().read(CYCLE_CLAIMS)
    if known is None or known.allocator is None:
        return ""
    places = Counter(
        tuple(sorted(known.numa_nodes(one, node)))
        for _, one, is_free in _offers(known.allocator, [node.node])
        if is_free
    )
    told = sorted((at, count) for at, count in places.items() if at)
    listed = ", ".join(f"{count} on {numa_nodes_text(at)}" for at, count in told)
    return f"free devices: {listed}" if listed else "no free device"


def _offers(allocator: Allocator, nodes: Sequence[Node]) -> Iterator[Offer]:
    for node in nodes:
        try:
            for candidate, is_free in allocator.devices(node):
                shared = bool(candidate.device.allow_multiple_allocations)
                yield node.metadata.name, candidate, is_free or shared
        except AllocationError:
            continue  # the node's own refusal says it


class _ClaimTrial:
    """One claim, to be tried in parts."""

    def __init__(
        self,
        known: CycleClaims,
        allocator: Allocator,
        claim: ResourceClaim,
        nodes: Sequence[Node],
        offers: Sequence[Offer],
    ) -> None:
        self._known = known
        self._allocator = allocator
        self._claim = claim
        self._nodes = nodes
        self._offers = offers
        self._too_costly = False

    def ask(self) -> ClaimAsk:
        nodes = self._served(self._claim)
        return ClaimAsk(
            claim=self._claim.metadata.key,
            nodes=nodes,
            requests=tuple(self._requests()),
            constraints=() if nodes else tuple(self._constraints()),
        )

    def _served(self, claim: ResourceClaim) -> int:
        """Return how many nodes could serve *claim* if it were the only one."""
        return sum(self._is_served(node, claim) for node in self._nodes)

    def _is_served(self, node: Node, claim: ResourceClaim) -> bool:
        if self._too_costly:
            return False
        try:
            return self._allocator.allocate(node, [claim]) is not None
        except SearchStopped:
            self._too_costly = True
        except AllocationError as error:
            self._too_costly = error.costly
        return False

    def _with(self, **parts: object) -> ResourceClaim:
        """Return the claim with some of what it asks for exchanged."""
        devices = replace(self._claim.spec.devices, **parts)
        return replace(self._claim, spec=replace(self._claim.spec, devices=devices))

    def _requests(self) -> Iterator[DeviceRequestAsk]:
        for request in self._claim.spec.devices.requests:
            alternatives = {
                f"{request.name}/{other.name}": other for other in request.first_available
            }
            exactly = {} if request.exactly is None else {request.name: request.exactly}
            for name, body in {**exactly, **alternatives}.items():
                alone = replace(request, exactly=body, first_available=())
                served = self._served(self._with(requests=(alone,), constraints=()))
                yield self._request(name, body, served)

    def _request(self, name: str, body: ExactDeviceRequest, served: int) -> DeviceRequestAsk:
        steps, held = self._steps(body)
        return DeviceRequestAsk(
            request=name,
            device_class=body.device_class_name,
            count=0 if body.allocation_mode == ALL else body.count,
            nodes=served,
            steps=steps,
            holders=tuple(self._holders(held)),
            amounts=self._amounts(body),
        )

    def _amounts(self, body: ExactDeviceRequest) -> tuple[CapacityLeft, ...]:
        """Return what is left of the devices that claims share, of those that the request means."""
        conditions = [holds for _, holds in self._conditions(body)]
        found: list[tuple[float, CapacityLeft]] = []
        for node, candidate, _ in self._offers:
            shared = candidate.device.allow_multiple_allocations
            if not shared or not all(holds(candidate) for holds in conditions):
                continue
            try:
                amounts = self._allocator.amounts(candidate, body.capacity)
            except AllocationError:
                continue  # the request's own refusal says it
            for name, (wanted, left, total) in amounts.items():
                found.append(
                    (
                        -left.milli_value() / (total.milli_value() or 1),
                        CapacityLeft(
                            node=node,
                            device=candidate.id.device,
                            capacity=name,
                            numa_nodes=tuple(sorted(self._places(candidate))),
                            wanted=str(wanted),
                            left=str(left),
                            total=str(total),
                            enough=wanted <= left,
                        ),
                    )
                )
        found.sort(key=lambda one: (one[0], one[1].node, one[1].device))
        return tuple(one for _, one in found[:_MOST_AMOUNTS])

    def _places(self, candidate: CandidateDevice) -> frozenset[int]:
        return KNOWN_PLACES.numa_nodes(candidate.device, candidate.id.driver)

    def _steps(self, body: ExactDeviceRequest) -> tuple[tuple[DeviceStep, ...], set[DeviceId]]:
        """Return how many devices are left after each condition, and which are held."""
        left = list(self._offers)
        steps = [_step("offered", left)]
        for what, holds in self._conditions(body):
            left = [one for one in left if holds(one[1])]
            steps.append(_step(what, left))
        tolerated = [one for one in left if self._tolerates(body, one[1])]
        if len(tolerated) < len(left):
            left = tolerated
            steps.append(_step("without taints that keep it away", left))
        free = [one for one in left if one[2] or body.admin_access]
        held = {one.id for _, one, _ in left} - {one.id for _, one, _ in free}
        return (*steps, _step("free", free)), held

    def _conditions(
        self, body: ExactDeviceRequest
    ) -> Iterator[tuple[str, Callable[[CandidateDevice], bool]]]:
        device_class = self._known.objects.device_classes.get(body.device_class_name)
        if device_class is not None:
            selectors = device_class.spec.selectors
            yield f"of class {body.device_class_name}", lambda one: self._selects(selectors, one)
        for each in body.selectors:
            text = each.cel.expression if each.cel is not None else ""
            yield f"with {text}", lambda one, each=each: self._selects((each,), one)  # type: ignore[misc]

    def _selects(self, selectors: Sequence[DeviceSelector], candidate: CandidateDevice) -> bool:
        # One selector that takes too long does so on every device, and this may run in a server.
        if self._too_costly:
            return False
        try:
            return is_selected(selectors, candidate.device, candidate.id.driver)
        except AllocationError as error:
            self._too_costly = error.costly
            return False

    def _tolerates(self, body: ExactDeviceRequest, candidate: CandidateDevice) -> bool:
        if not self._allocator.features.device_taints:
            return True
        return repelling_taint(candidate.device, body.tolerations) is None

    def _holders(self, held: set[DeviceId]) -> Iterator[ClaimHolder]:
        """Yield the claims that hold some of *held*, those with the most devices first."""
        found: list[ClaimHolder] = []
        for key, claim in self._known.objects.resource_claims.items():
            allocation = claim.status.allocation
            results = allocation.devices.results if allocation is not None else ()
            ids = [DeviceId(result.driver, result.pool, result.device) for result in results]
            devices = tuple(f"{one.pool}/{one.device}" for one in ids if one in held)
            if devices:
                pods = tuple(consumer.name for consumer in claim.status.reserved_for)
                found.append(ClaimHolder(claim=key, pods=pods, devices=devices))
        return iter(sorted(found, key=lambda one: (-len(one.devices), one.claim)))

    def _constraints(self) -> Iterator[str]:
        """Say of each constraint how many nodes would do without it."""
        every = self._claim.spec.devices.constraints
        for index, one in enumerate(every):
            served = self._served(self._with(constraints=(*every[:index], *every[index + 1 :])))
            if served:
                nodes = "1 node" if served == 1 else f"{served} nodes"
                yield f"{constraint_text(one)}: without it {nodes} could serve the claim"


def _step(what: str, left: Sequence[Offer]) -> DeviceStep:
    devices = len({one.id for _, one, _ in left})
    return DeviceStep(what=what, devices=devices, nodes=len({node for node, _, _ in left}))


def constraint_text(one: DeviceConstraint) -> str:
    """Name a constraint and the requests that it is about."""
    requests = f" of {', '.join(one.requests)}" if one.requests else ""
    if one.match_attribute:
        return f"matchAttribute {one.match_attribute}{requests}"
    return f"distinctAttribute {one.distinct_attribute}{requests}"
