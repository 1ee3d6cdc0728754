"""A gRPC call with one request and one answer over a unix socket, without the gRPC library.

    answer = await call(socket, "/v1.PodResourcesLister/List", b"", within=10.0, at_most=16 << 20)

The library takes 13 MB and seven threads in a process that asks its kubelet a small question now
and then. ``h2`` speaks HTTP/2 here. Each call has a connection of its own: one that is never idle
needs no keep-alive, and a kubelet that restarts breaks none.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from pathlib import Path

_STREAM: Final = 1
_MESSAGE_HEAD: Final = struct.Struct(">BI")
_FIRST_WINDOW: Final = (1 << 16) - 1
_LARGEST_WINDOW: Final = (1 << 31) - 1
_READ_SIZE: Final = 1 << 16


class GrpcCode(IntEnum):
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

    def __init__(self, code: GrpcCode, detail: str) -> None:
        super().__init__(f"{code.name}: {detail}")
        self.code = code


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
                return await _Call(reader, writer, at_most).answer(method, request)
            finally:
                writer.close()
                with contextlib.suppress(OSError):
                    await writer.wait_closed()
    except TimeoutError:
        raise CallFailed(GrpcCode.DEADLINE_EXCEEDED, f"no answer within {within:g} s") from None
    except OSError as error:
        raise CallFailed(GrpcCode.UNAVAILABLE, str(error)) from None
    except (h2.exceptions.ProtocolError, ValueError, struct.error) as error:
        raise CallFailed(GrpcCode.INTERNAL, f"the answer cannot be read: {error}") from None


class _Call:
    """One call on a connection of its own."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, at_most: int
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._at_most = at_most
        config = h2.config.H2Configuration(client_side=True, header_encoding=None)
        self._http = h2.connection.H2Connection(config)
        self._headers: dict[bytes, bytes] = {}
        self._data = bytearray()

    async def answer(self, method: str, request: bytes) -> bytes:
        """Send *request* to *method*; return the message of the answer.

        Raises:
            CallFailed: the server refuses the call.
        """
        self._send(method, request)
        ended = False
        while not ended:
            self._writer.write(self._http.data_to_send())
            received = await self._reader.read(_READ_SIZE)
            if not received:
                raise CallFailed(GrpcCode.UNAVAILABLE, "the server hung up")
            for event in self._http.receive_data(received):
                ended |= self._take(event)
        return self._message()

    def _send(self, method: str, request: bytes) -> None:
        """Begin with windows so large that the answer never waits for more."""
        http = self._http
        http.local_settings = h2.settings.Settings(
            initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: _LARGEST_WINDOW}
        )
        http.initiate_connection()
        http.increment_flow_control_window(_LARGEST_WINDOW - _FIRST_WINDOW)
        headers = [
            (":method", "POST"),
            (":scheme", "http"),
            (":path", method),
            # Strict servers refuse a socket's path here.
            (":authority", "localhost"),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]
        http.send_headers(_STREAM, headers)
        http.send_data(_STREAM, _MESSAGE_HEAD.pack(0, len(request)) + request, end_stream=True)

    def _take(self, event: h2.events.Event) -> bool:
        """Take what the server says; tell whether the answer ends with it."""
        match event:
            case h2.events.ResponseReceived() | h2.events.TrailersReceived():
                self._headers.update((bytes(name), bytes(text)) for name, text in event.headers)
            case h2.events.DataReceived():
                self._data += event.data
                if len(self._data) > self._at_most:
                    raise CallFailed(
                        GrpcCode.RESOURCE_EXHAUSTED, f"more than {self._at_most} bytes"
                    )
            case h2.events.StreamReset():
                detail = f"the call was reset, HTTP/2 error {int(event.error_code)}"
                raise CallFailed(GrpcCode.UNAVAILABLE, detail)
            case h2.events.ConnectionTerminated():
                raise CallFailed(GrpcCode.UNAVAILABLE, "the server takes no more calls")
            case h2.events.StreamEnded():
                return True
            case _:
                pass
        return False

    def _message(self) -> bytes:
        if b"grpc-status" not in self._headers:
            status = self._headers.get(b":status", b"none").decode()
            raise CallFailed(GrpcCode.UNKNOWN, f"no gRPC status; that of HTTP is {status}")
        code = GrpcCode(int(self._headers[b"grpc-status"]))
        if code is not GrpcCode.OK:
            raise CallFailed(code, unquote(self._headers.get(b"grpc-message", b"").decode()))
        compressed, length = _MESSAGE_HEAD.unpack_from(self._data)
        message = bytes(self._data[_MESSAGE_HEAD.size :])
        if compressed or len(message) != length:
            raise ValueError("not one plain message")
        return message
