"""Objects in the protobuf form, which clients written in Go send.

kube-scheduler binds pods in it, kubectl creates namespaces in it. Answers may always be JSON, so
only reading is needed. The messages are those of the built-in types: the tables have the numbers of
their fields. What is read is the same document that the client would have sent as JSON, apart from
empty fields, which the canonical form drops anyway.

The wire format of protobuf: a message is a run of numbered values. Nothing here knows what the
numbers mean. Errors are worded as the Go decoders of Kubernetes word them, because clients see
them.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kube_lab_server.kind_names import GVK
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.builtin_types import struct as struct_called
from kube_lab_server.schema.jsontext import MalformedJson, parse_json
from kube_lab_server.schema.types import (
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
from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_lab_server.schema.types import JsonValue


Message = dict[int, list[int | bytes]]
"""The values of a message by number: numbers, or bytes that may be a message themselves."""

_MAX_VARINT_BYTES: Final = 10
_GROUP, _END_OF_GROUP = 3, 4


class MalformedProtobuf(InvalidValue):
    """Bytes that are no object in the protobuf form.

    Attributes:
        kind: what they say they are; None if not even that could be read.
    """

    def __init__(self, message: str, *, kind: GVK | None = None) -> None:
        super().__init__(message)
        self.kind = kind


def read_message(data: bytes) -> Message:
    """Return the values of the message in *data*."""
    found: Message = {}
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        if key & 7 == _GROUP:
            at = _after_group(data, at)
            continue
        value, at = _value(data, at, key)
        found.setdefault(key >> 3, []).append(value)
    return found


def packed_numbers(data: bytes) -> Iterator[int]:
    """Yield the numbers that stand together in *data*."""
    at = 0
    while at < len(data):
        number, at = _varint(data, at)
        yield number


def _value(data: bytes, at: int, key: int) -> tuple[int | bytes, int]:
    """Return what stands at *at* and where it ends: the low bits of its key say how long it is."""
    if not key >> 3:
        raise MalformedProtobuf(f"proto: illegal tag 0 (wire type {key})")
    match key & 7:
        case 0:
            return _varint(data, at)
        case 2:
            size, at = _varint(data, at)
        case 1:
            size = 8
        case 5:
            size = 4
        case wire:
            raise MalformedProtobuf(f"proto: illegal wireType {wire}")
    if at + size > len(data):
        raise MalformedProtobuf("unexpected EOF")
    return data[at : at + size], at + size


def _after_group(data: bytes, at: int) -> int:
    """Return where the group ends that was entered before *at*; no message of ours has any."""
    depth = 1
    while depth:
        key, at = _varint(data, at)
        if key & 7 == _GROUP:
            depth += 1
        elif key & 7 == _END_OF_GROUP:
            depth -= 1
        else:
            _, at = _value(data, at, key)
    return at


def _varint(data: bytes, at: int) -> tuple[int, int]:
    if at < len(data) and data[at] < 0x80:
        return data[at], at + 1
    value = 0
    for index in range(_MAX_VARINT_BYTES):
        if at + index >= len(data):
            raise MalformedProtobuf("unexpected EOF")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at + index + 1
    raise MalformedProtobuf("proto: integer overflow")


_MAGIC: Final = b"k8s\x00"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_NOTHING: Final = GVK("", "", "")


class UnknownKind(MalformedProtobuf):
    """An object of a kind that the tables do not have."""

    def __init__(self, kind: GVK) -> None:
        text = f'no kind "{kind.kind}" is registered for version "{kind.api_version}"'
        super().__init__(text, kind=kind)


def has_protobuf_form(kind: GVK) -> bool:
    """Tell whether objects of *kind* can be sent as protobuf; custom ones cannot."""
    return kind in BUILTIN or kind.kind == "DeleteOptions"


def read_protobuf(data: bytes, *, assumed: GVK = _NOTHING) -> dict[str, Any]:
    """Return the object in *data* as a JSON document.

    Args:
        data: the object in its envelope.
        assumed: what it is if the envelope does not say.
    """
    envelope = _envelope(data)
    kind = _kind(read_message(_one_bytes(envelope, 1)), assumed)
    root = _root(kind)
    try:
        document = _read_struct(root, read_message(_one_bytes(envelope, 2)))
    except MalformedProtobuf as error:
        error.kind = kind
        raise
    except RecursionError:
        raise MalformedProtobuf("proto: message nested too deeply", kind=kind) from None
    return {**document, "apiVersion": kind.api_version, "kind": kind.kind}


def _envelope(data: bytes) -> Message:
    if not data:
        raise MalformedProtobuf("empty data")
    if not data.startswith(_MAGIC):
        expected = " ".join(map(str, _MAGIC))
        raise MalformedProtobuf(
            f"provided data does not appear to be a protobuf message, expected prefix [{expected}]"
        )
    if len(data) == len(_MAGIC):
        raise MalformedProtobuf("empty body")
    return read_message(data[len(_MAGIC) :])


def _kind(type_meta: Message, assumed: GVK) -> GVK:
    said = GVK.of({"apiVersion": _text(type_meta, 1), "kind": _text(type_meta, 2)})
    if not said.version:
        said = said._replace(group=assumed.group, version=assumed.version)
    return said if said.kind else said._replace(kind=assumed.kind)


def _root(kind: GVK) -> Struct:
    # Every group has its own name for the options of a deletion.
    if kind.kind == "DeleteOptions":
        return struct_called("meta.v1", "DeleteOptions")
    if kind not in BUILTIN:
        raise UnknownKind(kind)
    return BUILTIN[kind].root


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise MalformedProtobuf("proto: wrong wireType")
    return value


def _one_bytes(message: Message, number: int) -> bytes:
    return _as_bytes(message[number][-1]) if number in message else b""


def _text(message: Message, number: int) -> str:
    return _utf8(_one_bytes(message, number))


def _utf8(data: bytes) -> str:
    """Go keeps any bytes in a string; its JSON shows those that are no text as U+FFFD."""
    return data.decode("utf-8", "replace")


def _number(message: Message, number: int) -> int:
    value = message[number][-1] if number in message else 0
    if not isinstance(value, int):
        raise MalformedProtobuf("proto: wrong wireType")
    return _signed(value)


def _signed(value: int, bits: int = 64) -> int:
    """Integers are written in 64 bits, negative ones as their complement; Go cuts them to size."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


class _FieldPlace(NamedTuple):
    """Where a field stands: under *number*, in the message that the numbers *outer* lead to."""

    field: Field
    outer: tuple[int, ...]
    number: int


def _places(root: Struct) -> list[_FieldPlace]:
    """Return where the fields of *root* stand, worked out once."""
    known: list[_FieldPlace] | None = root.__dict__.get("_protobuf_places")
    if known is None:
        numbered = (field for field in root.fields.values() if field.number)
        known = [_FieldPlace(field, field.number[:-1], field.number[-1]) for field in numbered]
        root.__dict__["_protobuf_places"] = known
    return known


def _read_struct(root: Struct, message: Message) -> dict[str, Any]:
    document = {}
    inner: dict[tuple[int, ...], Message] = {(): message}
    for field, outer, number in _places(root):
        if outer not in inner:
            inner[outer] = _inside(message, outer)
        values = inner[outer].get(number)
        if values:
            document[field.name] = _read_field(field.type, values)
    return document


def _inside(message: Message, numbers: tuple[int, ...]) -> Message:
    """Return the message that *numbers* lead to."""
    for number in numbers:
        message = read_message(b"".join(map(_as_bytes, message.get(number, []))))
    return message


def _read_field(kind: Type, values: list[int | bytes]) -> JsonValue:
    match kind:
        case ListType():
            return [_read(kind.element, value) for value in _unpacked(kind.element, values)]
        case MapType():
            entries = [read_message(_as_bytes(value)) for value in values]
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
            yield from packed_numbers(value)
        else:
            yield value


def _read(kind: Type, value: int | bytes) -> JsonValue:
    match kind:
        case Scalar():
            return _read_scalar(kind, value)
        case Struct():
            return _read_struct(kind, read_message(_as_bytes(value)))
        case ListType():
            # A list that is an element itself has a message of its own.
            return _read_field(kind, read_message(_as_bytes(value)).get(1, []))
        case MapType():
            return _read_field(kind, [value])
        case Untyped():
            raw = _one_bytes(read_message(_as_bytes(value)), 1)
            return _parsed(raw) if raw else None
        case Union():
            return _read_union(kind, read_message(_as_bytes(value)))


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
        case ScalarKind.INT32:
            return _signed(_plain(value), 32)
        case ScalarKind.INT64:
            return _signed(_plain(value))
        case ScalarKind.FLOAT | ScalarKind.NUMBER:
            return _double(_as_bytes(value))
        case ScalarKind.BYTES:
            return base64.b64encode(_as_bytes(value)).decode()
        case ScalarKind.QUANTITY:
            return _text(read_message(_as_bytes(value)), 1) or "0"
        case ScalarKind.INT_OR_STRING:
            message = read_message(_as_bytes(value))
            return _text(message, 3) if _number(message, 1) else _number(message, 2)
        case ScalarKind.TIME | ScalarKind.MICRO_TIME:
            return _read_time(kind, _as_bytes(value))


def _double(data: bytes) -> float:
    if len(data) != struct.calcsize("<d"):
        raise MalformedProtobuf("proto: wrong wireType")
    return float(struct.unpack("<d", data)[0])


def _parsed(raw: bytes) -> JsonValue:
    try:
        return parse_json(_utf8(raw))
    except MalformedJson as error:
        raise MalformedProtobuf(str(error)) from None


def _plain(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise MalformedProtobuf("proto: wrong wireType")
    return value


def _read_time(kind: Scalar, data: bytes) -> str | None:
    """No bytes at all are no time."""
    if not data:
        return None
    message = read_message(data)
    micros = _number(message, 2) // 1000
    try:
        moment = _EPOCH + timedelta(seconds=_number(message, 1), microseconds=micros)
    except OverflowError:
        raise MalformedProtobuf("proto: time out of range") from None
    form = "%Y-%m-%dT%H:%M:%S" + (".%f" if kind.kind is ScalarKind.MICRO_TIME else "")
    return moment.strftime(f"{form}Z")
