"""What is logged of requests that are not HTTP."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from numakube.apps.host.http_serving import Health, Listen, Serving
from numakube.apps.host.process_life import new_registry
from numakube.http import SERVER_LOG, BadRequests
from numakube.http.server_log import QUIET_SECONDS


def record(error: Exception) -> logging.LogRecord:
    """Return what the web framework logs about *error*."""
    told = (type(error), error, None)
    return logging.LogRecord("x", logging.ERROR, "f", 1, "Error handling request", (), told)


def test_a_bad_request_is_a_line_now_and_then() -> None:
    """Its sender cannot fill the log, and nobody needs a traceback of it."""
    time = [0.0]
    bad = BadRequests(lambda: time[0])
    first, others = record(BadHttpMessage("odd\n  b'\\x16'\n   ^")), BadHttpMessage("x" * 1000)
    assert bad.filter(first)
    assert (first.exc_info, first.levelno) == (None, logging.WARNING)
    assert first.getMessage() == "bad_http_request: odd (1 of them)"
    assert not any(bad.filter(record(others)) for _ in range(99))
    time[0] += QUIET_SECONDS
    last = record(others)
    assert bad.filter(last)
    assert last.getMessage() == f"bad_http_request: {'x' * 100} (100 of them)"


def test_a_failure_of_our_own_is_told_in_full() -> None:
    """Each time, with where it was."""
    bad = BadRequests()
    for _ in range(3):
        failure = record(RuntimeError("ours"))
        assert bad.filter(failure)
        assert failure.exc_info


async def test_a_server_logs_so(caplog: pytest.LogCaptureFixture) -> None:
    """Whatever the client sends."""
    (told,) = [one for one in SERVER_LOG.filters if isinstance(one, BadRequests)]
    SERVER_LOG.removeFilter(told)
    SERVER_LOG.addFilter(fresh := BadRequests())
    try:
        async with Serving(Listen(), health=Health(), registry=new_registry("t")) as server:
            host, port = server.url.removeprefix("http://").split(":")
            for sent in (b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\nA\0: b\r\n\r\n") * 5:
                reader, writer = await asyncio.open_connection(host, int(port))
                writer.write(sent)
                assert b" 400 " in await reader.readline()
                writer.close()
    finally:
        SERVER_LOG.removeFilter(fresh)
        SERVER_LOG.addFilter(told)
    (line,) = caplog.records
    assert line.name == SERVER_LOG.name
    assert not line.exc_info
    assert "\n" not in line.getMessage()
