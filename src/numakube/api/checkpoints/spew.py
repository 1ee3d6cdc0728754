"""The text that the kubelet hashes: go-spew's ``%#v`` with sorted keys, no methods, no addresses.

The text depends on Go's types, so those are described here as values: a `GoType` knows its name and
how to get at the parts of a Python value. The grammar is that of go-spew 1.1, its one oddity
included: a type is printed before a value unless a container, a pointer or a nil pointer before it
said not to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Getter: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class GoType:
    """A type of Go by its name, such as ``string`` or ``v1.ResourceName``: printed as it is."""

    name: str


@dataclass(frozen=True, slots=True)
class SliceType(GoType):
    """A slice; the value is a sequence, or None for a nil slice."""

    element: GoType


@dataclass(frozen=True, slots=True)
class MapType(GoType):
    """A map; the value is a mapping, or None for a nil map."""

    key: GoType
    value: GoType


@dataclass(frozen=True, slots=True)
class StructType(GoType):
    """A struct; each field has a name, a way to get its value from the Python value, and a type."""

    fields: tuple[tuple[str, Getter, GoType], ...]


@dataclass(frozen=True, slots=True)
class PointerType(GoType):
    """A pointer; its name is that of the type it points to. None is the nil pointer."""

    target: GoType


def pointer_to(target: GoType) -> PointerType:
    """Return the type of pointers to *target*."""
    return PointerType(target.name, target)


def spew(go_type: GoType, value: object) -> str:
    """Return the text of *value*, which is of *go_type*."""
    printer = _Printer()
    printer.print(go_type, value)
    return "".join(printer.parts)


class _Printer:
    """Collects the parts of a text; ``untyped`` tells whether the next value hides its type."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.untyped = False

    def print(self, go_type: GoType, value: Any) -> None:  # noqa: ANN401 - any Go value
        """Print *value* with or without its type."""
        if isinstance(go_type, PointerType):
            self._print_pointer(go_type, value)
            return
        if not self.untyped:
            self.parts.append(f"({go_type.name})")
        self.untyped = False
        match go_type:
            case SliceType():
                self._print_slice(go_type, value)
            case MapType():
                self._print_map(go_type, value)
            case StructType():
                self._print_struct(go_type, value)
            case _:
                self.parts.append(str(value))

    def _print_pointer(self, go_type: PointerType, value: object) -> None:
        if value is None and self.untyped:
            self.parts.append("<nil>")
            return
        self.parts.append("<*>" if self.untyped else f"(*{go_type.name})")
        if value is None:
            self.parts.append("<nil>")
            return
        self.untyped = True
        self.print(go_type.target, value)

    def _print_slice(self, go_type: SliceType, value: Iterable[object] | None) -> None:
        if value is None:
            self.parts.append("<nil>")
            return
        self.parts.append("[")
        for position, element in enumerate(value):
            self.parts.append(" " if position else "")
            self.untyped = True
            self.print(go_type.element, element)
        self.parts.append("]")

    def _print_map(self, go_type: MapType, value: Mapping[Any, object] | None) -> None:
        if value is None:
            self.parts.append("<nil>")
            return
        self.parts.append("map[")
        for position, key in enumerate(sorted(value)):
            self.parts.append(" " if position else "")
            self.untyped = True
            self.print(go_type.key, key)
            self.parts.append(":")
            self.untyped = True
            self.print(go_type.value, value[key])
        self.parts.append("]")

    def _print_struct(self, go_type: StructType, value: object) -> None:
        self.parts.append("{")
        for position, (name, getter, field_type) in enumerate(go_type.fields):
            self.parts.append(f"{' ' if position else ''}{name}:")
            self.print(field_type, getter(value))
        self.parts.append("}")
