"""Writes: answers in every form of HTTP, one connection for many, none that is dead."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import ClusterUnreachable
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.kube.connection.credentials import client_context
from numakube.kube.connection.kept_connections import (
    KeptConnections,
    NoConnection,
    NotHttp,
    ResponseReader,
    head_lines,
)
from numakube.kube.connection.transport import Request, Response
from numakube.testing import turns, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from numakube.kube.client import Client

WRITE = Request(method="POST", path="/pods", body=b"{}")
BODY = b"one\r\n\r\ntwo, and a third"

LENGTH = b"HTTP/1.1 201 Created\r\ncontent-length: %d\r\nA:  b \r\n\r\n%s" % (len(BODY), BODY)
EMPTY = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n"
CHUNKS = b"HTTP/1.1 201 Created\r\nA: b\r\nTransfer-Encoding: chunked\r\n\r\n"
PIECES = b"5;x=y\r\n%s\r\n%X\r\n%s\r\n0\r\n" % (BODY[:5], len(BODY) - 5, BODY[5:])
ANNOUNCED = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"


@given(
    st.sampled_from(
        [
            LENGTH,
            CHUNKS + PIECES + b"\r\n",
            CHUNKS + PIECES + b"Trailer: yes\r\nAnother: x\r\n\r\n",
            ANNOUNCED + LENGTH,
        ]
    ),
    st.lists(st.integers(1, 40)),
)
def test_an_answer_is_the_same_however_it_is_cut(answer: bytes, cuts: list[int]) -> None:
    """It is complete with its last byte, and not before."""
    reader, found = ResponseReader(), list[Response]()
    while answer:
        size = cuts.pop() if cuts else 7
        piece, answer = answer[:size], answer[size:]
        response = reader.feed(piece)
        if response is not None:
            assert not answer
            found.append(response)
    (response,) = found
    assert (response.status, response.body) == (201, BODY)
    assert response.headers["a"] == "b"
    assert reader.keeps_connection


def test_an_answer_without_a_length_lasts_until_the_end() -> None:
    """Such an answer is the last of its connection; others cannot end early."""
    reader = ResponseReader()
    assert reader.feed(b"HTTP/1.1 500 Oops\r\n\r\nall of") is None
    assert reader.feed(b" it") is None
    response = reader.end()
    assert response is not None
    assert (response.status, response.body) == (500, b"all of it")
    for early in (LENGTH[:-1], CHUNKS + PIECES, b"", b"HTTP/1.1 2"):
        reader = ResponseReader()
        assert reader.feed(early) is None
        assert reader.end() is None


def test_an_answer_may_have_no_body() -> None:
    """By its status."""
    response = ResponseReader().feed(b"HTTP/1.1 204 No Content\r\nA: b\r\n\r\n")
    assert response is not None
    assert response.body == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nnonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1, 1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 5\r\n\r\nabcde",
        b"HTTP/1.1 200 OK\r\nContent-Length : 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\n" * 20000,
        CHUNKS + b"5\r\nabcdeXX0\r\n\r\n",
        CHUNKS + b"0x5\r\nabcde\r\n0\r\n\r\n",
        CHUNKS + b"5_0\r\n",
        CHUNKS + b"fffffffff\r\n",
        CHUNKS + b"0\r\n" + b"A: b\r\n" * 20000,
        CHUNKS + b"xyz\r\n",
        CHUNKS + b"1" * 2000,
        b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20000,
    ],
)
def test_what_is_no_answer_is_refused(answer: bytes) -> None:
    """Instead of being waited for."""
    with pytest.raises(NotHttp):
        ResponseReader().feed(answer)


@pytest.mark.parametrize(
    ("answer", "status", "kept"),
    [
        (EMPTY + b"\r\n", 200, True),
        (EMPTY + b"Connection: Keep-Alive\r\n\r\n", 200, True),
        (EMPTY + b"Connection: keep-alive, Close\r\n\r\n", 200, False),
        (EMPTY + b"Connection: a\r\nConnection: close\r\n\r\n", 200, False),
        (EMPTY.replace(b"1.1 200", b"1.0 503") + b"\r\n", 503, False),
        (CHUNKS.replace(b"A: b", b"Content-Length: 3") + b"0\r\n\r\n", 201, False),
        (CHUNKS + b"0;x=y\r\nTrailer: x\r\n\r\n", 201, True),
    ],
)
def test_a_connection_is_kept_unless_the_answer_may_be_its_last(
    answer: bytes, status: int, kept: bool
) -> None:
    """A request on one that the server closes could have arrived, or not; nobody could tell."""
    reader = ResponseReader()
    response = reader.feed(answer)
    assert response is not None
    assert (response.status, reader.keeps_connection) == (status, kept)


@pytest.mark.parametrize("value", ["a\r\nB: c", "a\nB: c", "a\0b"])
def test_a_header_cannot_bring_others(value: str) -> None:
    """Tokens and names come from elsewhere."""
    with pytest.raises(ValueError, match="control characters"):
        head_lines([("Authorization", value)])


class Peer:
    """A server that answers every request on a connection with the same bytes."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.heads: list[bytes] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer until the client leaves."""
        self.writers.append(writer)
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                await reader.readexactly(len(WRITE.body or b""))
                writer.write(self.answer)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()


@asynccontextmanager
async def talking(peer: Peer) -> AsyncIterator[Client]:
    """Give a client of *peer*."""
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, connect(ClusterConfig(server=f"http://127.0.0.1:{port}/base")) as client:
        yield client
    for writer in peer.writers:
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def test_requests_share_a_connection_and_say_what_they_bring() -> None:
    """With the path of the server before their own."""
    peer = Peer(LENGTH)
    async with talking(peer) as client:
        for _ in range(5):
            assert (await client.request(WRITE)).body == BODY
    assert len(peer.writers) == 1
    first, *headers = peer.heads[-1].decode().rstrip().split("\r\n")
    assert first == "POST /base/pods HTTP/1.1"
    assert {"Content-Length: 2", "Accept: application/json", "User-Agent: numakube"} <= {*headers}


async def test_requests_at_the_same_time_have_connections_of_their_own() -> None:
    """No answer goes to another's request."""
    peer = Peer(LENGTH)
    async with talking(peer) as client:
        answers = await asyncio.gather(*(client.request(WRITE) for _ in range(8)))
        assert [answer.body for answer in answers] == [BODY] * 8
        assert 1 < len(peer.writers) <= 8


@pytest.mark.parametrize(
    "answer",
    [LENGTH.replace(b"A:  b", b"Connection: close"), LENGTH + b"more than was asked for"],
    ids=["last", "too much"],
)
async def test_a_connection_that_cannot_be_used_again_is_not(answer: bytes) -> None:
    """Because the server says so, or says more than it was asked."""
    peer = Peer(answer)
    async with talking(peer) as client:
        for _ in range(2):
            assert (await client.request(WRITE)).status == 201
    assert len(peer.writers) == 2


async def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    """A write is not lost because nothing was written for a while."""
    peer = Peer(LENGTH)
    async with talking(peer) as client:
        await client.request(WRITE)
        (writer,) = peer.writers
        writer.close()
        await writer.wait_closed()
        await turns()
        assert (await client.request(WRITE)).status == 201


async def test_a_write_whose_answer_breaks_off_may_have_been_carried_out() -> None:
    """It is not sent again by itself."""
    peer = Peer(LENGTH[:-1])
    async with talking(peer) as client:
        asking = asyncio.create_task(client.request(WRITE))
        await until(lambda: bool(peer.heads))
        peer.writers[0].close()
        with pytest.raises(ClusterUnreachable, match="closed the connection") as caught:
            await asking
        assert caught.value.sent
    assert len(peer.heads) == 1


async def test_no_answer_goes_to_a_request_after_one_that_was_given_up() -> None:
    """Its connection is closed with it."""
    peer = Peer(b"")
    async with talking(peer) as client:
        asking = asyncio.create_task(client.request(WRITE))
        await until(lambda: bool(peer.heads))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        peer.answer = LENGTH
        assert (await client.request(WRITE)).status == 201
    assert len(peer.writers) == 2


async def test_a_request_under_way_when_the_client_is_closed_leaves_no_connection() -> None:
    """It has its answer all the same."""
    peer = Peer(b"")
    async with talking(peer) as client:
        asking = asyncio.create_task(client.request(WRITE))
        await until(lambda: bool(peer.heads))
        await client.aclose()
        peer.writers[0].write(LENGTH)
        assert (await asking).status == 201
        await until(peer.writers[0].is_closing)


async def test_a_connection_with_credentials_that_were_replaced_meanwhile_is_not_kept() -> None:
    """What was asked under the old ones has its answer; nothing more is asked under them."""
    peer = Peer(b"")
    server = await asyncio.start_server(peer.serve, "127.0.0.1", 0)
    kept = KeptConnections(*server.sockets[0].getsockname()[:2], limit=4)
    data = b"POST / HTTP/1.1\r\n\r\n" + (WRITE.body or b"")
    plain = partial(kept.exchange, data, tls=None, connect_seconds=None, timeout_seconds=None)
    async with server:
        asking = asyncio.create_task(plain())
        await until(lambda: bool(peer.heads))
        with pytest.raises(NoConnection):
            # The peer speaks no TLS; but from now on the connections are to be those of it.
            await kept.exchange(
                data, tls=client_context(authority=None), connect_seconds=0.01, timeout_seconds=None
            )
        peer.writers[0].write(LENGTH)
        assert (await asking).status == 201
        await until(peer.writers[0].is_closing)
        kept.close()


async def test_what_nobody_asked_for_ends_a_connection() -> None:
    """It would be taken for the answer to the next request."""
    peer = Peer(LENGTH)
    async with talking(peer) as client:
        await client.request(WRITE)
        peer.writers[0].write(LENGTH.replace(b"201", b"500"))
        await until(lambda: peer.writers[0].is_closing())
        assert (await client.request(WRITE)).status == 201
    assert len(peer.writers) == 2
