"""The checks of one candidate, in the order of kube-scheduler 1.37, and what choosing it changes.

In use, selectors, capacity, operations on nodes, compatibility groups, counters, taints,
constraints, capacity again. The order decides which error appears; a device in use is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from numakube.dra.allocated_state import PoolCounters, is_available, wanted_amounts
from numakube.dra.cel_selectors import (
    derived_attribute,
    derived_program,
    matches,
    selector_program,
    variables_of,
    with_hint,
)
from numakube.dra.device_ids import CEL_TIMEOUT, AllocationError, SearchTime
from numakube.dra.pools import reaches, repelling_taint
from numakube.dra.requests import lookup_attribute, where

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numakube.api.nodes import Node
    from numakube.api.resource_slices import (
        DeviceAttribute,
        DeviceSelector,
    )
    from numakube.cel import Program
    from numakube.dra.allocated_state import AllocatedState, CompatibilityGroups, Consumed
    from numakube.dra.device_ids import DeviceId, PoolId
    from numakube.dra.features import Features
    from numakube.dra.pools import CandidateDevice, DevicePool
    from numakube.dra.requests import ClaimConstraint, WantedDevices
    from numakube.values.quantity import Quantity


# ------------------------------------------------------------------------------------------------
# The checks of one candidate, in the order of kube-scheduler 1.37, and what choosing it changes.

_REMEMBERED_VERDICTS: Final = 64
"""Selectors of which a device remembers what they said of it."""
OPTIONAL_OPERATIONS: Final = "DRAOptionalNodeOperations"
"""The feature that a node declares if its kubelet can skip operations on devices."""


@dataclass(frozen=True, slots=True, eq=False)
class ChosenDevice:
    """A device that was chosen for a request."""

    wanted: WantedDevices
    candidate: CandidateDevice
    share_id: str | None
    consumed: dict[str, Quantity]


class CandidateChecks:
    """What one search has chosen so far, and whether a further device can be."""

    def __init__(
        self,
        pools: Sequence[DevicePool],
        state: AllocatedState,
        features: Features,
        node: Node,
        *,
        new_id: Callable[[], str],
        time: SearchTime | None = None,
    ) -> None:
        self.features = features
        self.results: list[list[ChosenDevice]] = []
        self.constraints: list[list[ClaimConstraint]] = []
        self._state = state
        self._node = node
        self._new_id = new_id
        self._time = time or SearchTime()
        self._choosing: dict[DeviceId, set[int]] = {}
        self._capacity: dict[DeviceId, Consumed] = {}
        self._counters: dict[PoolId, PoolCounters] = {}
        self._variables: dict[DeviceId, dict[str, Any]] = {}
        self._derived: dict[tuple[DeviceId, str], DeviceAttribute] = {}

    def is_in_use(self, wanted: WantedDevices, candidate: CandidateDevice, claim: int) -> bool:
        """Tell whether the device is taken: by anyone, or with admin access by the same claim."""
        choosing = self._choosing.get(candidate.id)
        if wanted.admin:
            return choosing is not None and claim in choosing
        return candidate.id in self._state.devices or bool(choosing)

    def is_selectable(self, wanted: WantedDevices, candidate: CandidateDevice) -> bool:
        """Tell whether class and request select the device, and the node can reach it."""
        device = candidate.device
        if device.binding_conditions and not self.features.binding_conditions:
            return False
        known = wanted.matches.get(id(candidate))
        if known is None:
            known = wanted.matches[id(candidate)] = self._selected(wanted, candidate)
        return known

    def _selected(self, wanted: WantedDevices, candidate: CandidateDevice) -> bool:
        spec = wanted.device_class.spec
        who = f"class {wanted.device_class.metadata.name}"
        if not self._all_match(spec.selectors, candidate, who):
            return False
        who = f"claim {wanted.claim.metadata.key}"
        if not self._all_match(wanted.body.selectors, candidate, who):
            return False
        if candidate.slice.spec.per_device_node_selection:
            return reaches(candidate.device, self._node)
        return True

    def _all_match(
        self, selectors: tuple[DeviceSelector, ...], candidate: CandidateDevice, who: str
    ) -> bool:
        for index, selector in enumerate(selectors):
            expression = selector.cel.expression if selector.cel is not None else ""
            known = candidate.verdicts.get(expression)
            if known is None:
                try:
                    program = selector_program(expression)
                except AllocationError as error:
                    raise error.at(f"{who}: selector #{index}: CEL compile error") from None
                known = self._verdict(program, candidate)
            if isinstance(known, AllocationError):
                raise known.at(
                    f"{who}: selector #{index} on device {candidate.id}: CEL runtime error"
                )
            if not known:
                return False
        return True

    def _verdict(self, program: Program, candidate: CandidateDevice) -> bool | AllocationError:
        """Evaluate a selector; what it says is remembered, or that it costs too much to say.

        That it took too long is not: a pause of the process may have been the cause.
        """
        verdicts = candidate.verdicts
        if len(verdicts) >= _REMEMBERED_VERDICTS:
            verdicts.clear()
        try:
            found = matches(program, self._seen(candidate), self._time.evaluation())
        except AllocationError as error:
            self._time.check()
            error = with_hint(error)
            if error.costly and error.kind != CEL_TIMEOUT:
                verdicts[program.text] = error
            return error
        verdicts[program.text] = found
        return found

    def _seen(self, candidate: CandidateDevice) -> dict[str, Any]:
        found = self._variables.get(candidate.id)
        if found is None:
            found = variables_of(candidate.device, candidate.id.driver)
            self._variables[candidate.id] = found
        return found

    def attribute(
        self, wanted: WantedDevices, candidate: CandidateDevice, name: str
    ) -> DeviceAttribute | None:
        """Return the attribute that constraints compare: derived by the request, or published."""
        expression = wanted.derived.get(name)
        if expression is None:
            return lookup_attribute(candidate, name)
        key = (candidate.id, expression)
        if key not in self._derived:
            self._derived[key] = self._derive(expression, candidate, name)
        return self._derived[key]

    def _derive(self, expression: str, candidate: CandidateDevice, name: str) -> DeviceAttribute:
        try:
            program = derived_program(expression, lists=True)
        except AllocationError as error:
            raise error.at(f"compile derived attribute {name} failed") from None
        try:
            return derived_attribute(program, self._seen(candidate), self._time.evaluation())
        except AllocationError as error:
            self._time.check()
            raise error.at(
                f"evaluate derived attribute {name} on device {candidate.id} failed"
            ) from None

    def could_hold(self, wanted: WantedDevices, candidate: CandidateDevice) -> bool:
        """Tell whether the device has enough capacity when nothing of it is consumed."""
        return self._fits(wanted, candidate, (), candidate.device.name)

    def has_capacity(self, wanted: WantedDevices, candidate: CandidateDevice) -> bool:
        """Tell whether the device has enough capacity left."""
        return self._fits(wanted, candidate, self._consumed(candidate.id), str(candidate.id))

    def _fits(
        self,
        wanted: WantedDevices,
        candidate: CandidateDevice,
        consumed: tuple[Consumed, ...],
        shown: str,
    ) -> bool:
        if not self.features.consumable_capacity:
            return True
        fractions = self.features.fractional_capacity_range
        capacity = candidate.device.capacity
        try:
            amounts = wanted_amounts(wanted.body.capacity, capacity, fractions=fractions)
        except AllocationError as error:
            here = where(wanted.claim, wanted.name)
            raise AllocationError(
                f"{here}: checking capacity for device {shown}: {error}"
            ) from None
        return amounts is not None and is_available(
            amounts, capacity, consumed, fractions=fractions
        )

    def _consumed(self, device: DeviceId) -> tuple[Consumed, ...]:
        return (self._state.capacity.get(device, {}), self._capacity.get(device, {}))

    def take(
        self, wanted: WantedDevices, candidate: CandidateDevice, claim: int, *, must: bool
    ) -> Callable[[], None] | None:
        """Choose the device; return what takes the choice back, or None if it is not possible.

        Raises:
            AllocationError: the device *must* be chosen and a constraint forbids it.
        """
        attempt = _CandidateCheck(self, wanted, candidate, claim)
        if attempt.made(must=must):
            return attempt.undo
        attempt.undo()
        return None

    def _counters_of(self, candidate: CandidateDevice) -> PoolCounters:
        found = self._counters.get(candidate.pool.id)
        if found is None:
            found = self._counters[candidate.pool.id] = PoolCounters(candidate.pool, self._state)
        return found


class _CandidateCheck:
    """One attempt to choose a device: every step that was done can be undone in reverse."""

    def __init__(
        self, checks: CandidateChecks, wanted: WantedDevices, candidate: CandidateDevice, claim: int
    ) -> None:
        self._checks = checks
        self._wanted = wanted
        self._candidate = candidate
        self._claim = claim
        self._undoing: list[Callable[[], None]] = []

    def undo(self) -> None:
        """Take back everything."""
        while self._undoing:
            self._undoing.pop()()

    def made(self, *, must: bool) -> bool:
        """Do everything that choosing the device means; tell whether it was possible."""
        try:
            return (
                self._is_free()
                and self._operations_allowed()
                and self._counted()
                and self._tolerated()
                and self._constrained(must=must)
                and self._recorded()
            )
        except AllocationError:
            self.undo()
            raise

    @property
    def _shareable(self) -> bool:
        features = self._checks.features
        device = self._candidate.device
        return features.consumable_capacity and bool(device.allow_multiple_allocations)

    def _is_free(self) -> bool:
        return not self._checks.is_in_use(self._wanted, self._candidate, self._claim)

    def _operations_allowed(self) -> bool:
        features = self._checks.features
        if self._candidate.slice.spec.skip_node_operations and features.experimental:
            declared = self._checks._node.status.declared_features  # noqa: SLF001
            if not features.optional_node_operations or OPTIONAL_OPERATIONS not in declared:
                return False
        return features.partitionable_devices or not self._candidate.device.consumes_counters

    def _counted(self) -> bool:
        checks, candidate = self._checks, self._candidate
        device = candidate.device
        if not device.consumes_counters:
            return True
        if self._shareable and self._has_share():
            return True
        counters = checks._counters_of(candidate)  # noqa: SLF001
        if checks.features.device_compatibility_groups:
            before = counters.join_groups(device)
            if before is None:
                return False
            self._undoing.append(lambda: counters.restore_groups(_known(before)))
        if not counters.consume(device):
            return False
        self._undoing.append(lambda: counters.release(device))
        return True

    def _has_share(self) -> bool:
        """Tell whether the counters of a shareable device are paid for."""
        checks, device = self._checks, self._candidate.id
        return checks._state.is_shared(device) or device in checks._capacity  # noqa: SLF001

    def _tolerated(self) -> bool:
        if not self._checks.features.device_taints:
            return True
        return repelling_taint(self._candidate.device, self._wanted.body.tolerations) is None

    def _constrained(self, *, must: bool) -> bool:
        for constraint in self._checks.constraints[self._claim]:
            if not constraint.add(self._wanted, self._candidate):
                if must:
                    here = where(self._wanted.claim, self._wanted.name)
                    raise AllocationError(
                        f"{here}: cannot add device {self._candidate.id} because a claim "
                        "constraint would not be satisfied"
                    )
                return False
            self._undoing.append(_removal(constraint, self._wanted))
        return True

    def _recorded(self) -> bool:
        checks, device = self._checks, self._candidate.id
        if not self._shareable:
            checks._choosing.setdefault(device, set()).add(self._claim)  # noqa: SLF001
            self._undoing.append(
                lambda: checks._choosing[device].discard(self._claim)  # noqa: SLF001
            )
        if not checks.has_capacity(self._wanted, self._candidate):
            return False
        share_id, consumed = self._share() if self._shareable else (None, {})
        results = checks.results[self._claim]
        results.append(ChosenDevice(self._wanted, self._candidate, share_id, consumed))
        self._undoing.append(lambda: _drop_last(results))
        return True

    def _share(self) -> tuple[str, dict[str, Quantity]]:
        checks, device = self._checks, self._candidate.id
        amounts = wanted_amounts(
            self._wanted.body.capacity,
            self._candidate.device.capacity,
            fractions=checks.features.fractional_capacity_range,
        )
        consumed = amounts or {}
        before = checks._capacity.get(device)  # noqa: SLF001
        total = dict(before or {})
        for name, amount in consumed.items():
            total[name] = total[name] + amount if name in total else amount
        checks._capacity[device] = total  # noqa: SLF001

        def undo() -> None:
            if before is None:
                del checks._capacity[device]  # noqa: SLF001
            else:
                checks._capacity[device] = before  # noqa: SLF001

        self._undoing.append(undo)
        return checks._new_id(), consumed  # noqa: SLF001


def _drop_last(results: list[ChosenDevice]) -> None:
    results.pop()


def _known(before: dict[str, CompatibilityGroups] | None) -> dict[str, CompatibilityGroups]:
    return before or {}


def _removal(constraint: ClaimConstraint, wanted: WantedDevices) -> Callable[[], None]:
    return lambda: constraint.remove(wanted)
