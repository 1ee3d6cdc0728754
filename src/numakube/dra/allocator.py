"""The search: devices for all claims of a pod on one node, the first solution in a fixed order.

Follows the structured allocator of kube-scheduler 1.37. Devices are tried in the order of pools,
slices and devices; inside one request only in ascending order. A choice that leads nowhere is taken
back. The allocator is pure: the same input gives the same answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.resource_claims import ALL
from numakube.dra.allocation_results import allocation_of
from numakube.dra.candidate_checks import CandidateChecks
from numakube.dra.constraints import constraint_of
from numakube.dra.device_ids import AllocationError
from numakube.dra.requests import MAX_RESULTS, Request, check_gates, wanted_devices, where
from numakube.dra.search_time import SearchTime

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.api.resource_slices import DeviceClass
    from numakube.dra.allocated_state import AllocatedState
    from numakube.dra.constraints import Constraint
    from numakube.dra.device_ids import DeviceId
    from numakube.dra.pools import Candidate, Inventory, Pool
    from numakube.dra.requests import WantedDevices

    NewId = Callable[[], str]
    Within = Callable[[int, Candidate], bool]
    """Tells whether a device may be taken for the claim at a position."""
    Accepts = Callable[[Iterable[DeviceId]], bool]
    """Tells whether devices for all claims will do."""


class _TooMany(Exception):
    """More results than a claim can have."""


class Allocator:
    """Allocates devices to claims, one node at a time.

    *new_id* makes the ids of shares; *expired* is called when a search begins, and returns what
    tells whether that one has to stop; *cpu_seconds* is a clock for single expressions.
    """

    def __init__(
        self,
        inventory: Inventory,
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

    def devices(self, node: Node) -> Iterator[tuple[Candidate, bool]]:
        """Yield the devices that *node* can reach, each with whether no claim holds any of it."""
        for pool in self._inventory.pools_for(node):
            for candidate in pool.candidates if pool.usable else ():
                yield candidate, not self._state.holds(candidate.id)

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
        search = _Search(pools, checks, claims, time, within, accepts)
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


class _Search:
    """One search on one node."""

    def __init__(
        self,
        pools: Sequence[Pool],
        checks: CandidateChecks,
        claims: Sequence[ResourceClaim],
        time: SearchTime,
        within: Within | None = None,
        accepts: Accepts | None = None,
    ) -> None:
        self._pools = pools
        self._within = within
        self._accepts = accepts
        self._candidates = [one for pool in pools if pool.usable for one in pool.candidates]
        self._checks = checks
        self._claims = claims
        self._time = time
        self.requests: list[list[Request]] = []

    def prepare(self, classes: Mapping[str, DeviceClass]) -> None:
        """Check the claims and find the devices of requests for all."""
        features = self._checks.features
        for claim in self._claims:
            devices = claim.spec.devices
            requests: list[Request] = []
            for request in devices.requests:
                check_gates(claim, request, features)
                alternatives: list[WantedDevices] = []
                for wanted in wanted_devices(claim, request, classes, features):
                    if wanted.body.allocation_mode == ALL:
                        self._find_all(wanted)
                    alternatives.append(wanted)
                requests.append(Request(request.name, alternatives, bool(request.first_available)))
            self.requests.append(requests)
            self._check_size(claim, requests)
            self._checks.constraints.append(list(self._constraints(claim)))
            self._checks.results.append([])

    def _check_size(self, claim: ResourceClaim, requests: list[Request]) -> None:
        least = sum(min(one.count for one in request.alternatives) for request in requests)
        if least > MAX_RESULTS:
            raise AllocationError(
                f"claim {claim.metadata.key}: number of requested devices {least} exceeds the "
                f"claim limit of {MAX_RESULTS}"
            )

    def _constraints(self, claim: ResourceClaim) -> Iterator[Constraint]:
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
            devices = (one.candidate.id for results in self._checks.results for one in results)
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
        self, wanted: WantedDevices, candidate: Candidate, claim: int
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
