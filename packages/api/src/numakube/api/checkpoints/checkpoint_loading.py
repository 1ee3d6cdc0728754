"""Checkpoints of all managers: how their bytes are read, and the checksum that guards them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from numakube.api.codec import BROKEN_JSON, Wire, convert, decode_tree
from numakube.errors import CorruptCheckpoint, MalformedObject
from numakube.values.gotext import go_quote

# The checksum of the kubelet's state files: FNV-1a, 32 bits, over go-spew's text.
#
# The text is go-spew's ``%#v`` with sorted keys, no methods and no addresses. It depends on Go's
# types, so those are described here as values: a `GoType` knows its name and how to get at the
# parts of a Python value. The grammar is that of go-spew 1.1, including its one oddity: a type is
# printed before a value unless a container, a pointer or a nil pointer before it said not to.


Getter: TypeAlias = Callable[[Any], Any]
_OFFSET_BASIS: Final = 0x811C9DC5
_PRIME: Final = 0x01000193


@dataclass(frozen=True, slots=True)
class GoType:
    """A type of Go by its name, such as ``string`` or ``v1.ResourceName``: printed as it is."""

    name: str


@dataclass(frozen=True, slots=True)
class SliceType(GoType):
    """A slice; the value is a sequence, or None for a nil slice."""

    element: GoType


@dataclass(frozen=True, slots=True)
class CheckpointMapType(GoType):
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
            case CheckpointMapType():
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

    def _print_map(self, go_type: CheckpointMapType, value: Mapping[Any, object] | None) -> None:
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


_STRING: Final = GoType("string")


def fnv1a_32(data: bytes) -> int:
    """Return the 32-bit FNV-1a hash of *data*."""
    value = _OFFSET_BASIS
    for byte in data:
        value = (value ^ byte) * _PRIME & 0xFFFFFFFF
    return value


def checksum_of(go_type: GoType, value: object) -> int:
    """Return the checksum of *value* printed as a *go_type*."""
    return fnv1a_32(spew(go_type, value).encode())


def checksum_of_text(text: str) -> int:
    """Return the checksum of a Go string."""
    return checksum_of(_STRING, text)


def is_any_of(checksum: int, value: object, go_types: Iterable[GoType]) -> bool:
    """Tell whether *checksum* is that of *value* printed as any of *go_types*.

    Versions of the kubelet have renamed the struct that is printed, so one file may have been
    hashed under more than one name.
    """
    return any(checksum == checksum_of(go_type, value) for go_type in go_types)


CORRUPTED: Final = "checkpoint is corrupted"

State = TypeVar("State")
Fields = TypeVar("Fields", bound=msgspec.Struct)
Loader: TypeAlias = Callable[[dict[str, Any]], State]
"""Turns the JSON object of a state file into a state, or raises `CorruptCheckpoint`."""


class Seal(Wire, frozen=True):
    """The checksums of a file, and the string that holds the content since 1.37."""

    checksum: int = 0
    data: str = ""
    data_checksum: int = 0

    @property
    def has_data(self) -> bool:
        """Tell whether the file is of the newest kind, even if it is damaged."""
        return bool(self.data or self.data_checksum)


def decode_as_written(kind: type[Fields], data: bytes | str) -> Fields:
    """Return the fields of *kind* from *data*, JSON with keys spelled as the kubelet writes them.

    Much faster than `parse_object` and `read_fields`, which also take what Go would take.
    """
    try:
        return msgspec.json.decode(data, type=kind)
    except BROKEN_JSON as error:
        raise CorruptCheckpoint(str(error)) from None


def parse_object(data: bytes | str) -> dict[str, Any]:
    """Return the JSON object *data*."""
    try:
        tree = decode_tree(data, "checkpoint")
    except MalformedObject as error:
        raise CorruptCheckpoint(error.detail) from None
    if not isinstance(tree, dict):
        raise CorruptCheckpoint("not a JSON object")
    return tree


def parse_sealed(data: str, checksum: int) -> dict[str, Any]:
    """Return the JSON object in the string *data* that *checksum* belongs to."""
    tree = parse_object(data)
    require(checksum_of_text(data) == checksum, CORRUPTED)
    return tree


def require(condition: bool, reason: str) -> None:
    """Refuse the file for *reason* unless *condition* holds."""
    if not condition:
        raise CorruptCheckpoint(reason)


def require_policy(recorded: str, configured: str | None, *, prefix: str = "") -> None:
    """Refuse a file that another policy than the configured one has written."""
    require(
        configured is None or recorded == configured,
        f"{prefix}configured policy {go_quote(configured or '')} differs from state checkpoint"
        f" policy {go_quote(recorded)}",
    )


def read_fields(kind: type[Fields], tree: dict[str, Any]) -> Fields:
    """Return the fields of *kind* from *tree*; as in Go, the case of the keys does not matter."""
    names = {field.encode_name.lower(): field.encode_name for field in msgspec.structs.fields(kind)}
    folded = {names.get(key.lower(), key): value for key, value in tree.items()}
    try:
        return convert(kind, folded)
    except MalformedObject as error:
        raise CorruptCheckpoint(f"{error.path}: {error.detail}") from None


def first_that_loads(tree: dict[str, Any], loaders: Iterable[Loader[State]]) -> State:
    """Return what the first of *loaders* that accepts *tree* makes of it; else the last error."""
    refusal = CorruptCheckpoint("no version of this file can be read")
    for load in loaders:
        try:
            return load(tree)
        except CorruptCheckpoint as error:
            refusal = error
    raise refusal


def cannot_restore(reason: object, *, manager: str, path: str) -> CorruptCheckpoint:
    """Return the error that the kubelet ends with, in its words."""
    return CorruptCheckpoint(
        f"could not restore state from checkpoint: {reason}, please drain this node and delete "
        f'the {manager} checkpoint file "{path}" before restarting Kubelet'
    )
