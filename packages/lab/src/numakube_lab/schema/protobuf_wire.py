"""The wire format of protobuf: a message is a run of numbered values.

Nothing here knows what the numbers mean. Errors are worded as the Go decoders of Kubernetes word
them, because clients see them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.kinds import GVK

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
