"""A gRPC call with one request and one answer over a unix socket, without the gRPC library.

    answer = await call(socket, "/v1.PodResourcesLister/List", b"", within=10.0, at_most=16 << 20)

The library takes 13 MB and seven threads in a process that asks its kubelet a small question now
and then. Each call has an HTTP/2 connection of its own (RFC 9113): a connection that is never idle
needs no keep-alive, and a kubelet that restarts breaks none.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from enum import IntEnum, IntFlag
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import unquote

from numakube.errors import NumakubeError
from numakube.node.hpack import HeaderReader, write_headers

if TYPE_CHECKING:
    from pathlib import Path

_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_STREAM: Final = 1
_FRAME_HEAD: Final = struct.Struct(">HBBBI")
_MESSAGE_HEAD: Final = struct.Struct(">BI")
_LARGEST_FRAME: Final = 1 << 14
_FIRST_WINDOW: Final = (1 << 16) - 1
_31_BITS: Final = (1 << 31) - 1
"""The largest window, and the largest number of a stream."""
_WINDOW_SETTING: Final = struct.pack(">HI", 4, _31_BITS)


class Code(IntEnum):
    """How a call ended."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class CallFailed(NumakubeError):
    """A call ended without an answer."""

    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(f"{code.name}: {detail}")
        self.code = code


class _Type(IntEnum):
    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class _Flag(IntFlag):
    ACK = 0x1  # of settings and pings
    END_STREAM = 0x1  # of everything else
    END_HEADERS = 0x4
    PADDED = 0x8
    PRIORITY = 0x20


class _Frame(NamedTuple):
    type: int
    flags: int
    stream: int
    payload: bytes

    def content(self) -> bytes:
        """Return the payload without padding and priority."""
        payload = self.payload
        if self.flags & _Flag.PADDED:
            payload = payload[1 : len(payload) - payload[0]]
        return payload[5:] if self.flags & _Flag.PRIORITY else payload


async def call(
    socket: Path | str, method: str, request: bytes, *, within: float, at_most: int
) -> bytes:
    """Send *request* to *method* at *socket* and return the answer.

    The call is given up after *within* seconds, and when the answer has more bytes than *at_most*.

    Raises:
        CallFailed: there is no answer, or a refusal.
    """
    try:
        async with asyncio.timeout(within):
            reader, writer = await asyncio.open_unix_connection(str(socket))
            try:
                writer.write(_opening(method, request))
                return await _Answer(reader, writer, at_most).read()
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        raise CallFailed(Code.DEADLINE_EXCEEDED, f"no answer within {within:g} s") from None
    except (OSError, asyncio.IncompleteReadError) as error:
        raise CallFailed(Code.UNAVAILABLE, str(error)) from None
    except (ValueError, IndexError, struct.error) as error:
        raise CallFailed(Code.INTERNAL, f"the answer cannot be read: {error}") from None


def _opening(method: str, request: bytes) -> bytes:
    """Return everything that a call sends: nothing in it depends on what the server says."""
    headers = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", method.encode()),
        # Strict servers refuse a socket's path here.
        (b":authority", b"localhost"),
        (b"te", b"trailers"),
        (b"content-type", b"application/grpc"),
    )
    message = _MESSAGE_HEAD.pack(0, len(request)) + request
    return b"".join(
        (
            _PREFACE,
            _frame(_Type.SETTINGS, 0, 0, _WINDOW_SETTING),
            _more_window(_31_BITS - _FIRST_WINDOW),
            _frame(_Type.HEADERS, _Flag.END_HEADERS, _STREAM, write_headers(headers)),
            _frame(_Type.DATA, _Flag.END_STREAM, _STREAM, message),
        )
    )


def _frame(kind: _Type, flags: int, stream: int, payload: bytes) -> bytes:
    length = len(payload)
    return _FRAME_HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload


def _more_window(size: int) -> bytes:
    return _frame(_Type.WINDOW_UPDATE, 0, 0, size.to_bytes(4, "big"))


class _Answer:
    """Reads the frames of a connection until its one stream has ended."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, at_most: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._at_most = at_most
        self._blocks = HeaderReader()
        self._block = b""
        self._headers: dict[bytes, bytes] = {}
        self._data = bytearray()

    async def read(self) -> bytes:
        """Return the message of the answer.

        Raises:
            CallFailed: the server refuses the call.
        """
        ends = False
        while not ends or self._block:
            frame = await self._next()
            if frame.stream == _STREAM:
                ends |= self._take(frame)
            else:
                self._attend(frame)
        return self._message()

    async def _next(self) -> _Frame:
        high, low, kind, flags, stream = _FRAME_HEAD.unpack(await self._reader.readexactly(9))
        length, stream = high << 8 | low, stream & _31_BITS
        if length > _LARGEST_FRAME:
            raise ValueError(f"a frame of {length} bytes")
        return _Frame(kind, flags, stream, await self._reader.readexactly(length))

    def _attend(self, frame: _Frame) -> None:
        """Answer what concerns the connection."""
        if frame.type in {_Type.SETTINGS, _Type.PING} and not frame.flags & _Flag.ACK:
            echo = frame.payload if frame.type == _Type.PING else b""
            self._writer.write(_frame(_Type(frame.type), _Flag.ACK, 0, echo))
        elif frame.type == _Type.GOAWAY and int.from_bytes(frame.payload[:4], "big") < _STREAM:
            raise CallFailed(Code.UNAVAILABLE, "the server takes no more calls")

    def _take(self, frame: _Frame) -> bool:
        """Take a frame of the stream; tell whether the stream ends with it."""
        if frame.type == _Type.RST_STREAM:
            number = int.from_bytes(frame.payload, "big")
            raise CallFailed(Code.UNAVAILABLE, f"the call was reset, HTTP/2 error {number}")
        if frame.type == _Type.DATA:
            self._data += frame.content()
            if len(self._data) > self._at_most:
                raise CallFailed(Code.RESOURCE_EXHAUSTED, f"more than {self._at_most} bytes")
        elif frame.type in {_Type.HEADERS, _Type.CONTINUATION}:
            self._block += frame.content()
            if frame.flags & _Flag.END_HEADERS:
                self._headers.update(self._blocks.read(self._block))
                self._block = b""
        else:
            return False
        return frame.type != _Type.CONTINUATION and bool(frame.flags & _Flag.END_STREAM)

    def _message(self) -> bytes:
        if b"grpc-status" not in self._headers:
            status = self._headers.get(b":status", b"none").decode()
            raise CallFailed(Code.UNKNOWN, f"no gRPC status; that of HTTP is {status}")
        code = Code(int(self._headers[b"grpc-status"]))
        if code is not Code.OK:
            detail = unquote(self._headers.get(b"grpc-message", b"").decode())
            raise CallFailed(code, detail)
        compressed, length = _MESSAGE_HEAD.unpack_from(self._data)
        message = bytes(self._data[_MESSAGE_HEAD.size :])
        if compressed or len(message) != length:
            raise ValueError("not one plain message")
        return message
