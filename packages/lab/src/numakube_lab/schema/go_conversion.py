"""What Go's converter would say about a document that is turned into a type.

A strategic merge patch is not decoded from text but converted value by value, and that part of the
server words its complaints in a way of its own. It stops at the first value that does not fit, in
the order of the type's fields, and lists unknown fields by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.values.gotext import go_quote
from numakube_lab.kinds import Problems
from numakube_lab.schema.scalars import Mismatch, Unreadable, read
from numakube_lab.schema.types import (
    ListType,
    MapType,
    Scalar,
    ScalarKind,
    Struct,
    Type,
    Union,
    Untyped,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube_lab.schema.types import JsonValue

_PLAIN_SCALARS: Final = frozenset(
    {
        ScalarKind.STRING,
        ScalarKind.BOOLEAN,
        ScalarKind.INT32,
        ScalarKind.INT64,
        ScalarKind.FLOAT,
        ScalarKind.NUMBER,
    }
)
_GO_KINDS: Final = {
    ScalarKind.STRING: "string",
    ScalarKind.BOOLEAN: "bool",
    ScalarKind.INT32: "int32",
    ScalarKind.INT64: "int64",
    ScalarKind.FLOAT: "float64",
    ScalarKind.NUMBER: "float64",
}


class _Unfit(Exception):
    """A value that its type cannot take."""


def check_converted(document: Mapping[str, Any], root: Struct, *, strict: bool) -> Problems:
    """Tell what is wrong with *document* as a *root*; unknown fields only if *strict*."""
    try:
        _convert(root, document)
    except _Unfit as unfit:
        return Problems(fatal=str(unfit))
    if not strict:
        return Problems()
    unknown = sorted(f"unknown field {go_quote(path)}" for path in _unknown(root, document, ""))
    return Problems(strict=tuple(unknown))


def _convert(kind: Type, value: JsonValue) -> None:
    if value is None:
        return
    match kind:
        case Struct():
            _convert_struct(kind, value)
        case MapType():
            _require(value, dict, "cannot restore map from ")
            for item in value.values():
                _convert(kind.element, item)
        case ListType():
            _require(value, list, "cannot restore slice from ")
            for item in value:
                _convert(kind.element, item)
        case Scalar():
            _convert_scalar(kind, value)
        case Union() | Untyped():
            return


def _convert_struct(kind: Struct, value: JsonValue) -> None:
    _require(value, dict, "cannot restore struct from: ")
    for name, field in kind.fields.items():
        # Most fields are not there: asking first saves nine calls of ten.
        if (item := value.get(name)) is not None:
            _convert(field.type, item)


def _require(value: JsonValue, wanted: type, complaint: str) -> None:
    if not isinstance(value, wanted):
        raise _Unfit(f"{complaint}{_kind_of(value)}")


def _convert_scalar(kind: Scalar, value: JsonValue) -> None:
    if kind.kind in _PLAIN_SCALARS:
        _convert_plain(kind, value)
        return
    if kind.kind is ScalarKind.BYTES and not isinstance(value, str):
        raise _Unfit(f"cannot restore slice from {_kind_of(value)}")
    try:
        read(kind, value)
    except Mismatch as mismatch:
        wanted = f"Go value of type {mismatch.wanted}"
        raise _Unfit(f"json: cannot unmarshal {mismatch.found} into {wanted}") from None
    except Unreadable as unreadable:
        prefix = "error decoding from json: " if kind.kind is ScalarKind.BYTES else ""
        raise _Unfit(f"{prefix}{unreadable}") from None


def _convert_plain(kind: Scalar, value: JsonValue) -> None:
    found, wanted = _kind_of(value), _GO_KINDS[kind.kind]
    numeric = wanted in ("int32", "int64", "float64")
    fits = found == wanted or (numeric and found in ("int64", "float64"))
    if numeric and found == "float64" and wanted != "float64" and not float(value).is_integer():
        raise _Unfit(f"cannot convert float64 to {kind.go}")
    if not fits:
        # Go can turn an integer into a string (of one character), and refuses that by another name.
        if wanted == "string" and found == "int64":
            raise _Unfit(f"cannot convert int64 to {kind.go}")
        raise _Unfit(f"unrecognized type: {wanted}")


def _kind_of(value: JsonValue) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int64"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "slice"
        case _:
            return "map"


def _unknown(kind: Type, value: JsonValue, path: str) -> Iterator[str]:
    match kind:
        case Struct() if isinstance(value, dict):
            for name, item in value.items():
                step = f"{path}.{name}" if path else name
                if name in kind.fields:
                    yield from _unknown(kind.fields[name].type, item, step)
                else:
                    yield step
        case MapType() if isinstance(value, dict):
            # The converter does not say under which key it is.
            for item in value.values():
                yield from _unknown(kind.element, item, path)
        case ListType() if isinstance(value, list):
            for index, item in enumerate(value):
                yield from _unknown(kind.element, item, f"{path}[{index}]")
        case _:
            return
