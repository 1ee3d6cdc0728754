"""An object as the server prints it after it went through its Go type.

Go drops what it does not know, writes some fields even if empty and others only if set, and has one
text for each quantity and time. An object in this form is what is stored, compared and answered: a
write that changes nothing is one whose canonical form is unchanged.

Every write passes here several times, so each struct is turned once into a plan: what to do with
each field that is there, and what to write for those that are not. What a write leaves as it was
stored is canonical already, and taken over as it is.

How Go reads each kind of scalar, and how it writes it again. `read` returns the value as the
server would print it. A value of a wrong JSON type is a `Mismatch`: Go goes on decoding and
reports the first one. A text that a type cannot parse is `UnreadableText`: Go stops there, and that
error hides any mismatch before it.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from itertools import zip_longest
from typing import Any, Final, NamedTuple

from kube_lab_server.schema.jsontext import FloatText, RepeatedKeys
from kube_lab_server.schema.types import (
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
from numakube.errors import InvalidValue
from numakube.values.quantity import FORMAT_WRONG, NUMERIC_WRONG, SUFFIX_WRONG, parse_quantity
from numakube.values.times import canonical_micro_time, canonical_time

_INT32: Final = range(-(2**31), 2**31)
_INT64: Final = range(-(2**63), 2**63)
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]")
# Beyond this Go prints a float with an exponent even if it is whole.
_MAX_PLAIN_FLOAT: Final = 1e21


class Mismatch(InvalidValue):
    """A JSON value of the wrong type: *found* cannot become the Go type *wanted*.

    *final* says that the type itself refused the value, so that decoding stops.
    """

    def __init__(self, found: str, wanted: str, *, final: bool = False) -> None:
        super().__init__(f"cannot unmarshal {found} into {wanted}")
        self.found = found
        self.wanted = wanted
        self.final = final


class UnreadableText(InvalidValue):
    """A text that the field's type cannot parse; the message is Go's."""


def json_type(value: object) -> str:
    """Return what Go's decoder calls the JSON type of *value*."""
    match value:
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def read(scalar: Scalar, value: object) -> JsonValue:
    """Return *value*, which is not null, in its canonical form."""
    return _READERS[scalar.kind](scalar, value)


def reader_of(scalar: Scalar) -> Callable[[Scalar, Any], JsonValue]:
    """Return what `read` does for scalars of that kind."""
    return _READERS[scalar.kind]


def zero(scalar: Scalar) -> JsonValue:
    """Return what Go writes for a scalar that was never set."""
    return _ZEROES[scalar.kind]


def plain_number(number: float) -> int | float:
    """Return *number* as Go prints it: whole floats without a fraction."""
    if isinstance(number, float) and number.is_integer() and abs(number) < _MAX_PLAIN_FLOAT:
        return int(number)
    return float(number) if isinstance(number, FloatText) else number


def _string(scalar: Scalar, value: object) -> str:
    if not isinstance(value, str):
        raise Mismatch(json_type(value), scalar.go)
    return value


def _boolean(scalar: Scalar, value: object) -> bool:
    if not isinstance(value, bool):
        raise Mismatch(json_type(value), scalar.go)
    return value


def _integer(scalar: Scalar, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Mismatch(json_type(value), scalar.go)
    allowed = _INT32 if scalar.kind is ScalarKind.INT32 else _INT64
    if isinstance(value, float) or value not in allowed:
        raise Mismatch(f"number {_literal(value)}", scalar.go)
    return value


def _literal(number: float) -> str:
    return number.text if isinstance(number, FloatText) else str(number)


def _float(scalar: Scalar, value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Mismatch(json_type(value), scalar.go)
    return plain_number(value)


def _quantity(_: Scalar, value: object) -> str:
    if isinstance(value, FloatText):
        value = value.text
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        raise UnreadableText(FORMAT_WRONG)
    try:
        return _quantity_text(value.strip() if isinstance(value, str) else value)
    except InvalidValue as error:
        known = (text for text in (NUMERIC_WRONG, SUFFIX_WRONG) if str(error).endswith(text))
        raise UnreadableText(next(known, FORMAT_WRONG)) from error


@lru_cache(maxsize=4096, typed=True)
def _quantity_text(value: str | float) -> str:
    return str(parse_quantity(value))


def _int_or_string(_: Scalar, value: object) -> int | str:
    if isinstance(value, str):
        return value
    try:
        return _integer(Scalar(ScalarKind.INT32, "int32"), value)
    except Mismatch as error:
        raise Mismatch(error.found, error.wanted, final=True) from None


def _time(scalar: Scalar, value: object) -> str:
    if not isinstance(value, str):
        raise Mismatch(json_type(value), "string", final=True)
    canonical = _canonical_time if scalar.kind is ScalarKind.TIME else canonical_micro_time
    try:
        return canonical(value)
    except InvalidValue as error:
        raise UnreadableText(str(error)) from error


# Objects that are written in one second have the same times.
_canonical_time: Final = lru_cache(maxsize=256)(canonical_time)


def _bytes(scalar: Scalar, value: object) -> str:
    if not isinstance(value, str):
        raise Mismatch(json_type(value), scalar.go)
    text = value.replace("\r", "").replace("\n", "")
    try:
        b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise UnreadableText(f"illegal base64 data at input byte {_illegal_byte(value)}") from None
    return text


def _illegal_byte(text: str) -> int:
    """Return where Go's decoder gives up on *text*, which is not base64."""
    digits = 0
    for index, char in enumerate(text):
        if char in "\r\n":
            continue
        if not _BASE64.match(char):
            return _illegal_padding(text, index, digits) if char == "=" else index
        digits += 1
    return len(text) - digits % 4


def _illegal_padding(text: str, index: int, digits: int) -> int:
    """Return the position of the mistake when padding begins at *index* after so many digits."""
    if digits % 4 in (0, 1):
        return index
    rest = [i for i in range(index + 1, len(text)) if text[i] not in "\r\n"]
    if digits % 4 == 2:
        if not rest:
            return len(text)
        if text[rest[0]] != "=":
            return rest[0]
        rest = rest[1:]
    return rest[0] if rest else len(text)


_READERS: Final[Mapping[ScalarKind, Callable[[Scalar, object], Any]]] = {
    ScalarKind.STRING: _string,
    ScalarKind.BOOLEAN: _boolean,
    ScalarKind.INT32: _integer,
    ScalarKind.INT64: _integer,
    ScalarKind.FLOAT: _float,
    ScalarKind.NUMBER: _float,
    ScalarKind.QUANTITY: _quantity,
    ScalarKind.INT_OR_STRING: _int_or_string,
    ScalarKind.TIME: _time,
    ScalarKind.MICRO_TIME: _time,
    ScalarKind.BYTES: _bytes,
}

_ZEROES: Final[Mapping[ScalarKind, Any]] = {
    ScalarKind.STRING: "",
    ScalarKind.BOOLEAN: False,
    ScalarKind.INT32: 0,
    ScalarKind.INT64: 0,
    ScalarKind.FLOAT: 0,
    ScalarKind.NUMBER: 0,
    ScalarKind.QUANTITY: "0",
    ScalarKind.INT_OR_STRING: 0,
    ScalarKind.TIME: None,
    ScalarKind.MICRO_TIME: None,
    ScalarKind.BYTES: None,
}


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
