"""Objects in the protobuf form, which clients written in Go send.

kube-scheduler binds pods in it, kubectl creates namespaces in it. Answers may always be JSON, so
only reading is needed. The messages are those of the built-in types: the tables have the numbers of
their fields. What is read is the same document that the client would have sent as JSON, apart from
empty fields, which the canonical form drops anyway.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from numakube.errors import InvalidValue
from numakube.lab.kinds import GVK
from numakube.lab.schema.jsontext import parse_json
from numakube.lab.schema.registry import BUILTIN
from numakube.lab.schema.registry import struct as struct_called
from numakube.lab.schema.types import (
    Field,
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
    from collections.abc import Iterator

    from numakube.lab.schema.types import JsonValue

_MAGIC: Final = b"k8s\x00"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MAX_VARINT_BYTES: Final = 10

Message = dict[int, list[int | bytes]]


class MalformedProtobuf(InvalidValue):
    """Bytes that are no object in the protobuf form."""


def read_protobuf(data: bytes) -> dict[str, Any]:
    """Return the object in *data* as a JSON document."""
    if not data.startswith(_MAGIC):
        raise MalformedProtobuf("provided data does not appear to be a protobuf message")
    envelope = _message(data[len(_MAGIC) :])
    type_meta = _message(_one_bytes(envelope, 1))
    api_version, kind = _text(type_meta, 1), _text(type_meta, 2)
    root = _root(GVK.of({"apiVersion": api_version, "kind": kind}))
    document = _read_struct(root, _message(_one_bytes(envelope, 2)))
    return {**document, "apiVersion": api_version, "kind": kind}


def _root(gvk: GVK) -> Struct:
    if gvk.kind == "DeleteOptions":
        return struct_called("meta.v1", "DeleteOptions")
    info = BUILTIN.get(gvk)
    if info is None:
        raise MalformedProtobuf(
            f'no kind "{gvk.kind}" is registered for version "{gvk.api_version}"'
        )
    return info.root


def _message(data: bytes) -> Message:
    """Return the values of a message by number, each a number or bytes."""
    found: Message = {}
    for number, value in _fields(data):
        found.setdefault(number, []).append(value)
    return found


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield numbers and values: the low bits of a key say how long the value is."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        match key & 7:
            case 0:
                value, at = _varint(data, at)
                yield key >> 3, value
            case 1 | 5 as wire:
                size = 8 if wire == 1 else 4
                yield key >> 3, _slice(data, at, size)
                at += size
            case 2:
                size, at = _varint(data, at)
                yield key >> 3, _slice(data, at, size)
                at += size
            case wire:
                raise MalformedProtobuf(f"proto: illegal wireType {wire}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if at + index >= len(data):
            raise MalformedProtobuf("unexpected EOF")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, at + index + 1
    raise MalformedProtobuf("proto: integer overflow")


def _slice(data: bytes, at: int, size: int) -> bytes:
    if at + size > len(data):
        raise MalformedProtobuf("unexpected EOF")
    return data[at : at + size]


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise MalformedProtobuf("proto: wrong wireType")
    return value


def _one_bytes(message: Message, number: int) -> bytes:
    return _as_bytes(message[number][-1]) if number in message else b""


def _text(message: Message, number: int) -> str:
    return _utf8(_one_bytes(message, number))


def _utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedProtobuf(f"proto: string field contains invalid UTF-8: {error}") from None


def _number(message: Message, number: int) -> int:
    value = message[number][-1] if number in message else 0
    if not isinstance(value, int):
        raise MalformedProtobuf("proto: wrong wireType")
    return _signed(value)


def _signed(value: int) -> int:
    """Integers are written in 64 bits, negative ones as their complement."""
    return value - (1 << 64) if value >= 1 << 63 else value


def _read_struct(root: Struct, message: Message) -> dict[str, Any]:
    document = {}
    for field in root.fields.values():
        values = _values(message, field)
        if values:
            document[field.name] = _read_field(field.type, values)
    return document


def _values(message: Message, field: Field) -> list[int | bytes]:
    """Return what stands under the field's number, below the messages that it is embedded in."""
    if not field.number:
        return []
    *outer, last = field.number
    for number in outer:
        message = _message(b"".join(map(_as_bytes, message.get(number, []))))
    return message.get(last, [])


def _read_field(kind: Type, values: list[int | bytes]) -> JsonValue:
    match kind:
        case ListType():
            return [_read(kind.element, value) for value in _unpacked(kind.element, values)]
        case MapType():
            entries = [_message(_as_bytes(value)) for value in values]
            return {_text(entry, 1): _read_entry(kind.element, entry) for entry in entries}
        case Struct():
            return _read(kind, b"".join(map(_as_bytes, values)))
        case _:
            return _read(kind, values[-1])


def _read_entry(kind: Type, entry: Message) -> JsonValue:
    if 2 in entry:
        return _read(kind, entry[2][-1])
    numeric = isinstance(kind, Scalar) and kind.kind in _NUMERIC
    return _read(kind, 0 if numeric else b"")


_NUMERIC: Final = frozenset({ScalarKind.BOOLEAN, ScalarKind.INT32, ScalarKind.INT64})


def _unpacked(kind: Type, values: list[int | bytes]) -> Iterator[int | bytes]:
    """Yield the elements of a list; numbers may stand together in one value."""
    numeric = isinstance(kind, Scalar) and kind.kind in _NUMERIC
    for value in values:
        if numeric and isinstance(value, bytes):
            at = 0
            while at < len(value):
                number, at = _varint(value, at)
                yield number
        else:
            yield value


def _read(kind: Type, value: int | bytes) -> JsonValue:
    match kind:
        case Scalar():
            return _read_scalar(kind, value)
        case Struct():
            return _read_struct(kind, _message(_as_bytes(value)))
        case ListType():
            # A list that is an element itself has a message of its own.
            return _read_field(kind, _message(_as_bytes(value)).get(1, []))
        case MapType():
            return _read_field(kind, [value])
        case Untyped():
            raw = _one_bytes(_message(_as_bytes(value)), 1)
            return parse_json(_utf8(raw)) if raw else None
        case Union():
            return _read_union(kind, _message(_as_bytes(value)))


def _read_union(kind: Union, message: Message) -> JsonValue:
    """Read a schema or something else; which number is which depends on what else."""
    if isinstance(kind.other, Scalar):
        if 2 in message:
            return _read(kind.struct, message[2][-1])
        return bool(_number(message, 1))
    if 1 in message:
        return _read(kind.struct, message[1][-1])
    return _read_field(kind.other, message.get(2, []))


def _read_scalar(kind: Scalar, value: int | bytes) -> JsonValue:
    match kind.kind:
        case ScalarKind.STRING:
            return _utf8(_as_bytes(value))
        case ScalarKind.BOOLEAN:
            return bool(_plain(value))
        case ScalarKind.INT32 | ScalarKind.INT64:
            return _signed(_plain(value))
        case ScalarKind.FLOAT | ScalarKind.NUMBER:
            return struct.unpack("<d", _as_bytes(value))[0]
        case ScalarKind.BYTES:
            return base64.b64encode(_as_bytes(value)).decode()
        case ScalarKind.QUANTITY:
            return _text(_message(_as_bytes(value)), 1)
        case ScalarKind.INT_OR_STRING:
            message = _message(_as_bytes(value))
            return _text(message, 3) if _number(message, 1) else _number(message, 2)
        case ScalarKind.TIME | ScalarKind.MICRO_TIME:
            return _read_time(kind, _as_bytes(value))


def _plain(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise MalformedProtobuf("proto: wrong wireType")
    return value


def _read_time(kind: Scalar, data: bytes) -> str | None:
    """No bytes at all are no time."""
    if not data:
        return None
    message = _message(data)
    micros = _number(message, 2) // 1000
    try:
        moment = _EPOCH + timedelta(seconds=_number(message, 1), microseconds=micros)
    except OverflowError:
        raise MalformedProtobuf("proto: time out of range") from None
    form = "%Y-%m-%dT%H:%M:%S" + (".%f" if kind.kind is ScalarKind.MICRO_TIME else "")
    return moment.strftime(f"{form}Z")
