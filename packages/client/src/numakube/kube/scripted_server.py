"""A scripted API server for tests: real HTTP on a loopback port, answers as the test says.

For everything that should behave like a cluster use the lab; this is for what a well-behaved server
never does: broken connections, wrong answers, odd pauses.

    async with ScriptedServer() as server:
        server.reply({"kind": "Pod"})
        ... a client for server.config ...
        assert server.received[0].path == "/api/v1/namespaces/a/pods/b"
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from aiohttp import web

from numakube.kube.connection.cluster_config import ClusterConfig

if TYPE_CHECKING:
    import ssl
    from types import TracebackType

JSON = "application/json"

Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Received:
    """A request as the server saw it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> object:
        """Return the decoded body."""
        return msgspec.json.decode(self.body)


class ScriptedServer:
    """Answers requests in the order of its script, and remembers them.

    Attributes:
        received: every request so far.
        otherwise: answers when the script has ended; by default with status 501.
        port: where it listens; the same again after a restart.
    """

    def __init__(
        self, *, tls: ssl.SSLContext | None = None, otherwise: Handler | None = None
    ) -> None:
        self.received: list[Received] = []
        self.otherwise = otherwise or _script_ended
        self.port = 0
        self._tls = tls
        self._script: deque[Handler] = deque()
        self._runner: web.AppRunner | None = None
        self._listener: socket.socket | None = None

    @property
    def url(self) -> str:
        """The server's URL."""
        return f"{'https' if self._tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def config(self) -> ClusterConfig:
        """How to reach this server."""
        return ClusterConfig(server=self.url)

    def reply(
        self, body: object = b"", *, status: int = 200, headers: Mapping[str, str] | None = None
    ) -> None:
        """Append an answer to the script; *body* is bytes, or something to encode as JSON."""
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)

        async def handler(_: web.Request) -> web.StreamResponse:
            return web.Response(
                status=status, body=content, headers={"Content-Type": JSON, **(headers or {})}
            )

        self._script.append(handler)

    def refuse(
        self, code: int, reason: str = "", *, message: str = "no", **details: object
    ) -> None:
        """Append a refusal to the script, with a ``Status`` as servers send it."""
        wait = details.get("retryAfterSeconds")
        headers = {} if wait is None else {"Retry-After": str(wait)}
        document = status_document(code, reason, message=message, **details)
        self.reply(document, status=code, headers=headers)

    def script(self, handler: Handler) -> None:
        """Append a handler to the script."""
        self._script.append(handler)

    async def start(self) -> None:
        """Begin to listen, on the port of the last time if there was one."""
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.05, handler_cancellation=True)
        await self._runner.setup()
        self._listener = socket.create_server(("127.0.0.1", self.port))
        await web.SockSite(self._runner, self._listener, ssl_context=self._tls).start()
        self.port = int(self._listener.getsockname()[1])

    async def stop(self) -> None:
        """Stop listening and cut every connection."""
        if self._runner is not None and self._listener is not None:
            # Before Python 3.12, a server that closes in the turn in which it accepts a connection
            # leaves that connection open and silent: accept first, and close a turn later.
            asyncio.get_running_loop().remove_reader(self._listener)
            await asyncio.sleep(0)
            await self._runner.cleanup()
            self._runner = None

    async def __aenter__(self) -> ScriptedServer:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        exc: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.stop()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.received.append(
            Received(
                request.method,
                request.rel_url.raw_path,
                dict(request.query),
                request.headers.copy(),
                await request.read(),
            )
        )
        handler = self._script.popleft() if self._script else self.otherwise
        return await handler(request)


def status_document(
    code: int, reason: str = "", *, message: str = "no", **details: object
) -> dict[str, object]:
    """Return a ``Status`` that refuses something."""
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
        "reason": reason,
        "details": details,
        "code": code,
    }


def streaming(chunks: Callable[[], AsyncIterator[bytes]], *, cut: bool = False) -> Handler:
    """Return a handler that sends *chunks*, and if *cut* breaks the connection after them."""

    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": JSON})
        response.enable_chunked_encoding()
        await response.prepare(request)
        async for chunk in chunks():
            await response.write(chunk)
        if cut:
            drop(request)
        else:
            await response.write_eof()
        return response

    return handler


async def dropped(request: web.Request) -> web.StreamResponse:
    """Break the connection instead of answering."""
    drop(request)
    return web.Response()


def drop(request: web.Request) -> None:
    """Break the connection over which *request* came."""
    if request.transport is not None:
        request.transport.abort()


async def _script_ended(request: web.Request) -> web.StreamResponse:
    message = f"the script has no answer for {request.method} {request.path_qs}"
    return web.json_response(status_document(501, message=message), status=501)
