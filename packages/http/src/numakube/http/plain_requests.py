"""Answers plain requests without the web framework, which costs more than a short answer.

Plain is what programs send to change something: a target of letters that need no quoting, and a
body whose length is told. Every connection begins here. With the first request that is not plain,
comes slowly or gets no answer here, the connection is handed over to the framework together with
that request, and stays there. So limits of HTTP, and the words of refusals for them, are the
framework's business alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from http.client import responses
from typing import Final, NamedTuple, TypeAlias, cast
from urllib.parse import urlsplit

from multidict import CIMultiDict, CIMultiDictProxy

from numakube.values.hosts import is_loopback

_LINE: Final = re.compile(
    rb"(POST|PUT|PATCH|DELETE) ((?:/[\w-][\w.-]*)+)(?:\?(\w+=[\w.-]*(?:&\w+=[\w.-]*)*))? HTTP/1\.1"
)
_HEADERS: Final = re.compile(r"(?:\r\n[\w-]+:[\t -~]*)+", re.ASCII)
_HEADER: Final = re.compile(r"\r\n([\w-]+):[\t ]*([\t -~]*)", re.ASCII)
_LINE_END: Final = b"\r\n"
_HEAD_END: Final = b"\r\n\r\n"
_MAX_HEAD_BYTES: Final = 8 << 10
_NOT_PLAIN: Final = frozenset(
    ("connection", "content-encoding", "expect", "origin", "transfer-encoding", "upgrade")
)
_LENGTH: Final = re.compile(r"[0-9]{1,9}")

JSON_HEADER: Final = "Content-Type: application/json\r\n"
SLOW_SECONDS: Final = 1.0
"""For the rest of a request; the framework allows more."""

Answered: TypeAlias = bytes | Awaitable[bytes] | None
"""A response with its head, at once or later; ``None`` for no answer."""
Answer: TypeAlias = Callable[["Head", bytes], Answered]
"""Takes a request with its body. If it fails, the framework shall say why."""


class Head(NamedTuple):
    """The head of a plain request; nothing in *path* and *query* is quoted."""

    method: str
    path: str
    query: str
    headers: CIMultiDictProxy[str]
    length: int


def read_head(data: bytes) -> Head | None:
    """Return the head that is *data* without its end; ``None`` if it is not plain."""
    end = data.find(_LINE_END)
    line = _LINE.fullmatch(data, 0, end) if end >= 0 else None
    headers = _read_headers(data[end:]) if line is not None else None
    if line is None or headers is None:
        return None
    method, path, query = line.groups(b"")
    length = int(headers["Content-Length"])
    return Head(method.decode(), path.decode(), query.decode(), headers, length)


@lru_cache(maxsize=256)
def _read_headers(data: bytes) -> CIMultiDictProxy[str] | None:
    """Return the headers in *data*; a program sends the same again and again."""
    text = data.decode("latin-1")
    if _HEADERS.fullmatch(text) is None:
        return None
    pairs = [(name.lower(), value.rstrip()) for name, value in _HEADER.findall(text)]
    headers = dict(pairs)
    length = _LENGTH.fullmatch(headers.get("content-length", ""))
    said_once = len(headers) == len(pairs)
    if length is None or not said_once or not _NOT_PLAIN.isdisjoint(headers):
        return None
    return CIMultiDictProxy(CIMultiDict(headers)) if "host" in headers else None


@lru_cache(maxsize=256)
def names_this_machine(host: str) -> bool:
    """Tell whether *host*, the header of a request, is a name of loopback, or empty."""
    try:
        return not host or is_loopback(urlsplit(f"//{host}").hostname or "")
    except ValueError:
        return False


@dataclass(slots=True, kw_only=True)
class PlainRequests:
    """What is answered here, and the connections on which it is.

    Attributes:
        find: returns what answers a request; ``None`` if the framework does.
        hand_over: returns the framework's side of a connection.
        max_body_bytes: longer bodies are handed over.
        first_seconds: how long a connection may be silent at first.
        keep_alive_seconds: how long it may be silent afterwards.
    """

    find: Callable[[Head], Answer | None]
    hand_over: Callable[[], asyncio.Protocol]
    max_body_bytes: int
    first_seconds: float
    keep_alive_seconds: float
    connections: set[PlainConnection] = field(default_factory=set)

    def connection(self) -> asyncio.Protocol:
        """Return our side of a new connection."""
        return PlainConnection(self)

    async def close(self, seconds: float) -> None:
        """Close all connections; what is being answered has *seconds* to end."""
        busy = [
            task
            for connection in tuple(self.connections)
            if (task := connection.close()) is not None
        ]
        if busy:
            await asyncio.wait(busy, timeout=seconds)
        for connection in tuple(self.connections):
            connection.abort()


class PlainConnection(asyncio.Protocol):
    """A connection on which one request after the other is answered."""

    def __init__(self, requests: PlainRequests) -> None:
        self._requests = requests
        self._loop = asyncio.get_running_loop()
        self._pending = b""
        self._has_begun = False
        self._task: asyncio.Task[None] | None = None
        self._is_clogged = False
        self._is_last = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._requests.connections.add(self)
        self._timer = self._loop.call_later(self._requests.first_seconds, self.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection; what is being answered is done all the same."""
        del exc
        self._leave()

    def data_received(self, data: bytes) -> None:
        """Answer a request that is whole."""
        self._pending = self._pending + data if self._pending else data
        if self._task is None and not self._is_clogged:
            self._next()
        else:
            # It came before the last answer was taken, and must not fill our memory.
            self._transport.pause_reading()

    def pause_writing(self) -> None:
        """Answer nothing more until the client takes what was answered."""
        self._is_clogged = True

    def resume_writing(self) -> None:
        """Answer the next request."""
        self._is_clogged = False
        if self._task is None and self._pending:
            self._go_on()

    def close(self) -> asyncio.Task[None] | None:
        """Close the connection after the answer that is under way, which is returned."""
        self._is_last = True
        if self._task is None:
            self._transport.close()
        return self._task

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def _next(self) -> None:
        """Answer the request that has come, wait for the rest of it, or hand it over."""
        end = self._pending.find(_HEAD_END)
        if end < 0 and len(self._pending) <= _MAX_HEAD_BYTES:
            self._wait_for_more()
            return
        head = read_head(self._pending[:end]) if end >= 0 else None
        answer = self._requests.find(head) if head is not None else None
        if head is None or answer is None or head.length > self._requests.max_body_bytes:
            self._hand_over()
            return
        start = end + len(_HEAD_END)
        stop = start + head.length
        if len(self._pending) < stop:
            self._wait_for_more()
            return
        self._timer.cancel()
        try:
            response = answer(head, self._pending[start:stop])
        except Exception:
            # The web framework answers then: it fails in the same way, and says so in the log.
            response = None
        if response is None or isinstance(response, bytes):
            self._answer(response, stop)
        else:
            self._task = self._loop.create_task(self._answer_later(response, stop))

    async def _answer_later(self, response: Awaitable[bytes], size: int) -> None:
        answered: bytes | None = None
        with suppress(Exception):
            answered = await response
        self._task = None
        if not self._transport.is_closing():
            self._answer(answered, size)

    def _answer(self, response: bytes | None, size: int) -> None:
        """Answer the pending request, which is of *size* bytes."""
        if response is None:
            self._transport.resume_reading()
            self._hand_over()
            return
        self._pending = self._pending[size:]
        self._has_begun = False
        self._timer = self._loop.call_later(self._requests.keep_alive_seconds, self.abort)
        self._transport.write(response)
        if self._is_last:
            self._transport.close()
        elif self._pending and not self._is_clogged:
            self._go_on()

    def _go_on(self) -> None:
        """Answer the request that came before the last answer was taken."""
        self._transport.resume_reading()
        self._next()

    def _wait_for_more(self) -> None:
        if not self._has_begun:
            self._has_begun = True
            self._timer.cancel()
            self._timer = self._loop.call_later(SLOW_SECONDS, self._hand_over)

    def _hand_over(self) -> None:
        """Let the framework have the connection, from the request that is pending."""
        self._leave()
        protocol = self._requests.hand_over()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._pending)

    def _leave(self) -> None:
        self._timer.cancel()
        self._requests.connections.discard(self)


def response_of(body: bytes, *, status: int = 200, headers: str = JSON_HEADER) -> bytes:
    """Return the response with *body*; each of *headers* has an end of line."""
    date = _date_header(int(time.time()))
    head = f"HTTP/1.1 {status} {responses.get(status, '')}\r\n{headers}{date}"
    return b"%bContent-Length: %d\r\n\r\n%b" % (head.encode("latin-1"), len(body), body)


@lru_cache(maxsize=1)
def _date_header(second: int) -> str:
    return f"Date: {formatdate(second, usegmt=True)}\r\n"
