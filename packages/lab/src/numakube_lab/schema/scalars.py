"""How Go reads each kind of scalar, and how it writes it again.

`read` returns the value as the server would print it. A value of a wrong JSON type is a `Mismatch`:
Go goes on decoding and reports the first one. A text that a type cannot parse is `Unreadable`: Go
stops there, and that error hides any mismatch before it.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from numakube.errors import InvalidValue
from numakube.values.quantity import FORMAT_WRONG, NUMERIC_WRONG, SUFFIX_WRONG, parse_quantity
from numakube.values.times import canonical_micro_time, canonical_time
from numakube_lab.schema.jsontext import FloatText
from numakube_lab.schema.types import JsonValue, Scalar, ScalarKind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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


class Unreadable(InvalidValue):
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
        raise Unreadable(FORMAT_WRONG)
    try:
        return _quantity_text(value.strip() if isinstance(value, str) else value)
    except InvalidValue as error:
        known = (text for text in (NUMERIC_WRONG, SUFFIX_WRONG) if str(error).endswith(text))
        raise Unreadable(next(known, FORMAT_WRONG)) from error


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
        raise Unreadable(str(error)) from error


# Objects that are written in one second have the same times.
_canonical_time: Final = lru_cache(maxsize=256)(canonical_time)


def _bytes(scalar: Scalar, value: object) -> str:
    if not isinstance(value, str):
        raise Mismatch(json_type(value), scalar.go)
    text = value.replace("\r", "").replace("\n", "")
    try:
        b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise Unreadable(f"illegal base64 data at input byte {_illegal_byte(value)}") from None
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
