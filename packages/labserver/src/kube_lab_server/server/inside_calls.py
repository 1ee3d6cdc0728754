"""Requests from inside the server's process: no sockets, no HTTP that is written or parsed.

A request costs its handling and nothing more, and objects that are read come as the bytes that the
store keeps anyway. Who asks this way is trusted: nothing is authenticated, and no rights are looked
at.
"""

from __future__ import annotations

import asyncio
import contextlib
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from multidict import CIMultiDict, MultiDict

from kube_lab_server.handling.call import Awaited, Call, Reply, StreamedAnswer, json_reply
from kube_lab_server.server import router
from kube_lab_server.store.journal import NotKept
from kube_lab_server.wire.refusals import RequestRefusal, internal_error
from kube_lab_server.wire.request_options import parse_request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping, Sequence

    from kube_lab_server.access.authentication import User
    from kube_lab_server.handling.call import Chunks
    from kube_lab_server.handling.server_state import ServerState


class InsideRequest(NamedTuple):
    """A request from inside; its path is percent-encoded, as in HTTP."""

    method: str
    path: str
    query: Sequence[tuple[str, str]] = ()
    headers: Mapping[str, str] = MappingProxyType({})
    body: bytes = b""


class InsideAnswer:
    """The answer to a request from inside: whole, or a stream that the server goes on writing to.

    Attributes:
        status: the HTTP status.
        headers: the headers, warnings included.
    """

    def __init__(self, reply: Reply | StreamedAnswer, warnings: Sequence[str]) -> None:
        self._body = reply.body if isinstance(reply, Reply) else reply.chunks
        self.status = reply.status if isinstance(reply, Reply) else 200
        self.headers = _headers(reply, warnings)

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Return the body as it arrives."""
        return _once(self._body) if isinstance(self._body, bytes) else _passed_on(self._body)

    async def read(self) -> bytes:
        """Return the rest of the body."""
        if isinstance(self._body, bytes):
            return self._body
        async with contextlib.aclosing(self):
            return b"".join([chunk async for chunk in self.chunks()])

    async def aclose(self) -> None:
        """Let the server stop writing."""
        if not isinstance(self._body, bytes):
            await self._body.aclose()


async def answer_inside(state: ServerState, user: User, request: InsideRequest) -> InsideAnswer:
    """Return the answer to a request of *user*, when what it changed is kept."""
    # Handling never waits; without this a busy client would keep everybody else waiting.
    await asyncio.sleep(0)
    call = _call(user, request)
    reply = await _kept(state, call)
    return InsideAnswer(await reply.reply if isinstance(reply, Awaited) else reply, call.warnings)


def _call(user: User, request: InsideRequest) -> Call:
    query = MultiDict(request.query)
    return Call(
        method=request.method,
        info=parse_request(request.method, unquote(request.path), query),
        query=query,
        headers=request.headers,
        body=request.body,
        user=user,
    )


async def _kept(state: ServerState, call: Call) -> Reply | StreamedAnswer | Awaited:
    if call.method == "GET":
        reply = _answered(state, call)
        await state.shown()
        return reply
    try:
        await state.writable()
        reply = _answered(state, call)
        await state.settled()
    except NotKept as error:
        refusal = internal_error(str(error))
        call.warnings.clear()
        return json_reply(refusal.code, refusal.status)
    return reply


def _answered(state: ServerState, call: Call) -> Reply | StreamedAnswer | Awaited:
    try:
        return router.answer(state, call)
    except RequestRefusal as refusal:
        return json_reply(refusal.code, refusal.status, dict(refusal.headers))


def _headers(reply: Reply | StreamedAnswer, warnings: Sequence[str]) -> Mapping[str, str]:
    headers = CIMultiDict(reply.headers if isinstance(reply, Reply) else ())
    headers["Content-Type"] = reply.content_type
    for warning in warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", f'299 - "{escaped}"')
    return headers


async def _passed_on(chunks: Chunks) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        yield chunk


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body
