"""Health and metrics of every process."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from kube_lab_server import Authority
from numakube.apps.host.http_serving import (
    Health,
    Listen,
    Serving,
    TlsFiles,
    body_of,
    parse_address,
)
from numakube.apps.host.process_life import new_registry
from numakube.errors import ConfigError
from numakube.http import response_of


@pytest.fixture
def health() -> Health:
    """Nothing is examined yet."""
    return Health()


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    """A client."""
    async with aiohttp.ClientSession() as session:
        yield session


async def hello(_: web.Request) -> web.Response:
    """Answer."""
    return web.Response(text="hello")


def serving(health: Health, listen: Listen | None = None) -> Serving:
    """A server with a route of its own."""
    return Serving(
        listen or Listen(),
        health=health,
        registry=new_registry("test"),
        routes=[web.get("/hello", hello)],
    )


async def get(session: aiohttp.ClientSession, url: str) -> tuple[int, str]:
    """Return status and text of an answer."""
    async with session.get(url) as response:
        return response.status, await response.text()


async def test_what_nothing_speaks_against_is_alive_and_ready(
    health: Health, session: aiohttp.ClientSession
) -> None:
    """Also under the name that NFD's agent answers to."""
    async with serving(health) as server:
        for path in ("/livez", "/readyz", "/healthz"):
            assert await get(session, server.url + path) == (200, "ok")


async def test_a_process_that_is_not_ready_says_why(
    health: Health, session: aiohttp.ClientSession
) -> None:
    """And is alive nevertheless, so that nobody restarts it."""
    health.live("loop", lambda: "")
    health.ready("kubelet", lambda: "does not answer")
    async with serving(health) as server:
        assert await get(session, f"{server.url}/livez") == (200, "ok")
        assert await get(session, f"{server.url}/readyz") == (
            503,
            "[+]loop ok\n[-]kubelet: does not answer\nnot ok: kubelet\n",
        )


async def test_what_is_not_alive_is_not_ready(
    health: Health, session: aiohttp.ClientSession
) -> None:
    """Checks of life count twice."""
    health.live("loop", lambda: "stuck")
    async with serving(health) as server:
        assert (await get(session, f"{server.url}/readyz"))[0] == 503


async def test_all_checks_are_listed_on_demand(
    health: Health, session: aiohttp.ClientSession
) -> None:
    """As an API server does."""
    health.ready("cache", lambda: "")
    async with serving(health) as server:
        assert await get(session, f"{server.url}/readyz?verbose") == (200, "[+]cache ok\nok\n")


async def test_a_check_can_be_left_out(health: Health, session: aiohttp.ClientSession) -> None:
    """As with an API server; the others still count."""
    health.ready("topologies", lambda: "never synced")
    async with serving(health) as server:
        assert (await get(session, f"{server.url}/readyz"))[0] == 503
        assert await get(session, f"{server.url}/readyz?exclude=topologies") == (200, "ok")


async def test_metrics_come_in_the_format_that_is_asked_for(
    health: Health, session: aiohttp.ClientSession
) -> None:
    """Prometheus' text, or OpenMetrics."""
    async with serving(health) as server:
        status, text = await get(session, f"{server.url}/metrics")
        assert status == 200
        assert 'numakube_build_info{component="test"' in text
        accept = {"Accept": "application/openmetrics-text; version=1.0.0"}
        async with session.get(f"{server.url}/metrics", headers=accept) as response:
            assert response.headers["Content-Type"].startswith("application/openmetrics-text")
            assert (await response.text()).endswith("# EOF\n")


async def test_a_process_adds_routes(health: Health, session: aiohttp.ClientSession) -> None:
    """Beside those that all have."""
    async with serving(health) as server:
        assert await get(session, f"{server.url}/hello") == (200, "hello")
        assert (await get(session, f"{server.url}/nowhere"))[0] == 404


async def test_a_port_that_is_taken_is_an_error_with_its_name(health: Health) -> None:
    """Not a traceback."""
    async with serving(health) as first:
        port = int(first.url.rpartition(":")[2])
        with pytest.raises(ConfigError, match=rf"cannot listen on 127\.0\.0\.1:{port}"):
            await serving(health, Listen(port=port)).__aenter__()


def test_plain_http_off_loopback_must_be_meant() -> None:
    """By accident nothing is shown to others."""
    with pytest.raises(ConfigError, match=r"0\.0\.0\.0:80 can be reached by others"):
        Listen(host="0.0.0.0", port=80)
    assert Listen(host="0.0.0.0", port=80, plain=True).plain
    assert Listen(host="127.3.2.1", port=80).host == "127.3.2.1"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:80", ("127.0.0.1", 80)),
        (":8080", ("0.0.0.0", 8080)),
        ("[::1]:0", ("::1", 0)),
        ("localhost:1", ("localhost", 1)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    """As Kubernetes components take them."""
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["8080", "::1:80", "host:", "host:http", ""])
def test_what_is_no_address(text: str) -> None:
    """Is refused with the form that is wanted."""
    with pytest.raises(ConfigError, match=r"HOST:PORT|brackets"):
        parse_address(text)


def write_pair(folder: Path) -> tuple[TlsFiles, bytes]:
    """Write a certificate and its key; return them, and the authority to trust."""
    now = datetime.now(UTC)
    authority = Authority.create(now)
    certificate, key = authority.issue(["127.0.0.1"], now)
    (folder / "tls.crt").write_bytes(certificate)
    (folder / "tls.key").write_bytes(key)
    files = TlsFiles(certificate=folder / "tls.crt", key=folder / "tls.key")
    return files, authority.certificate


async def fetch(url: str, authority: bytes) -> str:
    """Return what a client that trusts *authority* gets, on a connection of its own."""
    context = ssl.create_default_context(cadata=authority.decode())
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as session,
        session.get(url) as response,
    ):
        return await response.text()


async def test_a_renewed_certificate_is_shown_without_a_restart(
    health: Health, tmp_path: Path
) -> None:
    """Mounted secrets change under a running process; half a pair changes nothing."""
    files, old = write_pair(tmp_path)
    async with serving(health, Listen(tls=files)) as server:
        assert await fetch(f"{server.url}/livez", old) == "ok"
        (tmp_path / "tls.crt").write_text("broken")
        assert await fetch(f"{server.url}/livez", old) == "ok"
        _, new = write_pair(tmp_path)
        assert await fetch(f"{server.url}/livez", new) == "ok"
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await fetch(f"{server.url}/livez", old)


async def test_certificates_that_cannot_be_used_are_named(health: Health, tmp_path: Path) -> None:
    """At the start, when somebody looks."""
    files = TlsFiles(certificate=tmp_path / "none.crt", key=tmp_path / "none.key")
    with pytest.raises(ConfigError, match=r"none\.crt"):
        await serving(health, Listen(tls=files)).__aenter__()


async def length(request: web.Request) -> web.Response:
    """Answer how long the body is."""
    return web.Response(text=str(len(await body_of(request, seconds=1.0))))


def reading(health: Health, head_seconds: float = 10.0, **more: Any) -> Serving:
    """A server that reads bodies of up to a thousand bytes."""
    routes = [web.post("/length", length)]
    registry = new_registry("test")
    return Serving(
        Listen(),
        health=health,
        registry=registry,
        routes=routes,
        max_body_bytes=1000,
        head_seconds=head_seconds,
        **more,
    )


async def said(server: Serving, sent: bytes) -> bytes:
    """Return the first line that *server* answers to these bytes; empty if it hangs up."""
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    try:
        return await asyncio.wait_for(reader.readline(), 30)
    finally:
        writer.close()


HEAD = b"POST /length HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /livez HTTP/1.1\r\nHost: localhost\r\n", HEAD + b"X-Slow: "],
    ids=["nothing", "a head without end", "half a header"],
)
async def test_who_never_finishes_asking_is_cut_off(health: Health, sent: bytes) -> None:
    """A connection costs memory as long as it is open."""
    async with reading(health, head_seconds=0.1) as server:
        assert await said(server, sent) == b""


async def test_who_has_asked_in_time_may_ask_again(
    health: Health, session: aiohttp.ClientSession
) -> None:
    """The time is for the first request only; connections are kept for the next."""
    async with reading(health, head_seconds=1.0) as server:
        host, port = server.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        ask = b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
        writer.write(ask)
        assert b" 200 " in await reader.readline()
        assert await said(server, b"") == b"", "one that came later is cut off already"
        await reader.readuntil(b"ok")
        writer.write(ask)
        assert b" 200 " in await asyncio.wait_for(reader.readline(), 30)
        writer.close()


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (HEAD + b"Content-Length: 1001\r\n\r\n", b" 413 "),
        (HEAD + b"Content-Length: 5\r\n\r\nab", b" 408 "),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\nab", b" 400 "),
        (HEAD + b"Content-Length: -5\r\n\r\n", b" 400 "),
        (b"\xff\xfe\x00 HTTP\r\n\r\n", b" 400 "),
    ],
    ids=["too long", "too slow", "not in chunks", "less than nothing", "not HTTP"],
)
async def test_bodies_that_will_not_do_get_a_4xx(
    health: Health, sent: bytes, status: bytes
) -> None:
    """Never a 500, and at once."""
    async with reading(health) as server:
        assert status in await said(server, sent)


async def test_compressed_bodies_are_not_unpacked(
    health: Health, session: aiohttp.ClientSession
) -> None:
    """A kilobyte could become a megabyte; nobody who calls us compresses."""
    packed = gzip.compress(b" " * 500_000)
    async with (
        reading(health) as server,
        session.post(
            f"{server.url}/length", data=packed, headers={"Content-Encoding": "gzip"}
        ) as response,
    ):
        assert (response.status, await response.text()) == (200, str(len(packed)))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 421),
        ("evil.example:8090", 421),
        ("127.0.0.1.evil.example", 421),
        ("[", 421),
        ("localhost", 200),
        ("localhost:1", 200),
        ("127.0.0.1:2", 200),
        ("[::1]:3", 200),
    ],
)
async def test_on_loopback_a_request_must_name_the_machine(
    health: Health, session: aiohttp.ClientSession, host: str, status: int
) -> None:
    """A page of the web could have a name of its own point to it, to read and change what is here.

    It holds for every route, and for what is answered without the framework.
    """
    async with reading(health, posts={"/plain": lambda _, body: response_of(body)}) as server:
        for method, path in (("POST", "/plain"), ("GET", "/metrics"), ("POST", "/length")):
            async with session.request(
                method, server.url + path, data=b"x", headers={"Host": host}
            ) as response:
                assert response.status == status, path


async def test_pages_of_other_sites_cannot_change_anything_on_this_machine(
    health: Health, session: aiohttp.ClientSession
) -> None:
    """A browser says where a page is from; programs say nothing."""
    async with reading(health) as server:
        for origin, status in (("https://evil.example", 403), (server.url, 200), ("null", 403)):
            async with session.post(
                f"{server.url}/length", data=b"x", headers={"Origin": origin}
            ) as response:
                assert response.status == status, origin
