"""HTTP: requests of clients in, answers out.

An answer leaves only when the changes that it tells of are on disk, if they are kept there at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple

import structlog
from aiohttp import web
from multidict import CIMultiDict, MultiDict, MultiDictProxy

from kube_lab_server.access.authorization import acting_user, action_of, denied
from kube_lab_server.handling.call import Awaited, Call, Reply, StreamedAnswer, json_reply
from kube_lab_server.handling.object_views import refusal_reply
from kube_lab_server.server import router
from kube_lab_server.store.store import NotKept
from kube_lab_server.wire.refusals import (
    RequestRefusal,
    bad_request,
    failed,
    injected,
    internal_error,
    misdirected,
    too_large_body,
)
from kube_lab_server.wire.request_options import check_timeout, parse_request
from numakube.http import names_this_machine, response_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from multidict import CIMultiDictProxy, MultiMapping

    from kube_lab_server.faults import Faults
    from kube_lab_server.handling.call import ServerState
    from numakube.http import Answer, Answered, Head

MAX_BODY: Final = 3 * 1024 * 1024
"""The largest request body in bytes, as of a real server."""

COMPACT_PATH: Final = "/lab/v1/compact"

_log = structlog.get_logger()

# What is answered for as long as the client stays; the web framework tells when it has left.
_LASTS: Final = re.compile(r"/(?:proxy|watch)(?:/|$)")
_READING: Final = ("GET", "HEAD", "OPTIONS")
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f]")


class RequestHead(NamedTuple):
    """A request as far as it decides the answer."""

    method: str
    path: str
    query: MultiMapping[str]
    headers: CIMultiDictProxy[str]


class Front:
    """Answers the HTTP requests of a server; a *private* one is for this machine alone."""

    def __init__(self, state: ServerState, faults: Faults | None, *, private: bool) -> None:
        self._state = state
        self._faults = faults
        self._private = private

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer *request*."""
        if self._faults is not None and (struck := await _strike(self._faults, request)):
            return struck
        warnings: list[str] = []
        asked = RequestHead(request.method, request.path, request.query, request.headers)
        reads = request.method in _READING
        try:
            body = await _body(request)
            if not reads:
                await self._state.writable()
            reply = self._answer(asked, body, warnings)
            await (self._state.shown() if reads else self._state.settled())
            if isinstance(reply, Awaited):
                reply = await reply.reply
        except Exception as error:
            reply = _refused(error, asked)
        if isinstance(reply, StreamedAnswer):
            return await self._stream(request, reply)
        return _response(reply, warnings)

    def plain_answer(self, head: Head) -> Answer | None:
        """Return what answers a plain request without the web framework, if it can be so."""
        may_strike = self._faults is not None and self._faults.rules()
        waits = self._state.cannot_keep() or _LASTS.search(head.path)
        return None if may_strike or waits else self._answer_plainly

    def _answer_plainly(self, head: Head, body: bytes) -> Answered:
        asked = RequestHead(head.method, head.path, _query(head.query), head.headers)
        warnings: list[str] = []
        try:
            reply = self._answer(asked, body, warnings)
        except Exception as error:
            reply = _refused(error, asked)
        if not isinstance(reply, Reply):
            raise TypeError(f"{asked.method} {asked.path} has no answer at once")
        lines = _header_lines(reply.content_type, tuple(reply.headers.items()), tuple(warnings))
        response = response_of(reply.body, status=reply.status, headers=lines)
        return response if self._state.is_settled() else self._settled(asked, response)

    async def _settled(self, asked: RequestHead, response: bytes) -> bytes:
        try:
            await self._state.settled()
        except Exception as error:
            reply = _refused(error, asked)
            return response_of(reply.body, status=reply.status)
        return response

    def _answer(
        self, request: RequestHead, body: bytes, warnings: list[str]
    ) -> Reply | StreamedAnswer | Awaited:
        state = self._state
        if self._private and not names_this_machine(request.headers.get("Host", "")):
            # A page of the web, with a name of its own that it has point to 127.0.0.1.
            raise misdirected(request.headers["Host"])
        sender = state.authenticator.authenticate(request.headers.get("Authorization"))
        user = acting_user(sender, request.headers, state.authorizer)
        check_timeout(request.query.get("timeout"))
        info = parse_request(request.method, request.path, request.query)
        action = action_of(info)
        if not state.authorizer.decide(user, action).allowed:
            raise denied(user, action)
        if request.method == "POST" and request.path == COMPACT_PATH:
            return router.compact(state)
        call = Call(
            method=request.method,
            info=info,
            query=request.query,
            headers=request.headers,
            body=body,
            user=user,
            warnings=warnings,
        )
        return router.answer(state, call)

    async def _stream(self, request: web.BaseRequest, stream: StreamedAnswer) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": stream.content_type})
        await response.prepare(request)
        with contextlib.suppress(ConnectionResetError):  # a client that left is not an error
            async with contextlib.aclosing(stream.chunks) as chunks:
                async for chunk in chunks:
                    await self._state.shown()
                    await response.write(chunk)
            await response.write_eof()
        return response


async def _body(request: web.BaseRequest) -> bytes:
    try:
        return await request.read()
    except web.HTTPRequestEntityTooLarge:
        raise too_large_body(MAX_BODY) from None
    except web.RequestPayloadError as error:
        raise bad_request(f"the body cannot be read: {error}") from None


@lru_cache(maxsize=256)
def _query(text: str) -> MultiDictProxy[str]:
    """Return a query in which nothing is quoted."""
    pairs = (part.partition("=") for part in text.split("&") if part)
    return MultiDictProxy(MultiDict((name, value) for name, _, value in pairs))


def _refused(error: Exception, asked: RequestHead) -> Reply:
    if isinstance(error, RequestRefusal):
        return refusal_reply(error, asked.headers.get("Accept"))
    if isinstance(error, NotKept):
        return refusal_reply(internal_error(str(error)), None)
    # A mistake of ours must not look like one of the client's, nor end the server.
    _log.error("request_failed", method=asked.method, path=asked.path, exc_info=error)
    return refusal_reply(failed("Internal error occurred", "InternalError"), None)


def _response(reply: Reply, warnings: list[str]) -> web.Response:
    headers = CIMultiDict(_headers(reply.content_type, reply.headers.items(), warnings))
    return web.Response(status=reply.status, body=reply.body, headers=headers)


@lru_cache(maxsize=256)
def _header_lines(
    content_type: str, more: tuple[tuple[str, str], ...], warnings: tuple[str, ...]
) -> str:
    headers = _headers(content_type, more, warnings)
    return "".join(f"{name}: {value}\r\n" for name, value in headers)


def _headers(
    content_type: str, more: Iterable[tuple[str, str]], warnings: Iterable[str]
) -> Iterator[tuple[str, str]]:
    yield "Content-Type", content_type
    yield from more
    for warning in dict.fromkeys(warnings):
        if _CONTROL.search(warning):
            # It cannot stand in a header; a real server keeps silent too.
            continue
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        yield "Warning", f'299 - "{escaped}"'


async def _strike(faults: Faults, request: web.BaseRequest) -> web.StreamResponse | None:
    """Let what is ordered befall *request*; return its answer if that is the end of it."""
    fault = faults.strike(request.method, request.path_qs)
    if fault.delay:
        await asyncio.sleep(fault.delay)
    if fault.drop:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=499)  # the client is gone
    if fault.code is None:
        return None
    refusal = injected(fault.code)
    reply = json_reply(refusal.code, refusal.status)
    return web.Response(status=reply.status, body=reply.body, content_type=reply.content_type)
