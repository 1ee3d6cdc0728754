"""Types of expressions, as far as a rule can be checked before any object is there."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, slots=True)
class CelType:
    """A type by name, with the types it is made of: ``list(string)``."""

    name: str
    params: tuple[CelType, ...] = ()

    def __str__(self) -> str:
        if not self.params:
            return self.name
        return f"{self.name}({', '.join(map(str, self.params))})"


@dataclass(frozen=True, slots=True, eq=False)
class ObjectType(CelType):
    """An object with known fields."""

    fields: Mapping[str, CelType] = field(default_factory=dict)


DYN: Final = CelType("dyn")
NULL: Final = CelType("null")
BOOL: Final = CelType("bool")
INT: Final = CelType("int")
UINT: Final = CelType("uint")
DOUBLE: Final = CelType("double")
STRING: Final = CelType("string")
BYTES: Final = CelType("bytes")
TIMESTAMP: Final = CelType("timestamp")
DURATION: Final = CelType("duration")

NUMBERS: Final = frozenset({"int", "uint", "double"})


def list_of(element: CelType) -> CelType:
    """Return the type of lists of *element*."""
    return CelType("list", (element,))


def map_of(key: CelType, value: CelType) -> CelType:
    """Return the type of maps."""
    return CelType("map", (key, value))


def optional_of(value: CelType) -> CelType:
    """Return the type of what may be missing."""
    return CelType("optional_type", (value,))


def is_dyn(kind: CelType) -> bool:
    """Tell whether nothing is known of the type, so that it is only checked when evaluated."""
    return kind.name == "dyn"


def fits(wanted: CelType, given: CelType, bound: dict[str, CelType]) -> bool:
    """Tell whether *given* can stand where *wanted* is asked for.

    Type parameters (single capitals) in *wanted* are bound on the way.
    """
    if is_dyn(wanted) or is_dyn(given):
        return True
    if len(wanted.name) == 1 and wanted.name.isupper():
        known = bound.get(wanted.name)
        if known is None or is_dyn(known):
            bound[wanted.name] = given
            return True
        return fits(known, given, bound)
    if isinstance(wanted, ObjectType) or isinstance(given, ObjectType):
        return wanted is given
    if given == NULL and wanted.name in ("null", "timestamp", "duration", "optional_type"):
        return True
    return wanted.name == given.name and all(
        fits(w, g, bound) for w, g in zip(wanted.params, given.params, strict=False)
    )


def substituted(kind: CelType, bound: Mapping[str, CelType]) -> CelType:
    """Return *kind* with its parameters replaced; those that were never bound are dynamic."""
    if len(kind.name) == 1 and kind.name.isupper():
        return bound.get(kind.name, DYN)
    if not kind.params:
        return kind
    return CelType(kind.name, tuple(substituted(param, bound) for param in kind.params))
