"""An object as the server prints it after it went through its Go type.

Go drops what it does not know, writes some fields even if empty and others only if set, and has one
text for each quantity and time. An object in this form is what is stored, compared and answered: a
write that changes nothing is one whose canonical form is unchanged.
"""

from __future__ import annotations

from typing import Any, Final

from numakube.lab.schema.jsontext import RepeatedKeys
from numakube.lab.schema.scalars import plain_number, read, zero
from numakube.lab.schema.types import (
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

# Go structs all the same: omitempty never leaves them out.
_STRUCT_SCALARS: Final = frozenset(
    {ScalarKind.TIME, ScalarKind.MICRO_TIME, ScalarKind.QUANTITY, ScalarKind.INT_OR_STRING}
)


def canonical_struct(struct: Struct, value: dict[str, Any]) -> dict[str, Any]:
    """Return *value*, which decodes into *struct*, as it is printed."""
    if isinstance(value, RepeatedKeys):
        value = _combined(struct, value)
    out: dict[str, Any] = {}
    for field in struct.fields.values():
        item = value.get(field.name)
        if item is None:
            _write_zero(out, field)
        else:
            _write(out, field, canonical(field.type, item))
    if struct.unknown is not None:
        known = struct.fields
        out.update((k, canonical(struct.unknown, v)) for k, v in value.items() if k not in known)
    return out


def canonical(kind: Type, value: JsonValue) -> JsonValue:
    """Return *value*, which decodes into *kind*, as it is printed."""
    match kind:
        case Untyped():
            return plain(value)
        case _ if value is None:
            return zero_value(kind)
        case Scalar():
            return read(kind, value)
        case Struct():
            return canonical_struct(kind, value)
        case ListType():
            return [canonical(kind.element, item) for item in value]
        case MapType():
            return {key: canonical(kind.element, item) for key, item in value.items()}
        case Union():
            return canonical(kind.struct if isinstance(value, dict) else kind.other, value)


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
        case _:
            return value


def _write_zero(out: dict[str, Any], field: Field) -> None:
    if field.emit is Emit.ALWAYS:
        out[field.name] = None if field.pointer else zero_value(field.type)
    elif field.emit is Emit.OMIT_EMPTY and not field.pointer and _is_go_struct(field.type):
        out[field.name] = zero_value(field.type)


def _write(out: dict[str, Any], field: Field, item: JsonValue) -> None:
    if field.pointer or _is_go_struct(field.type) or not _is_empty(item):
        out[field.name] = item
    else:
        _write_zero(out, field)


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


def _is_empty(item: object) -> bool:
    return item is None or item is False or item in ("", 0) or item in ({}, [])


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
