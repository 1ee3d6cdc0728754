"""Steer a running lab from another process, over a unix socket that only its owner can open.

Requests and answers are small JSON objects over HTTP: status, nodes, faults, history, shutdown.
`ControlServer` runs inside the lab and calls a `Steering`; `ControlClient` is what commands use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import aiohttp
from aiohttp import web

from numakube.errors import ClusterUnreachable, ConfigError, NumakubeError
from numakube_lab.lifetime import Lifetime

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
    from pathlib import Path

Answer = dict[str, Any]


class Steering(Protocol):
    """What a lab can be told to do; a `NumakubeError` is the caller's mistake."""

    async def status(self) -> Answer:
        """Return what runs."""
        ...

    async def add_nodes(self, request: Mapping[str, Any]) -> Answer:
        """Add nodes and return their names."""
        ...

    async def set_kubelet(self, name: str, request: Mapping[str, Any]) -> Answer:
        """Restart the kubelet of a node with other settings or another version."""
        ...

    async def steer_node(self, name: str, action: str) -> Answer:
        """Restart, pause, resume or remove a node, or have its folder written."""
        ...

    async def add_fault(self, request: Mapping[str, Any]) -> Answer:
        """Put a fault in force and return its number."""
        ...

    async def clear_faults(self) -> Answer:
        """Lift all faults."""
        ...

    async def list_faults(self) -> Answer:
        """Return the faults in force by number."""
        ...

    async def expire_history(self) -> Answer:
        """Make every watch and list of the past expire with 410."""
        ...

    async def drop_watches(self) -> Answer:
        """Break off all watches."""
        ...

    async def steer_exporters(self, request: Mapping[str, Any]) -> Answer:
        """Freeze, thaw or skew the exporters of some nodes."""
        ...

    async def shut_down(self) -> Answer:
        """End the lab."""
        ...


class ControlServer(Lifetime):
    """Serves a `Steering` on a unix socket."""

    def __init__(self, steering: Steering, socket: Path) -> None:
        self._socket = socket
        self._runner = web.AppRunner(_application(steering), handle_signals=False, access_log=None)

    async def live(self) -> AsyncIterator[None]:
        """Serve."""
        await self._runner.setup()
        await web.UnixSite(self._runner, str(self._socket)).start()
        try:
            yield
        finally:
            await self._runner.cleanup()


class ControlClient:
    """Tells a lab what to do."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Answer:
        """Send one request and return the answer."""
        connector = aiohttp.UnixConnector(path=str(self._socket))
        timeout = aiohttp.ClientTimeout(total=60)
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.request(method, f"http://lab{path}", json=body) as response,
            ):
                answer: Answer = await response.json()
        except (aiohttp.ClientError, TimeoutError) as error:
            text = f"the lab at {self._socket} does not answer: {error}"
            raise ClusterUnreachable(text) from None
        if response.status >= web.HTTPBadRequest.status_code:
            raise ConfigError(str(answer.get("error", answer)))
        return answer


def _application(steering: Steering) -> web.Application:
    application = web.Application(middlewares=[_explain])
    application.add_routes(
        [
            web.get("/status", _answering(lambda _: steering.status())),
            web.post("/nodes", _with_body(steering.add_nodes)),
            web.post("/nodes/{name}/kubelet", _set_kubelet(steering)),
            web.post("/nodes/{name}/{action}", _answering(lambda r: _steer_node(steering, r))),
            web.get("/faults", _answering(lambda _: steering.list_faults())),
            web.post("/faults", _with_body(steering.add_fault)),
            web.delete("/faults", _answering(lambda _: steering.clear_faults())),
            web.post("/history/expire", _answering(lambda _: steering.expire_history())),
            web.post("/watches/drop", _answering(lambda _: steering.drop_watches())),
            web.post("/exporters", _with_body(steering.steer_exporters)),
            web.post("/shutdown", _answering(lambda _: steering.shut_down())),
        ]
    )
    return application


def _steer_node(steering: Steering, request: web.Request) -> Awaitable[Answer]:
    return steering.steer_node(request.match_info["name"], request.match_info["action"])


def _set_kubelet(steering: Steering) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        name, body = request.match_info["name"], await request.json()
        return web.json_response(await steering.set_kubelet(name, body))

    return handle


def _answering(
    act: Callable[[web.Request], Awaitable[Answer]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response(await act(request))

    return handle


def _with_body(
    act: Callable[[Mapping[str, Any]], Awaitable[Answer]],
) -> Callable[[web.Request], Awaitable[web.Response]]:
    async def handle(request: web.Request) -> web.Response:
        return web.json_response(await act(await request.json()))

    return handle


@web.middleware
async def _explain(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Turn the caller's mistakes into answers."""
    try:
        return await handler(request)
    except NumakubeError as error:
        return web.json_response({"error": str(error)}, status=400)
