"""The API server as a process's part: HTTP in, answers out.

>>> async with ApiServer() as server:
...     print(server.url)
"""

from __future__ import annotations

import asyncio
import contextlib
from datetime import UTC, datetime
from random import SystemRandom
from typing import TYPE_CHECKING, Final, Self

from aiohttp import web

from numakube.lab.api import router
from numakube.lab.api.admission import Admission
from numakube.lab.api.authentication import Authenticator, User
from numakube.lab.api.authorization import AllowEverything, RoleBasedAccess, action_of, denied
from numakube.lab.api.bootstrap import bootstrap
from numakube.lab.api.builtin_rules import BuiltinRules
from numakube.lab.api.call import Call, Reply, Stream, json_reply
from numakube.lab.api.custom.controller import DefinitionController
from numakube.lab.api.custom.definition_rules import DefinitionRules
from numakube.lab.api.object_meta import timestamp
from numakube.lab.api.options import check_timeout
from numakube.lab.api.refusals import Refusal, injected
from numakube.lab.api.registry import Registry
from numakube.lab.api.rendering import refusal_reply
from numakube.lab.api.request_info import parse_request
from numakube.lab.api.rules import PlainRules, Rules
from numakube.lab.api.state import State
from numakube.lab.api.store import Store
from numakube.lab.schema.registry import BUILTIN

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random
    from types import TracebackType

    from numakube.lab.faults import Faults
    from numakube.lab.kinds import GVK

MAX_BODY: Final = 3 * 1024 * 1024
"""The largest request body in bytes, as of a real server."""


class ApiServer:
    """A Kubernetes API server.

    Args:
        host: address to listen on.
        port: port to listen on; 0 takes a free one.
        users: bearer tokens and whose they are.
        anonymous: whether requests without token are served.
        rbac: whether users need rights; without, everybody may do everything.
        now: the clock.
        rng: source of uids and generated names.
        faults: what befalls requests that come over HTTP.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        users: Mapping[str, User] | None = None,
        anonymous: bool = True,
        rbac: bool = False,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        rng: Random | None = None,
        faults: Faults | None = None,
    ) -> None:
        self._host = host
        self._faults = faults
        self._port = port
        store = Store()
        self.state = State(
            store=store,
            registry=Registry(lambda kind: _rules(kind, lambda: timestamp(now()))),
            admission=Admission(),
            authenticator=Authenticator(users or {}, anonymous=anonymous),
            authorizer=RoleBasedAccess(store) if rbac else AllowEverything(),
            now=now,
            rng=rng or SystemRandom(),
        )
        self._runner: web.ServerRunner | None = None
        self.url = ""

    async def __aenter__(self) -> Self:
        """Start to serve."""
        bootstrap(self.state)
        self.state.after_request.append(DefinitionController(self.state).settle)
        server = web.Server(self._handle, access_log=None, handler_cancellation=True)
        self._runner = web.ServerRunner(server, handle_signals=False)
        await self._runner.setup()
        site = web.TCPSite(self._runner, self._host, self._port)
        await site.start()
        host, port = self._runner.addresses[0][:2]
        self.state.address = f"{host}:{port}"
        self.url = f"http://{self.state.address}"
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """End all watches and stop to serve."""
        self.state.feeds.end()
        if self._runner is not None:
            await self._runner.cleanup()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if self._faults is not None and (struck := await _strike(self._faults, request)):
            return struck
        body = await request.read()
        warnings: list[str] = []
        try:
            reply = self._answer(request, body, warnings)
        except Refusal as refusal:
            reply = refusal_reply(refusal, request.headers.get("Accept"))
        if isinstance(reply, Stream):
            return await _send_stream(request, reply)
        response = web.Response(status=reply.status, body=reply.body, headers=reply.headers)
        response.headers["Content-Type"] = reply.content_type
        for warning in warnings:
            escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.add("Warning", f'299 - "{escaped}"')
        return response

    def _answer(self, request: web.BaseRequest, body: bytes, warnings: list[str]) -> Reply | Stream:
        state = self.state
        user = state.authenticator.authenticate(request.headers.get("Authorization"))
        if request.method == "POST" and request.path == "/lab/v1/compact":
            return router.compact(self.state)
        check_timeout(request.query.get("timeout"))
        info = parse_request(request.method, request.path, request.query)
        action = action_of(info)
        verdict = state.authorizer.decide(user, action)
        if not verdict.allowed:
            raise denied(user, action)
        call = Call(
            method=request.method,
            info=info,
            query=request.query,
            headers=request.headers,
            body=body,
            user=user,
            warnings=warnings,
        )
        return router.answer(self.state, call)


def _rules(kind: GVK, now: Callable[[], str]) -> Rules:
    info = BUILTIN.get(kind)
    if info is None:
        return PlainRules(kind)
    rules = DefinitionRules if kind.kind == "CustomResourceDefinition" else BuiltinRules
    return rules(kind, info, now)


async def _strike(faults: Faults, request: web.BaseRequest) -> web.StreamResponse | None:
    """Let what is ordered befall *request*; return its answer if that is the end of it."""
    fault = faults.strike(request.method, request.path_qs)
    if fault.delay:
        await asyncio.sleep(fault.delay)
    if fault.drop:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=499)  # nobody will read it
    if fault.code is None:
        return None
    refusal = injected(fault.code)
    reply = json_reply(refusal.code, refusal.status)
    return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type)


async def _send_stream(request: web.BaseRequest, stream: Stream) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": stream.content_type})
    await response.prepare(request)
    with contextlib.suppress(ConnectionResetError):  # a client that left is not an error
        async with contextlib.aclosing(stream.chunks) as chunks:
            async for chunk in chunks:
                await response.write(chunk)
        await response.write_eof()
    return response
