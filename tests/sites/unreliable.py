"""A connection on which things go wrong to order, whatever server is at its other end.

`Wire` is what lies between two sockets: it can be cut. `Unreliable` is a transport that answers
some requests itself, by the same rules as the lab's server.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Self
from urllib.parse import urlsplit

from kube_lab_server import Fault, Faults
from numakube.errors import ClusterUnreachable
from numakube.kube.connection.transport import Request, Response, Stream, Transport
from numakube.testing import elapse

_CHUNK_BYTES = 256 * 1024


class Wire:
    """Forwards connections to *url*; it can be cut, and is whole again at once."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self._target = (parts.hostname, parts.port)
        self._scheme = parts.scheme
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"{self._scheme}://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._server.wait_closed()

    def cut(self) -> None:
        """Break every connection off."""
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            with contextlib.suppress(OSError):
                await self._join(reader, writer)
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._target)
        try:
            ways = (_forward(reader, back), _forward(there, writer))
            tasks = [asyncio.ensure_future(way) for way in ways]
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        finally:
            back.transport.abort()


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(_CHUNK_BYTES):
        writer.write(data)
        await writer.drain()


class Unreliable:
    """A transport over *inner* that *faults* befall before anything is sent."""

    def __init__(self, inner: Transport, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults

    async def send(self, request: Request) -> Response:
        """Send *request*, or answer it badly."""
        fault = await self._strike(request)
        if fault.code is not None:
            return _failure(fault.code)
        return await self._inner.send(request)

    @contextlib.asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        """Open the stream of *request*, or fail; failures of streams are broken connections."""
        fault = await self._strike(request)
        if fault.code is not None:
            raise ClusterUnreachable(f"{request}: a fault of {fault.code}")
        async with self._inner.open(request) as stream:
            yield stream

    async def aclose(self) -> None:
        """Close every connection."""
        await self._inner.aclose()

    async def _strike(self, request: Request) -> Fault:
        fault = self._faults.strike(request.method, request.target)
        if fault.delay:
            await elapse(fault.delay)
        if fault.drop:
            raise ClusterUnreachable(f"{request}: a dropped connection", sent=True)
        return fault


def _failure(code: int) -> Response:
    reasons = {
        403: "Forbidden",
        409: "Conflict",
        429: "TooManyRequests",
        500: "InternalError",
    }
    status = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reasons.get(code, "ServiceUnavailable"),
        "message": "a fault to order",
        "code": code,
    }
    headers = {"Content-Type": "application/json"}
    return Response(code, headers, json.dumps(status).encode())
