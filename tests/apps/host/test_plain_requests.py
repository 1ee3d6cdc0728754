"""Plain requests: answered at once, or left to the web framework."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest
from aiohttp import web

from numakube.apps.host.http_serving import Health, Listen, Serving, body_of
from numakube.apps.host.process_life import new_registry
from numakube.http import Answered, Head, response_of
from numakube.http.plain_requests import read_head
from numakube.testing import until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HEAD = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"
WHOLE = HEAD + b"Content-Length: 2\r\n\r\n"


class Echo:
    """Answers with the body; waits for *may_end* if the body is ``wa``."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.waiting = 0

    def plainly(self, head: Head, body: bytes) -> Answered:
        """Answer a plain request; ``no`` gets no answer, and ``ba`` and ``ad`` are too hard."""
        if body == b"ba":
            raise ValueError(head.headers["host"])
        if body in (b"wa", b"ad"):
            return self.later(body)
        return None if body == b"no" else response_of(b"plain " + body)

    async def later(self, body: bytes) -> bytes:
        """Answer when the time has come."""
        if body == b"ad":
            raise ValueError(body)
        self.waiting += 1
        await self.may_end.wait()
        return response_of(b"plain " + body)

    async def framed(self, request: web.Request) -> web.Response:
        """Answer any other."""
        return web.Response(body=b"framed " + await body_of(request, seconds=1.0))

    def server(self, *, keep_alive_seconds: float = 75.0, head_seconds: float = 10.0) -> Serving:
        """Return a server that echoes."""
        return Serving(
            Listen(),
            health=Health(),
            registry=new_registry("test"),
            routes=[web.post("/echo", self.framed), web.post("/other", self.framed)],
            posts={"/echo": self.plainly},
            max_body_bytes=1000,
            keep_alive_seconds=keep_alive_seconds,
            head_seconds=head_seconds,
        )


class Caller:
    """A connection to a server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def to(cls, server: Serving) -> AsyncIterator[Caller]:
        """Connect, and close in the end."""
        host, port = server.url.removeprefix("http://").split(":")
        caller = cls(*await asyncio.open_connection(host, int(port)))
        yield caller
        caller.writer.close()

    async def answer(self) -> tuple[int, bytes]:
        """Return status and body of the next answer."""
        head = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)).lower()
        length = int(head.partition(b"content-length: ")[2].split(b"\r\n")[0])
        return int(head.split()[1]), await self.reader.readexactly(length)

    async def ask(self, data: bytes) -> tuple[int, bytes]:
        """Send *data* and return what is answered."""
        self.writer.write(data)
        return await self.answer()


async def test_plain_requests_are_answered_on_one_connection() -> None:
    """One after the other, and also if they are sent at once."""
    async with Echo().server() as server, Caller.to(server) as caller:
        assert await caller.ask(WHOLE + b"hi") == (200, b"plain hi")
        assert await caller.ask(WHOLE + b"ho") == (200, b"plain ho")
        assert await caller.ask(WHOLE + b"12" + WHOLE + b"34" + WHOLE) == (200, b"plain 12")
        assert await caller.answer() == (200, b"plain 34")
        assert await caller.ask(b"56") == (200, b"plain 56")


@pytest.mark.parametrize(
    ("sent", "status", "body"),
    [
        (WHOLE + b"no", 200, b"framed no"),
        (WHOLE + b"ba", 200, b"framed ba"),
        (WHOLE + b"ad", 200, b"framed ad"),
        (HEAD + b"Content-Length: 1\r\nConnection: close\r\n\r\na", 200, b"framed a"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nb\r\n0\r\n\r\n", 200, b"framed b"),
        (
            b"POST /other HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nc",
            200,
            b"framed c",
        ),
        (b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", 200, b"ok"),
        (HEAD + b"Content-Length: 1001\r\n\r\n", 413, b"Maximum request body size"),
        (WHOLE + b"d", 408, b"the request came too slowly"),
        (HEAD + b"Origin: http://y\r\nContent-Length: 1\r\n\r\ne", 403, b"pages of other sites"),
        (HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nff", 400, b""),
        (b"\xff\xfe\x00 HTTP\r\n\r\n", 400, b""),
    ],
    ids=[
        *("not answered", "at once too hard", "later too hard"),
        *("the last", "in chunks", "another path", "not a POST"),
        *("too long", "too slow", "from a page", "of two lengths", "not HTTP"),
    ],
)
async def test_any_other_request_is_left_to_the_framework(
    sent: bytes, status: int, body: bytes
) -> None:
    """Also on a connection with plain requests before it."""
    async with Echo().server() as server, Caller.to(server) as caller:
        assert await caller.ask(WHOLE + b"hi") == (200, b"plain hi")
        found, said = await caller.ask(sent)
        assert (found, said[: len(body)]) == (status, body)


async def test_a_silent_connection_is_closed() -> None:
    """At first and between requests, each after its time."""
    async with Echo().server(head_seconds=0.1) as server, Caller.to(server) as caller:
        assert await asyncio.wait_for(caller.reader.read(), 30) == b""
    async with Echo().server(keep_alive_seconds=0.1) as server, Caller.to(server) as caller:
        assert await caller.ask(WHOLE + b"hi") == (200, b"plain hi")
        assert await asyncio.wait_for(caller.reader.read(), 30) == b""


async def test_a_server_that_ends_finishes_its_answer() -> None:
    """A client must not take for failed what was done; those who ask nothing are not waited for."""
    echo, stop = Echo(), asyncio.Event()
    serving = echo.server()

    async def serve() -> None:
        async with serving:
            await stop.wait()

    running = asyncio.create_task(serve())
    await until(lambda: not serving.url.endswith(":0"))
    async with Caller.to(serving) as busy, Caller.to(serving) as idle:
        busy.writer.write(WHOLE + b"wa")
        await until(lambda: echo.waiting)
        stop.set()
        assert await idle.reader.read() == b""
        echo.may_end.set()
        assert await busy.answer() == (200, b"plain wa")
    await running


async def test_who_takes_no_answers_gets_no_more() -> None:
    """Else a client could fill the memory of a server by asking."""
    answered = 0

    def much(head: Head, body: bytes) -> bytes:
        nonlocal answered
        del head, body
        answered += 1
        return response_of(b" " * (1 << 20))

    serving = Serving(
        Listen(), health=Health(), registry=new_registry("test"), posts={"/echo": much}
    )
    async with serving as server, Caller.to(server) as caller, Caller.to(server) as other:
        caller.writer.write((WHOLE + b"hi") * 100)
        for _ in range(3):
            assert (await other.ask(WHOLE + b"hi"))[0] == 200
        assert answered < 50
        for _ in range(100):
            assert (await caller.answer())[0] == 200


@pytest.mark.parametrize(
    "head",
    [
        b"POST /echo HTTP/1.0\r\nHost: localhost\r\nContent-Length: 2",
        b"GET /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2",
        b"POST echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2",
        b"POST /a/../echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2",
        b"POST /a//echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2",
        b"POST /ech%6f HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2",
        b"POST /echo?a=%62 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2",
        b"POST /echo?a=b+c HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2",
        b"POST /echo?a=b;c=d HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nContent-Encoding: gzip",
        b"POST /echo HTTP/1.1\r\nContent-Length: 2",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: +2",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n folded",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length : 2",
        b"POST /echo HTTP/1.1\r\nHost: x\nA: b\r\nContent-Length: 2",
        b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue",
    ],
)
def test_heads_that_are_not_plain(head: bytes) -> None:
    """Whatever could be read in two ways is not read here."""
    assert read_head(head) is None


def test_a_plain_head_is_taken_apart() -> None:
    """Names of headers are found in any case, and values stand without spaces around them."""
    head = read_head(
        b"PATCH /apis/a.b/v1/x?dryRun=All&force= HTTP/1.1\r\nhost: x\r\nACCEPT:\ta/b; q=1 \r\n"
        b"Content-Length: 12"
    )
    assert head is not None
    assert (head.method, head.path, head.query) == ("PATCH", "/apis/a.b/v1/x", "dryRun=All&force=")
    assert (head.headers["Accept"], head.length) == ("a/b; q=1", 12)
