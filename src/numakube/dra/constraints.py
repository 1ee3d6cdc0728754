"""Constraints of a claim: devices that must agree in an attribute, or must all differ.

Each keeps the devices chosen so far and takes them back in reverse order when the search turns
around. With list attributes (alpha) every value is a set: to agree is to have an element in common.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.resource_claims import DeviceConstraint
    from numakube.api.resource_slices import DeviceAttribute
    from numakube.dra.pools import Candidate
    from numakube.dra.requests import WantedDevices

    Lookup: TypeAlias = Callable[[WantedDevices, Candidate, str], DeviceAttribute | None]

_FIELDS: Final = (
    ("integers", "int"),
    ("booleans", "bool"),
    ("strings", "string"),
    ("versions", "version"),
    ("integer", "int"),
    ("boolean", "bool"),
    ("string", "string"),
    ("version", "version"),
)
_SCALARS: Final = ("string", "integer", "boolean", "version")


class Constraint(ABC):
    """What the devices of some requests must fulfil together."""

    def __init__(self, attribute: str, requests: frozenset[str], lookup: Lookup) -> None:
        self._attribute = attribute
        self._requests = requests
        self._lookup = lookup

    def applies(self, wanted: WantedDevices) -> bool:
        """Tell whether devices of the request count."""
        if not self._requests:
            return True
        return wanted.parent_name in self._requests or wanted.full_name in self._requests

    def add(self, wanted: WantedDevices, candidate: Candidate) -> bool:
        """Take the device in; tell whether that is possible."""
        if not self.applies(wanted):
            return True
        found = self._lookup(wanted, candidate, self._attribute)
        return found is not None and self._add(found)

    def remove(self, wanted: WantedDevices) -> None:
        """Take out the device that was taken in last."""
        if self.applies(wanted):
            self._remove()

    @abstractmethod
    def _add(self, attribute: DeviceAttribute) -> bool:
        """Take a value in; tell whether that is possible."""

    @abstractmethod
    def _remove(self) -> None:
        """Take out the value that was taken in last."""


class MatchAttribute(Constraint):
    """All devices have the same value."""

    def __init__(
        self, attribute: str, requests: frozenset[str], lookup: Lookup, *, lists: bool
    ) -> None:
        super().__init__(attribute, requests, lookup)
        self._lists = lists
        self._first: DeviceAttribute | None = None
        self._common: list[tuple[str, frozenset[object]]] = []
        self._count = 0

    def _add(self, attribute: DeviceAttribute) -> bool:
        if self._lists:
            if not self._narrow(attribute):
                return False
        elif self._count == 0:
            self._first = attribute
        elif not _same_scalar(attribute, self._first):
            return False
        self._count += 1
        return True

    def _narrow(self, attribute: DeviceAttribute) -> bool:
        values = _value_set(attribute)
        if values is None:
            return False
        if self._common:
            kind, common = self._common[-1]
            if kind != values[0] or not common & values[1]:
                return False
            values = (kind, common & values[1])
        self._common.append(values)
        return True

    def _remove(self) -> None:
        self._count -= 1
        if self._lists:
            self._common.pop()


class DistinctAttribute(Constraint):
    """No two devices have the same value."""

    def __init__(
        self, attribute: str, requests: frozenset[str], lookup: Lookup, *, lists: bool
    ) -> None:
        super().__init__(attribute, requests, lookup)
        self._lists = lists
        self._taken: list[DeviceAttribute] = []

    def _add(self, attribute: DeviceAttribute) -> bool:
        differs = self._disjoint if self._lists else self._unlike
        if not differs(attribute):
            return False
        self._taken.append(attribute)
        return True

    def _unlike(self, attribute: DeviceAttribute) -> bool:
        if not self._taken:
            return True
        if not any(getattr(attribute, name) is not None for name in _SCALARS):
            return False
        return not any(_same_scalar(attribute, other) for other in self._taken)

    def _disjoint(self, attribute: DeviceAttribute) -> bool:
        values = _value_set(attribute)
        if values is None:
            return False
        others = (_value_set(other) for other in self._taken)
        return not any(
            other is not None and other[0] == values[0] and other[1] & values[1] for other in others
        )

    def _remove(self) -> None:
        self._taken.pop()


def _same_scalar(one: DeviceAttribute, other: DeviceAttribute | None) -> bool:
    """Tell whether both have the same single value; lists never do."""
    for name in _SCALARS:
        value = getattr(one, name)
        if value is not None:
            return other is not None and getattr(other, name) == value
    return False


def _value_set(attribute: DeviceAttribute) -> tuple[str, frozenset[object]] | None:
    for name, kind in _FIELDS:
        value = getattr(attribute, name)
        if value is not None and value != ():
            return kind, frozenset(value if isinstance(value, tuple) else (value,))
    return None


def constraint_of(
    one: DeviceConstraint, lookup: Lookup, *, lists: bool, distinct: bool
) -> Constraint | None:
    """Return the constraint; None if it is of an unknown kind."""
    requests = frozenset(one.requests)
    if one.match_attribute is not None:
        return MatchAttribute(one.match_attribute, requests, lookup, lists=lists)
    if one.distinct_attribute is not None and distinct:
        return DistinctAttribute(one.distinct_attribute, requests, lookup, lists=lists)
    return None


def lookup_attribute(candidate: Candidate, name: str) -> DeviceAttribute | None:
    """Return the attribute with the full *name*; the driver's own may be listed without domain."""
    attributes = candidate.device.attributes
    if name in attributes:
        return attributes[name]
    domain, slash, identifier = name.partition("/")
    if not slash or domain != candidate.id.driver:
        return None
    return attributes.get(identifier)
