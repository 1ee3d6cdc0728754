"""An object as the server prints it after it went through its Go type.

Go drops what it does not know, writes some fields even if empty and others only if set, and has one
text for each quantity and time. An object in this form is what is stored, compared and answered: a
write that changes nothing is one whose canonical form is unchanged.

Every write passes here several times, so each struct is turned once into a plan: what to do with
each field that is there, and what to write for those that are not. What a write leaves as it was
stored is canonical already, and taken over as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from numakube_lab.schema.jsontext import RepeatedKeys
from numakube_lab.schema.scalars import plain_number, reader_of, zero
from numakube_lab.schema.types import (
    Emit,
    Field,
    JsonValue,
    ListType,
    MapType,
    Scalar,
    ScalarKind,
    Struct,
    Type,
    Union,
    Untyped,
)

_Writer = Callable[[Any, Any], Any]
"""Writes a value; also gets one in canonical form that it may share parts with, or None."""

_NOTHING: Final[Mapping[str, Any]] = {}
_INT64_MIN: Final = -(2**63)
_INT64_MAX: Final = 2**63 - 1

# Go structs all the same: omitempty never leaves them out.
_STRUCT_SCALARS: Final = frozenset(
    {ScalarKind.TIME, ScalarKind.MICRO_TIME, ScalarKind.QUANTITY, ScalarKind.INT_OR_STRING}
)


class _Plan(NamedTuple):
    """How a struct is written.

    Attributes:
        fields: by name, what writes the field, and whether it is left out if empty.
        zeroes: by name, what makes the zero that is written for the field if it is missing.
    """

    fields: dict[str, tuple[_Writer, bool]]
    zeroes: dict[str, Callable[[], Any]]


def canonical_struct(
    struct: Struct, value: dict[str, Any] | None, known: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return *value*, which decodes into *struct*, as it is printed.

    What it shares with *known*, another value of that struct in canonical form, is taken over.
    """
    fields, zeroes = _plan(struct)
    if isinstance(value, RepeatedKeys):
        value = _combined(struct, value)
    before = known or _NOTHING
    out: dict[str, Any] = {}
    for name, item in (value or _NOTHING).items():
        field = fields.get(name)
        if field is None:
            if struct.unknown is not None:
                out[name] = canonical(struct.unknown, item)
        elif item is not None:
            write, droppable = field
            if write is _text or item is (old := before.get(name)):
                written = item
            else:
                written = write(item, old)
            if written or not droppable:
                out[name] = written
    for name, make_zero in zeroes.items():
        if name not in out:
            out[name] = make_zero()
    return out


def canonical(kind: Type, value: JsonValue) -> JsonValue:
    """Return *value*, which decodes into *kind*, as it is printed."""
    return _writer(kind)(value, None)


def zero_value(kind: Type) -> JsonValue:
    """Return what is printed for a value of *kind* that was never set."""
    match kind:
        case Scalar():
            return zero(kind)
        case Struct():
            return canonical_struct(kind, {})
        case _:
            return None


def plain(value: JsonValue) -> JsonValue:
    """Return untyped JSON as Go prints it: repeated keys are gone and whole floats are integers."""
    match value:
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case list():
            return [plain(item) for item in value]
        case float():
            return plain_number(value)
        case int() if not _INT64_MIN <= value <= _INT64_MAX:
            # Go has no integers beyond, and reads such a number as a float.
            return float(value)
        case _:
            return value


def _plan(struct: Struct) -> _Plan:
    made: _Plan | None = struct.__dict__.get("_canonical_plan")
    if made is None:
        fields = struct.fields.values()
        made = _Plan(
            {
                f.name: (_writer(f.type), not f.pointer and not _is_go_struct(f.type))
                for f in fields
            },
            {f.name: make for f in fields if (make := _zero_maker(f)) is not None},
        )
        struct.__dict__["_canonical_plan"] = made
    return made


def _writer(kind: Type) -> _Writer:
    """Return what writes values of *kind*."""
    match kind:
        case Untyped():
            return lambda value, _: plain(value)
        case Scalar():
            return _scalar_writer(kind)
        case Struct():
            return partial(canonical_struct, kind)
        case ListType():
            return _list_writer(kind)
        case MapType():
            return _map_writer(kind)
        case Union():
            return lambda value, _: canonical(
                kind.struct if isinstance(value, dict) else kind.other, value
            )


def _text(value: str | None, _: JsonValue) -> str:
    return value or ""


def _scalar_writer(kind: Scalar) -> _Writer:
    if kind.kind is ScalarKind.STRING:
        return _text
    nothing, reader = zero(kind), reader_of(kind)

    def write(value: JsonValue, _: JsonValue) -> JsonValue:
        return nothing if value is None else reader(kind, value)

    return write


def _list_writer(kind: ListType) -> _Writer:
    write = _writer(kind.element)

    def write_list(value: JsonValue, known: JsonValue) -> JsonValue:
        if value is None or not known:
            return None if value is None else [write(item, None) for item in value]
        pairs = zip_longest(value, known[: len(value)])
        return [item if item is old and item else write(item, old) for item, old in pairs]

    return write_list


def _map_writer(kind: MapType) -> _Writer:
    write = _writer(kind.element)
    return lambda value, _: (
        None if value is None else {key: write(value[key], None) for key in value}
    )


def _zero_maker(field: Field) -> Callable[[], Any] | None:
    """Return what makes the zero of *field*, or None if that is not written."""
    always = field.emit is Emit.ALWAYS
    if not always and (field.pointer or field.emit is Emit.OMIT_ZERO):
        return None
    if not always and not _is_go_struct(field.type):
        return None
    if field.pointer:
        return lambda: None
    return lambda: zero_value(field.type)


def _is_go_struct(kind: Type) -> bool:
    match kind:
        case Struct():
            return True
        case Scalar():
            return kind.kind in _STRUCT_SCALARS
        case Untyped():
            return kind.go == "runtime.RawExtension"
        case _:
            return False


def _combined(struct: Struct, value: RepeatedKeys) -> dict[str, Any]:
    """Decode repeated keys one after the other into the same Go value, as Go does."""
    out: dict[str, Any] = {}
    for name, item in value.pairs:
        field = struct.fields.get(name)
        before = out.get(name)
        mergeable = field is not None and isinstance(field.type, Struct | MapType)
        if mergeable and isinstance(before, dict) and isinstance(item, dict):
            out[name] = {**before, **item}
        elif item is not None or before is None:
            out[name] = item
    return out
