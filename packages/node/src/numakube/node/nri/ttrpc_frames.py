"""Cutting a stream of bytes into frames, and making frames; nothing here does input or output.

The outer frame has the number of the conversation and a length, the inner one (ttrpc) a length, the
number of the call, a type and flags; numbers are big-endian. An inner frame may be spread over
several outer ones.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from numakube.errors import MalformedObject

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_BYTES: Final = 4 << 20
"""No message is larger."""

_OUTER: Final = struct.Struct(">II")
_INNER: Final = struct.Struct(">IIBB")
_PIECE: Final = 4096
"""Readers written in Go lose what does not fit into their buffer, which has this size."""


class Conversation(IntEnum):
    """The two conversations on a socket, by who answers."""

    PLUGIN = 1
    RUNTIME = 2


class Type(IntEnum):
    """What an inner frame is."""

    REQUEST = 1
    RESPONSE = 2


@dataclass(frozen=True, slots=True)
class TtrpcFrame:
    """An inner frame; *call* is odd."""

    call: int
    type: int
    data: bytes


class Outer:
    """Cuts what comes in from the socket; what is not complete yet is kept."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the pieces that are complete, each with its conversation."""
        self._rest += data
        while len(self._rest) >= _OUTER.size:
            conversation, length = _OUTER.unpack_from(self._rest)
            _check(length, MOST_BYTES + _INNER.size)
            end = _OUTER.size + length
            if len(self._rest) < end:
                return
            piece = bytes(self._rest[_OUTER.size : end])
            del self._rest[:end]
            yield conversation, piece


class Inner:
    """Cuts what one conversation says; what is not complete yet is kept."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[TtrpcFrame]:
        """Yield the frames that are complete."""
        self._rest += data
        while len(self._rest) >= _INNER.size:
            length, call, kind, _ = _INNER.unpack_from(self._rest)
            _check(length, MOST_BYTES)
            end = _INNER.size + length
            if len(self._rest) < end:
                return
            frame = TtrpcFrame(call, kind, bytes(self._rest[_INNER.size : end]))
            del self._rest[:end]
            yield frame


def to_bytes(conversation: int, frame: TtrpcFrame) -> bytes:
    """Return what has to be sent.

    Raises:
        MalformedObject: it is more than the other end would take.
    """
    _check(len(frame.data), MOST_BYTES)
    whole = _INNER.pack(len(frame.data), frame.call, frame.type, 0) + frame.data
    pieces = (whole[start : start + _PIECE] for start in range(0, len(whole), _PIECE))
    return b"".join(_OUTER.pack(conversation, len(piece)) + piece for piece in pieces)


def _check(length: int, most: int) -> None:
    if length > most:
        raise MalformedObject("NRI", f"a frame of {length} bytes, where {most} are allowed")
