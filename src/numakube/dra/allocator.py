"""The search for devices for all claims of a pod on one node, and what an allocation then says.

Follows the structured allocator of kube-scheduler 1.37. Devices are tried in the order of pools,
slices and devices; inside one request only in ascending order. A choice that leads nowhere is taken
back. The allocator is pure: the same input gives the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.affinity_and_taints import (
    NAME_FIELD,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from numakube.api.resource_claims import (
    ALL,
    AllocationResult,
    DeviceAllocationConfiguration,
    DeviceAllocationResult,
    DeviceRequestAllocationResult,
)
from numakube.dra.allocated_state import part_of, wanted_amounts
from numakube.dra.candidate_checks import CandidateChecks
from numakube.dra.device_ids import AllocationError, SearchTime
from numakube.dra.requests import (
    MAX_RESULTS,
    ClaimRequest,
    check_gates,
    constraint_of,
    wanted_devices,
    where,
)
from numakube.values.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.resource_claims import CapacityRequirements, ResourceClaim
    from numakube.api.resource_slices import DeviceClass
    from numakube.dra.allocated_state import AllocatedState
    from numakube.dra.candidate_checks import ChosenDevice
    from numakube.dra.device_ids import DeviceId
    from numakube.dra.features import Features
    from numakube.dra.pools import CandidateDevice, DeviceInventory, DevicePool
    from numakube.dra.requests import ClaimConstraint, WantedDevices

    NewId = Callable[[], str]
    Within = Callable[[int, CandidateDevice], bool]
    """Tells whether a device may be taken for the claim at a position."""
    Accepts = Callable[[Iterable[DeviceId]], bool]
    """Tells whether devices for all claims will do."""


NO_AMOUNT: Final = Quantity(0)

# ------------------------------------------------------------------------------------------------
# What an allocation says: devices, configuration, and the nodes that can use it.


def allocation_of(
    claim: ResourceClaim,
    requests: Sequence[ClaimRequest],
    chosen: Sequence[ChosenDevice],
    node: str,
    features: Features,
) -> AllocationResult:
    """Return the allocation of *claim* on *node*.

    Raises:
        AllocationError: a node selector of a slice is more than one can be made of.
    """
    return AllocationResult(
        devices=DeviceAllocationResult(
            results=tuple(_result(one, features) for one in chosen),
            config=tuple(_config(claim, requests)),
        ),
        node_selector=_node_selector(claim, chosen, node),
    )


def _result(one: ChosenDevice, features: Features) -> DeviceRequestAllocationResult:
    device = one.candidate.device
    bound = features.binding_conditions
    return DeviceRequestAllocationResult(
        request=one.wanted.full_name,
        driver=one.candidate.id.driver,
        pool=one.candidate.id.pool,
        device=one.candidate.id.device,
        admin_access=True if one.wanted.admin else None,
        tolerations=one.wanted.body.tolerations,
        binding_conditions=(device.binding_conditions or ()) if bound else (),
        binding_failure_conditions=(device.binding_failure_conditions or ()) if bound else (),
        share_id=one.share_id,
        consumed_capacity={name: str(amount) for name, amount in one.consumed.items()},
        skip_node_operations=(
            one.candidate.slice.spec.skip_node_operations if features.experimental else ()
        ),
    )


def _config(
    claim: ResourceClaim, requests: Sequence[ClaimRequest]
) -> list[DeviceAllocationConfiguration]:
    found = [*_class_config(requests), *_claim_config(claim, requests)]
    return [_for_all(configuration, requests) for configuration in found]


def _class_config(requests: Sequence[ClaimRequest]) -> list[DeviceAllocationConfiguration]:
    names: dict[str, list[str]] = {}
    for request in requests:
        name = request.selected.device_class.metadata.name
        names.setdefault(name, []).append(request.selected.full_name)
    classes = {
        request.selected.device_class.metadata.name: request.selected
        for request in reversed(requests)
    }
    return [
        DeviceAllocationConfiguration(
            source="FromClass", requests=tuple(listed), opaque=config.opaque
        )
        for name, listed in names.items()
        for config in classes[name].device_class.spec.config
    ]


def _claim_config(
    claim: ResourceClaim, requests: Sequence[ClaimRequest]
) -> list[DeviceAllocationConfiguration]:
    return [
        DeviceAllocationConfiguration(
            source="FromClaim", requests=config.requests, opaque=config.opaque
        )
        for config in claim.spec.devices.config
        if not config.requests or any(_names(config.requests, request) for request in requests)
    ]


def _names(listed: tuple[str, ...], request: ClaimRequest) -> bool:
    """Tell whether a list names *request*, or the alternative that was chosen for it."""
    return request.name in listed or (
        request.has_alternatives and request.selected.full_name in listed
    )


def _for_all(
    config: DeviceAllocationConfiguration, requests: Sequence[ClaimRequest]
) -> DeviceAllocationConfiguration:
    """Return *config* without its list of requests if that names every request."""
    if not all(_names(config.requests, request) for request in requests):
        return config
    return DeviceAllocationConfiguration(source=config.source, opaque=config.opaque)


def _node_selector(
    claim: ResourceClaim, chosen: Sequence[ChosenDevice], node: str
) -> NodeSelector | None:
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for other in chosen:
        spec, device = other.candidate.slice.spec, other.candidate.device
        place = device if spec.per_device_node_selection else spec
        if place.node_name is not None or device.binds_to_node:
            return only_on(node)
        terms = place.node_selector.node_selector_terms if place.node_selector else ()
        if len(terms) > 1:
            raise AllocationError(
                f"create NodeSelector for claim {claim.metadata.name}: unsupported "
                f"ResourceSlice.NodeSelector with {len(terms)} terms"
            )
        for term in terms:
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    term = NodeSelectorTerm(match_expressions=tuple(expressions), match_fields=tuple(fields))
    return NodeSelector(node_selector_terms=(term,))


def only_on(node: str) -> NodeSelector:
    """Return what selects the node with that name."""
    name = NodeSelectorRequirement(key=NAME_FIELD, operator="In", values=(node,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(name,)),))


def _add_new(
    known: list[NodeSelectorRequirement], more: tuple[NodeSelectorRequirement, ...]
) -> None:
    for requirement in more:
        same = (
            other.key == requirement.key
            and other.operator == requirement.operator
            and set(other.values) == set(requirement.values)
            for other in known
        )
        if not any(same):
            known.append(requirement)


# ------------------------------------------------------------------------------------------------
# How far up in their lists of alternatives the requests of claims were served (KEP-4816).

MAX_ALTERNATIVES: Final = 8


def preference_score(
    claims: Iterable[ResourceClaim], allocations: Sequence[AllocationResult]
) -> int:
    """Return the sum over requests with alternatives; *allocations* are of claims without one."""
    fresh = iter(allocations)
    total = 0
    for claim in claims:
        allocation = claim.status.allocation or next(fresh, None)
        if allocation is None:
            continue
        served = {result.request for result in allocation.devices.results}
        for request in claim.spec.devices.requests:
            for index, one in enumerate(request.first_available):
                if f"{request.name}/{one.name}" in served:
                    total += MAX_ALTERNATIVES - index
    return total


# ------------------------------------------------------------------------------------------------
# The search: devices for all claims of a pod on one node, the first solution in a fixed order.


class _TooMany(Exception):
    """More results than a claim can have."""


class Allocator:
    """Allocates devices to claims, one node at a time.

    *new_id* makes the ids of shares; *expired* is called when a search begins, and returns what
    tells whether that one has to stop; *cpu_seconds* is a clock for single expressions.
    """

    def __init__(
        self,
        inventory: DeviceInventory,
        state: AllocatedState,
        classes: Mapping[str, DeviceClass],
        *,
        new_id: NewId,
        expired: Callable[[], Callable[[], bool]] = lambda: lambda: False,
        cpu_seconds: Callable[[], float] | None = None,
    ) -> None:
        self.features = inventory.features
        self._inventory = inventory
        self._state = state
        self._classes = classes
        self._new_id = new_id
        self._expired = expired
        self._cpu_seconds = cpu_seconds

    def devices(self, node: Node) -> Iterator[tuple[CandidateDevice, bool]]:
        """Yield the devices that *node* can reach, each with whether no claim holds any of it."""
        for pool in self._inventory.pools_for(node):
            for candidate in pool.candidates if pool.usable else ():
                yield candidate, not self._state.holds(candidate.id)

    def left(self, candidate: CandidateDevice) -> float:
        """Return which part of a device claims can still get: of its scarcest capacity."""
        if candidate.id in self._state.devices:
            return 0.0
        consumed = self._state.capacity.get(candidate.id)
        return 1 - part_of(candidate.device, consumed) if consumed else 1.0

    def amounts(
        self, candidate: CandidateDevice, asked: CapacityRequirements | None
    ) -> dict[str, tuple[Quantity, Quantity, Quantity]]:
        """Return what *asked* takes of each capacity, what is left of it, and what there is.

        Raises:
            AllocationError: an amount makes no sense.
        """
        capacity = candidate.device.capacity
        fractions = self.features.fractional_capacity_range
        wanted = wanted_amounts(asked, capacity, fractions=fractions) or {}
        consumed = self._state.capacity.get(candidate.id, {})
        totals = {name: parse_quantity(capacity[name].value) for name in wanted}
        return {
            name: (amount, totals[name] - consumed.get(name, NO_AMOUNT), totals[name])
            for name, amount in wanted.items()
        }

    def allocate(
        self,
        node: Node,
        claims: Sequence[ResourceClaim],
        within: Within | None = None,
        accepts: Accepts | None = None,
    ) -> list[AllocationResult] | None:
        """Return an allocation for each of *claims*; None if there is none on *node*.

        With *within* only some devices are taken for requests of a number of devices; with
        *accepts* the search goes on until all devices together will do. What comes out is an
        allocation by all rules, though not the first one.

        Raises:
            AllocationError: the claims cannot be allocated on any node, or not on this one.
            SearchStopped: there was no time left.
        """
        pools = self._inventory.pools_for(node)
        time = SearchTime(self._expired(), self._cpu_seconds)
        checks = CandidateChecks(
            pools, self._state, self._inventory.features, node, new_id=self._new_id, time=time
        )
        search = _DeviceSearch(pools, checks, claims, time, within, accepts)
        search.prepare(self._classes)
        try:
            found = search.step(0, 0, 0)
        except _TooMany:
            raise AllocationError("allocation max size exceeded") from None
        if not found:
            beyond = next((pool for pool in pools if pool.beyond), None)
            if beyond is not None:
                raise AllocationError(f"resource pool {beyond.id}: {beyond.beyond}", node_only=True)
            if any(pool.problem for pool in pools):
                raise AllocationError("invalid resource pools were encountered", node_only=True)
            return None
        return [
            allocation_of(
                claim, requests, checks.results[index], node.metadata.name, self._inventory.features
            )
            for index, (claim, requests) in enumerate(zip(claims, search.requests, strict=True))
        ]


class _DeviceSearch:
    """One search on one node."""

    def __init__(
        self,
        pools: Sequence[DevicePool],
        checks: CandidateChecks,
        claims: Sequence[ResourceClaim],
        time: SearchTime,
        within: Within | None = None,
        accepts: Accepts | None = None,
    ) -> None:
        self._pools = pools
        self._within = within
        self._accepts = accepts
        self._candidates = [
            candidate for pool in pools if pool.usable for candidate in pool.candidates
        ]
        self._checks = checks
        self._claims = claims
        self._time = time
        self.requests: list[list[ClaimRequest]] = []

    def prepare(self, classes: Mapping[str, DeviceClass]) -> None:
        """Check the claims and find the devices of requests for all."""
        features = self._checks.features
        for claim in self._claims:
            devices = claim.spec.devices
            requests: list[ClaimRequest] = []
            for request in devices.requests:
                check_gates(claim, request, features)
                alternatives: list[WantedDevices] = []
                for wanted in wanted_devices(claim, request, classes, features):
                    if wanted.body.allocation_mode == ALL:
                        self._find_all(wanted)
                    alternatives.append(wanted)
                requests.append(
                    ClaimRequest(request.name, alternatives, bool(request.first_available))
                )
            self.requests.append(requests)
            self._check_size(claim, requests)
            self._checks.constraints.append(list(self._constraints(claim)))
            self._checks.results.append([])

    def _check_size(self, claim: ResourceClaim, requests: list[ClaimRequest]) -> None:
        least = sum(
            min(alternative.count for alternative in request.alternatives) for request in requests
        )
        if least > MAX_RESULTS:
            raise AllocationError(
                f"claim {claim.metadata.key}: number of requested devices {least} exceeds the "
                f"claim limit of {MAX_RESULTS}"
            )

    def _constraints(self, claim: ResourceClaim) -> Iterator[ClaimConstraint]:
        features = self._checks.features
        for index, one in enumerate(claim.spec.devices.constraints):
            constraint = constraint_of(
                one,
                self._checks.attribute,
                lists=features.list_type_attributes,
                distinct=not features.stable,
            )
            if constraint is None:
                raise AllocationError(
                    f"claim {claim.metadata.key}, constraint #{index}: empty constraint "
                    "(unsupported constraint type?)"
                )
            yield constraint

    def _find_all(self, wanted: WantedDevices) -> None:
        """Give a request for all devices the list of them."""
        wanted.every = []
        here = where(wanted.claim, wanted.name)
        for pool in self._pools:
            if pool.beyond:
                raise AllocationError(
                    f"{here}: asks for all devices, but in resource pool {pool.id} {pool.beyond}"
                )
            if pool.incomplete or pool.problem:
                state = "currently being updated" if pool.incomplete else "currently invalid"
                raise AllocationError(
                    f"{here}: asks for all devices, but resource pool {pool.id} is {state}"
                )
            for candidate in pool.candidates:
                if self._checks.is_selectable(wanted, candidate) and self._checks.could_hold(
                    wanted, candidate
                ):
                    wanted.every.append(candidate)
        wanted.count = len(wanted.every)

    def step(self, claim: int, request: int, taken: int, start: int = 0, chosen: int = -1) -> bool:
        """Find devices from this position on: *taken* devices of a request are chosen already."""
        self._time.check()
        if claim >= len(self._claims):
            devices = (
                result.candidate.id for results in self._checks.results for result in results
            )
            return self._accepts is None or self._accepts(devices)
        if request >= len(self.requests[claim]):
            try:
                return self.step(claim + 1, 0, 0)
            except _TooMany:
                return False
        current = self.requests[claim][request]
        if current.has_alternatives and chosen < 0:
            return self._alternatives(claim, request)
        wanted = current.alternatives[max(chosen, 0)]
        if wanted.every is not None and not wanted.every:
            return False
        if taken >= wanted.count:
            return self.step(claim, request + 1, 0)
        if len(self._checks.results[claim]) + wanted.count - taken > MAX_RESULTS:
            raise _TooMany
        if wanted.every is not None:
            return self._next_of_all(wanted, (claim, request, taken), chosen)
        return self._next(wanted, (claim, request, taken), start, chosen)

    def _alternatives(self, claim: int, request: int) -> bool:
        current = self.requests[claim][request]
        only_limits = True
        for index in range(len(current.alternatives)):
            try:
                found = self.step(claim, request, 0, chosen=index)
            except _TooMany:
                continue
            only_limits = False
            if found:
                current.chosen = index
                return True
        if only_limits:
            raise _TooMany
        return False

    def _next_of_all(
        self, wanted: WantedDevices, position: tuple[int, int, int], chosen: int
    ) -> bool:
        claim, request, taken = position
        every = wanted.every or []
        undo = self._checks.take(wanted, every[taken], claim, must=True)
        if undo is None:
            return False
        try:
            found = self.step(claim, request, taken + 1, chosen=chosen)
        except _TooMany:
            undo()
            raise
        if not found:
            undo()
        return found

    def _next(
        self, wanted: WantedDevices, position: tuple[int, int, int], start: int, chosen: int
    ) -> bool:
        claim, request, taken = position
        for index in range(start, len(self._candidates)):
            candidate = self._candidates[index]
            undo = self._tried(wanted, candidate, claim)
            if undo is None:
                continue
            try:
                if self.step(claim, request, taken + 1, index + 1, chosen):
                    return True
            except _TooMany:
                undo()
                raise
            undo()
        return False

    def _tried(
        self, wanted: WantedDevices, candidate: CandidateDevice, claim: int
    ) -> Callable[[], None] | None:
        checks = self._checks
        if checks.is_in_use(wanted, candidate, claim):
            return None
        if self._within is not None and not self._within(claim, candidate):
            return None
        if not checks.is_selectable(wanted, candidate):
            return None
        if not checks.has_capacity(wanted, candidate):
            return None
        return checks.take(wanted, candidate, claim, must=False)
