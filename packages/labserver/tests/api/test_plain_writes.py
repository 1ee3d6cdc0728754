"""Writes over HTTP in every form; a client does not see which part of the server answers."""

from __future__ import annotations

import asyncio
import json
import ssl
from contextlib import asynccontextmanager, closing
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kube_lab_server import ApiServer, FaultKind, FaultRule, Faults
from kube_lab_server.server.http_front import MAX_BODY

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

MERGE = "Content-Type: application/merge-patch+json"
MAPS = "/api/v1/namespaces/default/configmaps"


class Answer(NamedTuple):
    """What a client reads."""

    status: int
    headers: dict[str, str]
    body: Any


class Wire:
    """A connection on which bytes are sent."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    @asynccontextmanager
    async def to(cls, server: ApiServer, tls: ssl.SSLContext | None = None) -> AsyncIterator[Wire]:
        """Connect, and close in the end."""
        host, port = server.url.partition("://")[2].split(":")
        wire = cls(*await asyncio.open_connection(host, int(port), ssl=tls))
        with closing(wire.writer):
            yield wire

    async def answer(self) -> Answer:
        """Return the next answer."""
        text = (await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), 30)).decode()
        first, *lines = text.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
        body = await self.reader.readexactly(int(headers.get("content-length", "0")))
        is_json = headers.get("content-type") == "application/json"
        read = json.loads(body) if is_json else {"message": body.decode()}
        return Answer(int(first.split()[1]), headers, read)

    async def ask(self, data: bytes) -> Answer:
        """Send *data* and return what is answered."""
        self.writer.write(data)
        return await self.answer()


def request(name: str, *headers: str, target: str = MAPS, method: str = "POST") -> bytes:
    """Return a request that creates a config map."""
    body = json.dumps({"metadata": {"name": name}}).encode()
    lines = (
        f"{method} {target} HTTP/1.1",
        "Host: localhost",
        *headers,
        f"Content-Length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def content(answer: Answer) -> tuple[object, ...]:
    """Return what is the same in the answers to the same request."""
    body = answer.body
    shown = body.get("metadata", {}).get("name"), body.get("message"), body.get("reason")
    told = {k: v for k, v in answer.headers.items() if k in ("content-type", "warning")}
    return answer.status, told, shown


@pytest.mark.parametrize(
    "sent",
    [
        request("a"),
        request("a", "Content-Type: application/json", target=f"{MAPS}?dryRun=All"),
        request("a", target=f"{MAPS}?fieldValidation=Never"),
        request("a", target=f"{MAPS}?timeout=soon"),
        request("a", "Content-Type: text/plain"),
        request("a", "Accept: text/plain"),
        request("a", "Authorization: Bearer nobody"),
        request("a", "Impersonate-Uid: 7"),
        request("A"),
        request("a", target="/api/v1/namespaces/default/nothing"),
        request("a", target="/nowhere"),
        request("a", target=f"{MAPS}/a", method="PUT"),
        request("a", target=f"{MAPS}/a", method="DELETE"),
        request("a", MERGE, target=f"{MAPS}/a", method="PATCH"),
    ],
)
async def test_both_ways_give_the_same_answer(sent: bytes) -> None:
    """The second request says that it is the last, which is the framework's business."""
    answers = []
    last = sent.replace(b"Host: localhost", b"Host: localhost\r\nConnection: close", 1)
    for data in (sent, last):
        async with ApiServer() as server, Wire.to(server) as wire:
            answers.append(await wire.ask(data))
    assert content(answers[0]) == content(answers[1])


async def test_a_warning_is_a_header() -> None:
    """Also of an answer that is given at once."""
    body = b'{"metadata":{"name":"a"},"dat":{}}'
    head = f"POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
    async with ApiServer() as server, Wire.to(server) as wire:
        answer = await wire.ask(head.encode() + body)
    assert (answer.status, answer.headers["warning"]) == (201, '299 - "unknown field \\"dat\\""')


async def test_requests_in_any_form_on_one_connection() -> None:
    """Sent at once, in chunks, after a question whether to go on, and a read among them."""
    chunked = (
        f"POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
        '1b\r\n{"metadata":{"name":"in-c"}\r\n1\r\n}\r\n0\r\n\r\n'
    ).encode()
    async with ApiServer() as server, Wire.to(server) as wire:
        wire.writer.write(request("one") + request("two") + request("three"))
        assert [(await wire.answer()).status for _ in range(3)] == [201, 201, 201]
        assert (await wire.ask(request("one"))).body["reason"] == "AlreadyExists"
        assert (await wire.ask(request("asked", "Expect: 100-continue"))).status == 201
        assert (await wire.ask(chunked)).status == 201
        assert (await wire.ask(request("last"))).status == 201
        listed = await wire.ask(f"GET {MAPS} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    names = {item["metadata"]["name"] for item in listed.body["items"]}
    assert names >= {"one", "two", "three", "asked", "in-c", "last"}


async def test_a_body_that_is_too_large_is_refused() -> None:
    """In the words of a real server."""
    head = f"POST {MAPS} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {MAX_BODY + 1}\r\n\r\n"
    async with ApiServer() as server, Wire.to(server) as wire:
        answer = await wire.ask(head.encode() + b" " * (MAX_BODY + 1))
    assert (answer.status, answer.body["reason"]) == (413, "RequestEntityTooLarge")


async def test_a_client_that_sends_no_more_gets_its_answer() -> None:
    """Its request has been done."""
    async with ApiServer() as server, Wire.to(server) as wire:
        wire.writer.write(request("half"))
        wire.writer.write_eof()
        assert (await wire.answer()).status == 201


async def test_writes_over_tls() -> None:
    """As without."""
    async with ApiServer(tls=True) as server:
        assert server.authority is not None
        context = ssl.create_default_context(cadata=server.authority.certificate.decode())
        async with Wire.to(server, context) as wire:
            assert (await wire.ask(request("one"))).status == 201
            assert (await wire.ask(request("two"))).status == 201


async def test_a_write_is_answered_when_it_is_on_disk(tmp_path: Path) -> None:
    """A server that starts again knows it."""
    data = tmp_path / "objects"
    async with ApiServer(data=data) as server, Wire.to(server) as wire:
        assert (await wire.ask(request("kept"))).status == 201
        assert server.state.is_settled()
    async with ApiServer(data=data) as server, Wire.to(server) as wire:
        assert (await wire.ask(request("kept"))).body["reason"] == "AlreadyExists"


async def test_a_fault_strikes_a_connection_that_was_fine() -> None:
    """From the next request on."""
    faults = Faults(Random(1))
    async with ApiServer(faults=faults) as server, Wire.to(server) as wire:
        assert (await wire.ask(request("one"))).status == 201
        faults.add(FaultRule(kind=FaultKind.FAIL, path="configmaps", code=503, times=1))
        assert (await wire.ask(request("two"))).status == 503
        assert (await wire.ask(request("two"))).status == 201
