"""Answers plain POST requests without the web framework, which costs more than a short answer.

Plain is what programs send: a known path, and a body whose length is told. Every connection begins
here. With the first request that is not plain, comes slowly or gets no answer here, the connection
is handed over to the framework together with that request, and stays there. So limits, refusals
and their words are the framework's business alone.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from functools import lru_cache
from typing import Final, TypeAlias, cast

_HEAD: Final = re.compile(r"POST (/[\w/-]*) HTTP/1\.1((?:\r\n[\w-]+:[\t -~]*)+)", re.ASCII)
_HEADER: Final = re.compile(r"\r\n([\w-]+):[\t ]*([\t -~]*)", re.ASCII)
_HEAD_END: Final = b"\r\n\r\n"
_MAX_HEAD_BYTES: Final = 8 << 10
_NOT_PLAIN: Final = {"connection", "expect", "origin", "transfer-encoding", "upgrade"}
_LENGTH: Final = re.compile(r"[0-9]{1,9}")

SLOW_SECONDS: Final = 1.0
"""For the rest of a request; the framework allows more."""

Answered: TypeAlias = bytes | Awaitable[bytes] | None
"""JSON, at once or later; ``None`` for no answer."""
Answer: TypeAlias = Callable[[Mapping[str, str], bytes], Answered]
"""Takes headers, by names in lower case, and a body. If it fails, the framework shall say why."""


@dataclass(frozen=True, slots=True)
class Head:
    """The head of a plain request."""

    path: str
    headers: Mapping[str, str]
    length: int


@lru_cache(maxsize=64)
def read_head(data: bytes) -> Head | None:
    """Return the head that is *data* without its end; ``None`` if it is not plain.

    A program sends the same again and again.
    """
    found = _HEAD.fullmatch(data.decode("latin-1"))
    if found is None:
        return None
    pairs = [(name.lower(), value) for name, value in _HEADER.findall(found[2])]
    headers = dict(pairs)
    length = _LENGTH.fullmatch(headers.get("content-length", ""))
    said_once = len(headers) == len(pairs)
    if length is None or not said_once or not _NOT_PLAIN.isdisjoint(headers):
        return None
    return Head(found[1], headers, int(length[0])) if "host" in headers else None


@dataclass(slots=True, kw_only=True)
class PlainPosts:
    """What is answered here, and the connections on which it is.

    Attributes:
        answers: by path.
        hand_over: returns the framework's side of a connection.
        max_body_bytes: longer bodies are handed over.
        first_seconds: how long a connection may be silent at first.
        keep_alive_seconds: how long it may be silent afterwards.
    """

    answers: Mapping[str, Answer]
    hand_over: Callable[[], asyncio.Protocol]
    max_body_bytes: int
    first_seconds: float
    keep_alive_seconds: float
    connections: set[Connection] = field(default_factory=set)

    def connection(self) -> asyncio.Protocol:
        """Return our side of a new connection."""
        return Connection(self)

    async def close(self, seconds: float) -> None:
        """Close all connections; what is being answered has *seconds* to end."""
        busy = [task for one in tuple(self.connections) if (task := one.close()) is not None]
        if busy:
            await asyncio.wait(busy, timeout=seconds)
        for one in tuple(self.connections):
            one.abort()


class Connection(asyncio.Protocol):
    """A connection on which one request after the other is answered."""

    def __init__(self, posts: PlainPosts) -> None:
        self._posts = posts
        self._loop = asyncio.get_running_loop()
        self._pending = b""
        self._has_begun = False
        self._task: asyncio.Task[None] | None = None
        self._is_clogged = False
        self._is_last = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        self._transport = cast("asyncio.Transport", transport)
        self._posts.connections.add(self)
        self._timer = self._loop.call_later(self._posts.first_seconds, self.abort)

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
        answer = self._posts.answers.get(head.path) if head is not None else None
        if head is None or answer is None or head.length > self._posts.max_body_bytes:
            self._hand_over()
            return
        start = end + len(_HEAD_END)
        stop = start + head.length
        if len(self._pending) < stop:
            self._wait_for_more()
            return
        self._timer.cancel()
        try:
            body = answer(head.headers, self._pending[start:stop])
        except Exception:
            body = None
        if body is None or isinstance(body, bytes):
            self._answer(body, stop)
        else:
            self._task = self._loop.create_task(self._answer_later(body, stop))

    async def _answer_later(self, body: Awaitable[bytes], size: int) -> None:
        answered: bytes | None = None
        with suppress(Exception):
            answered = await body
        self._task = None
        if not self._transport.is_closing():
            self._answer(answered, size)

    def _answer(self, body: bytes | None, size: int) -> None:
        """Answer the pending request, which is of *size* bytes."""
        if body is None:
            self._transport.resume_reading()
            self._hand_over()
            return
        self._pending = self._pending[size:]
        self._has_begun = False
        self._timer = self._loop.call_later(self._posts.keep_alive_seconds, self.abort)
        self._transport.write(_head_of(body) + body)
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
        protocol = self._posts.hand_over()
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        protocol.data_received(self._pending)

    def _leave(self) -> None:
        self._timer.cancel()
        self._posts.connections.discard(self)


def _head_of(body: bytes) -> bytes:
    return b"%bContent-Length: %d\r\n\r\n" % (_usual_head(int(time.time())), len(body))


@lru_cache(maxsize=1)
def _usual_head(second: int) -> bytes:
    date = formatdate(second, usegmt=True)
    head = f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nDate: {date}\r\n"
    return head.encode("ascii")
