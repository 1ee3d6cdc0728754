"""Types of expressions, and when a value of one type can stand for another (cel-go's rules)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


@dataclass(frozen=True, slots=True)
class CelType:
    """A type by name, with the types it is made of: ``list(string)``.

    Names that begin with a dollar are variables, which the checker binds to types.
    """

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
QUANTITY: Final = CelType("kubernetes.Quantity")
SEMVER: Final = CelType("kubernetes.Semver")
URL: Final = CelType("kubernetes.URL")
NAMED_FORMAT: Final = CelType("kubernetes.NamedFormat")
IP: Final = CelType("net.IP")
CIDR: Final = CelType("net.CIDR")

_PRIMITIVE: Final = frozenset(
    {"bool", "bytes", "double", "int", "list", "map", "string", "type", "uint"}
)
"""Types that null is never taken for."""


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


def is_variable(kind: CelType) -> bool:
    """Tell whether *kind* stands for a type that is to be found out."""
    return kind.name.startswith("$")


class Bindings:
    """What the variables among types stand for; `fits` adds to it."""

    def __init__(self, bound: Mapping[str, CelType] | None = None) -> None:
        self._bound = dict(bound or {})
        self._made = 0
        self._before: list[tuple[str, CelType | None]] = []

    def fresh(self) -> CelType:
        """Return a variable that has not been used before."""
        self._made += 1
        return CelType(f"${self._made}")

    def fits(self, given: Sequence[CelType], wanted: Sequence[CelType]) -> bool:
        """Tell whether *given* can stand where *wanted* is asked for; if so, bind variables."""
        self._before.clear()
        if len(given) == len(wanted) and all(map(self._assignable, given, wanted)):
            return True
        for name, kind in reversed(self._before):
            if kind is None:
                del self._bound[name]
            else:
                self._bound[name] = kind
        return False

    def _bind(self, variable: CelType, kind: CelType) -> None:
        self._before.append((variable.name, self._bound.get(variable.name)))
        self._bound[variable.name] = kind

    def resolved(self, kind: CelType, *, unknown: CelType | None = None) -> CelType:
        """Return *kind* with its variables replaced; those not bound become *unknown*, if given."""
        if kind.name in self._bound:
            return self.resolved(self._bound[kind.name], unknown=unknown)
        if is_variable(kind):
            return kind if unknown is None else unknown
        if not kind.params or isinstance(kind, ObjectType):
            return kind
        return CelType(kind.name, tuple(self.resolved(p, unknown=unknown) for p in kind.params))

    def _assignable(self, one: CelType, other: CelType) -> bool:
        if is_variable(other):
            valid = self._substitutes(one, other)
            if valid is not None:
                return valid
        if is_variable(one):
            return self._substitutes(other, one) is True
        if is_dyn(one) or is_dyn(other):
            return True
        if NULL in (one, other):
            return not _PRIMITIVE & {one.name, other.name}
        if isinstance(one, ObjectType) or isinstance(other, ObjectType):
            return one is other
        return (
            one.name == other.name
            and len(one.params) == len(other.params)
            and all(map(self._assignable, one.params, other.params))
        )

    def _substitutes(self, kind: CelType, variable: CelType) -> bool | None:
        """Tell whether *variable* can stand for *kind*; None if *kind* may yet stand for it."""
        if kind == variable:
            return True
        bound = self._bound.get(variable.name)
        if bound is None:
            if self._occurs(variable, kind):
                return None
            self._bind(variable, kind)
            return True
        if kind == bound:
            return True
        if not self._assignable(kind, bound):
            return False
        general = more_general(kind, bound)
        if not self._occurs(variable, general):
            self._bind(variable, general)
        return True

    def _occurs(self, variable: CelType, within: CelType) -> bool:
        if variable == within:
            return True
        if is_variable(within):
            bound = self._bound.get(within.name)
            return bound is not None and self._occurs(variable, bound)
        return any(self._occurs(variable, param) for param in within.params)


def more_general(one: CelType, other: CelType) -> CelType:
    """Return the one of two types, which fit each other, that says less."""
    return one if _less_specific(one, other) else other


def _less_specific(one: CelType, other: CelType) -> bool:
    if is_dyn(one) or is_variable(one):
        return True
    if is_dyn(other) or is_variable(other) or one.name != other.name:
        return False
    return all(map(_less_specific, one.params, other.params))
