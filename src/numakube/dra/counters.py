"""Counters that devices of a pool share, and compatibility groups of devices on them (alpha).

Available is what the pool's counter sets have, less what allocated devices consume; it may be
negative, and then every device of the pool that consumes counters is refused.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.values.quantity import Quantity, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.resource_slices import Device
    from numakube.dra.allocated_state import AllocatedState
    from numakube.dra.pools import Pool

Amounts = dict[str, dict[str, Quantity]]


@dataclass(frozen=True, slots=True)
class Groups:
    """What the devices on a counter set have in common; None: no device is on it yet."""

    common: frozenset[str] | None = None

    def admits(self, groups: frozenset[str]) -> bool:
        """Tell whether a device with *groups* goes with the others."""
        if self.common is None:
            return True
        if not groups and not self.common:
            return True
        return bool(groups & self.common)

    def joined(self, groups: frozenset[str]) -> Groups:
        """Return what is in common with one device more."""
        if self.common is None:
            return Groups(groups)
        return Groups(self.common & groups) if groups else self


class PoolCounters:
    """The counters of one pool during one search."""

    def __init__(self, pool: Pool, state: AllocatedState) -> None:
        self._available: Amounts = {
            name: {key: parse_quantity(one.value) for key, one in counters.counters.items()}
            for name, counters in pool.counter_sets.items()
        }
        self._consumed: Amounts = {}
        self._groups: dict[str, Groups] = {}
        for device in _allocated(pool, state):
            for consumption in device.consumes_counters:
                name = consumption.counter_set
                left = self._available[name]
                for key, one in consumption.counters.items():
                    left[key] = left[key] - parse_quantity(one.value)
                groups = frozenset(consumption.compatibility_groups)
                self._groups[name] = self._groups.get(name, Groups()).joined(groups)

    def consume(self, device: Device) -> bool:
        """Take what *device* consumes; tell whether it was there, else take nothing."""
        self._change(device, 1)
        for name, counters in self._available.items():
            consumed = self._consumed.get(name, {})
            for key, available in counters.items():
                if key in consumed and available < consumed[key]:
                    self._change(device, -1)
                    return False
                if key not in consumed and available.unscaled < 0:
                    self._change(device, -1)
                    return False
        return True

    def release(self, device: Device) -> None:
        """Give back what *device* consumes."""
        self._change(device, -1)

    def _change(self, device: Device, sign: int) -> None:
        for consumption in device.consumes_counters:
            consumed = self._consumed.setdefault(consumption.counter_set, {})
            for key, one in consumption.counters.items():
                amount = parse_quantity(one.value)
                consumed[key] = consumed.get(key, _ZERO) + (amount if sign > 0 else -amount)

    def join_groups(self, device: Device) -> dict[str, Groups] | None:
        """Put *device* among the others; return what was before, or None if it does not go."""
        before = dict(self._groups)
        for consumption in device.consumes_counters:
            groups = frozenset(consumption.compatibility_groups)
            current = self._groups.get(consumption.counter_set, Groups())
            if not current.admits(groups):
                self._groups = before
                return None
            self._groups[consumption.counter_set] = current.joined(groups)
        return before

    def restore_groups(self, before: dict[str, Groups]) -> None:
        """Undo `join_groups`."""
        self._groups = before


_ZERO = Quantity(0)


def _allocated(pool: Pool, state: AllocatedState) -> Iterator[Device]:
    for candidate in pool.candidates:
        if state.holds(candidate.id):
            yield candidate.device
    for identity, device in pool.elsewhere:
        if state.holds(identity):
            yield device
