"""Writes over HTTP/1.1 connections that are kept, for a tenth of what aiohttp spends on each.

A scheduler at full speed sends two to four small requests for each pod, and aiohttp takes 0.1 ms of
CPU for one. This is the part of HTTP that such a request needs: one request at a time on each
connection, with a body of known length, and an answer with a length, in chunks, or up to the end of
the connection (RFC 9112). Lists, streams and proxies are left to aiohttp.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from typing import TYPE_CHECKING, Final, cast

from multidict import CIMultiDict

from numakube.errors import NumakubeError
from numakube.kube.connection.transport import Response

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable

IDLE_SECONDS: Final = 15.0
"""How long a connection is kept without a request; servers keep theirs longer."""

_MAX_HEAD_BYTES: Final = 64 * 1024
"""Length of the head, of what comes before it (answers that announce another), and of trailers."""
_MAX_BODY_BYTES: Final = 64 << 20
"""No answer to a write is longer; an object has at most some 3 MiB."""
_MAX_SIZE_BYTES: Final = 1024
"""Length of a line that tells the size of a chunk; its extensions are skipped."""
_HEAD_END: Final = b"\r\n\r\n"
_STATUS_LINE: Final = re.compile(r"HTTP/1\.([01]) ([1-9][0-9]{2})(?: .*)?")
_HEADER: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*(.*?)[ \t]*")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")
_CHUNK_SIZE: Final = re.compile(r"([0-9A-Fa-f]{1,16})[ \t]*(?:;.*)?")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_FINAL: Final = 200
"""The lowest status of an answer; those below announce another."""
_NO_BODY: Final = (204, 304)


class NoConnection(NumakubeError):
    """There is no connection; its cause tells why."""


class NotHttp(NumakubeError, OSError):
    """The server's answer cannot be read."""


def head_lines(headers: Iterable[tuple[str, str]]) -> bytes:
    """Return *headers* as they are sent.

    Raises:
        ValueError: one of them has a line break or another control character.
    """
    lines = [f"{name}: {value}" for name, value in headers]
    for line in lines:
        check_line(line)
    return "".join(f"{line}\r\n" for line in lines).encode("latin-1")


def check_line(line: str) -> None:
    """Make sure that *line* is one line: values from outside must not add header lines."""
    if _CONTROL.search(line):
        raise ValueError(f"{line.partition(':')[0]!r} has control characters")


class ResponseReader:
    """Reads one answer from bytes as they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._at = 0
        self._status = 0
        self._headers: CIMultiDict[str] = CIMultiDict()
        self._length: int | None = None
        self._chunked = False
        self._is_last = False
        self._body = bytearray()

    @property
    def keeps_connection(self) -> bool:
        """Whether another request may follow: nothing came after the answer, nor is it the last."""
        return not self._is_last and self._at == len(self._buffer)

    def feed(self, data: bytes) -> Response | None:
        """Return the answer as soon as *data* completes it.

        Raises:
            NotHttp: this is no answer.
        """
        self._buffer += data
        while not self._status:
            if not self._read_head():
                return None
        if self._chunked:
            return self._response(self._body) if self._read_chunks() else None
        _limit(self._length or len(self._buffer) - self._at)
        if self._length is None or len(self._buffer) - self._at < self._length:
            return None
        start, self._at = self._at, self._at + self._length
        return self._response(self._buffer[start : self._at])

    def end(self) -> Response | None:
        """Return the answer if it lasts until the server closes the connection."""
        whole = self._status and self._length is None and not self._chunked
        return self._response(self._buffer[self._at :]) if whole else None

    def _response(self, body: bytearray) -> Response:
        return Response(self._status, self._headers, body)

    def _read_head(self) -> bool:
        end = self._buffer.find(_HEAD_END, self._at)
        if (len(self._buffer) if end < 0 else end) > _MAX_HEAD_BYTES:
            raise NotHttp("the server's headers do not end")
        if end < 0:
            return False
        first, *lines = self._buffer[self._at : end].decode("latin-1").split("\r\n")
        self._at = end + len(_HEAD_END)
        matched = _STATUS_LINE.fullmatch(first)
        if matched is None:
            raise NotHttp(f"the server answers {first[:60]!r}, which is not HTTP/1.1")
        status = int(matched[2])
        if status >= _FINAL:
            self._take_headers(status, lines)
            # An old proxy speaks 1.0, and closes its connections.
            words = ",".join(self._headers.getall("Connection", ())).lower().split(",")
            self._is_last |= matched[1] == "0" or "close" in {word.strip() for word in words}
        return True

    def _take_headers(self, status: int, lines: list[str]) -> None:
        self._status = status
        for line in lines:
            matched = _HEADER.fullmatch(line)
            if matched is None:
                raise NotHttp(f"the server sends {line[:60]!r} as a header")
            self._headers.add(matched[1], matched[2])
        lengths = self._headers.getall("Content-Length", ())
        if status in _NO_BODY:
            self._length = 0
        elif "Transfer-Encoding" in self._headers:
            if ",".join(self._headers.getall("Transfer-Encoding")).lower() != "chunked":
                raise NotHttp("the server sends its answer in a way that was not asked for")
            self._chunked = True
            # With a length beside it, somebody on the way may take the end for another place.
            self._is_last = bool(lengths)
        elif lengths:
            self._length = _length(",".join(lengths))

    def _read_chunks(self) -> bool:
        """Move whole chunks into the body; tell whether the last one has come."""
        while True:
            end = self._buffer.find(b"\r\n", self._at)
            if end < 0:
                if len(self._buffer) - self._at > _MAX_SIZE_BYTES:
                    raise NotHttp("the server sends a chunk without its size")
                return False
            size = _chunk_size(self._buffer[self._at : end].decode("latin-1"))
            if not size:
                return self._read_trailer(end)
            start, stop = end + 2, end + 2 + size
            _limit(len(self._body) + size)
            if len(self._buffer) < stop + 2:
                return False
            if not self._buffer.startswith(b"\r\n", stop):
                raise NotHttp("the server sends a chunk of another size than it says")
            self._body += self._buffer[start:stop]
            self._at = stop + 2

    def _read_trailer(self, end: int) -> bool:
        """Skip what follows the last chunk, up to an empty line."""
        stop = self._buffer.find(_HEAD_END, end)
        if (len(self._buffer) if stop < 0 else stop) - end > _MAX_HEAD_BYTES:
            raise NotHttp("the server's trailers do not end")
        if stop >= 0:
            self._at = stop + len(_HEAD_END)
        return stop >= 0


def _limit(size: int) -> None:
    if size > _MAX_BODY_BYTES:
        raise NotHttp(f"the server's answer is longer than {_MAX_BODY_BYTES} bytes")


def _length(text: str) -> int:
    if _LENGTH.fullmatch(text) is None:
        raise NotHttp(f"the server gives {text[:20]!r} as a length")
    return int(text)


def _chunk_size(line: str) -> int:
    matched = _CHUNK_SIZE.fullmatch(line)
    if matched is None:
        raise NotHttp(f"the server gives {line[:20]!r} as a length")
    return int(matched[1], 16)


class _Connection(asyncio.Protocol):
    """A connection with at most one request under way."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.used_at = 0.0
        self._loop = loop
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._answer: asyncio.Future[Response] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a request can be sent."""
        return self._transport is not None and not self._transport.is_closing()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Read on; data without a request ends the connection."""
        if self._answer is None or self._answer.done():
            self.close()
            return
        try:
            response = self._reader.feed(data)
        except NotHttp as error:
            self._answer.set_exception(error)
            self.close()
            return
        if response is not None:
            self._answer.set_result(response)

    def connection_lost(self, exc: Exception | None) -> None:
        """Give what has come, if that is all, or the reason why nothing will."""
        self._transport = None
        if self._answer is None or self._answer.done():
            return
        whole = self._reader.end() if exc is None else None
        if whole is not None:
            self._answer.set_result(whole)
        else:
            lost = ConnectionResetError("the server closed the connection")
            self._answer.set_exception(exc or lost)

    def close(self) -> None:
        """Send and receive nothing more."""
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, data: bytes, timeout_seconds: float | None) -> Response:
        """Send *data* and return the answer; a connection that is not at its end stays open."""
        if self._transport is None:
            raise ConnectionResetError("the server closed the connection")
        answer: asyncio.Future[Response] = self._loop.create_future()
        self._answer = answer
        self._reader = ResponseReader()
        timer = None
        if timeout_seconds is not None:
            timer = self._loop.call_later(timeout_seconds, _expire, answer)
        kept = False
        try:
            self._transport.write(data)
            response = await answer
            kept = self._reader.keeps_connection
            return response
        finally:
            if timer is not None:
                timer.cancel()
            if not kept:
                self.close()


def _expire(answer: asyncio.Future[Response]) -> None:
    if not answer.done():
        answer.set_exception(TimeoutError())


class KeptConnections:
    """Connections to one server; those with another TLS context are of no use and are dropped."""

    def __init__(self, host: str, port: int, *, server_name: str = "", limit: int) -> None:
        self._address = host, port
        self._server_name = server_name
        self._free = asyncio.Semaphore(limit)
        self._idle: deque[_Connection] = deque()
        self._tls: ssl.SSLContext | None = None
        self._ended = False

    async def exchange(
        self,
        data: bytes,
        *,
        tls: ssl.SSLContext | None,
        connect_seconds: float | None,
        timeout_seconds: float | None,
    ) -> Response:
        """Return the answer to the request *data*.

        Raises:
            NoConnection: nothing was sent; its cause tells why.
            TimeoutError: there was no answer in time.
            OSError: the connection broke, or what came is no answer.
        """
        async with self._free:
            connection = self._kept(tls)
            if connection is None:
                connection = await self._connect(tls, connect_seconds)
            response = await connection.exchange(data, timeout_seconds)
        if self._ended or tls is not self._tls:
            connection.close()
        elif connection.is_open:
            connection.used_at = asyncio.get_running_loop().time()
            self._idle.append(connection)
        return response

    def close(self) -> None:
        """Close those that are not in use, and the others as soon as they have their answer."""
        self._ended = True
        self._close_idle()

    def _close_idle(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _kept(self, tls: ssl.SSLContext | None) -> _Connection | None:
        """Return the connection that was used last; what has been idle for long is closed."""
        if tls is not self._tls:
            self._close_idle()
            self._tls = tls
        oldest = asyncio.get_running_loop().time() - IDLE_SECONDS
        while self._idle and self._idle[0].used_at < oldest:
            self._idle.popleft().close()
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    async def _connect(self, tls: ssl.SSLContext | None, seconds: float | None) -> _Connection:
        loop = asyncio.get_running_loop()
        host, port = self._address
        name = (self._server_name or host) if tls is not None else None
        try:
            async with asyncio.timeout(seconds):
                _, connection = await loop.create_connection(
                    lambda: _Connection(loop), host, port, ssl=tls, server_hostname=name
                )
        except (OSError, TimeoutError) as error:
            raise NoConnection from error
        return connection
