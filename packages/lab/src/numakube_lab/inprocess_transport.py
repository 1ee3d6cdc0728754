"""Reach the lab's API server from inside its process: requests without sockets.

The lab's own parts (controllers, a thousand kubelets) use the same client as everybody else, over
this transport. A request costs its handling and nothing more: no HTTP is written or parsed, and
objects that are read come as the bytes that the store keeps anyway.

They are trusted: nothing is authenticated, and their rights are not checked.

    client = Client(InProcess(server, user="system:kube-scheduler"), rate=0)
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote

from multidict import CIMultiDict, MultiDict

from numakube.kube.connection.transport import Response
from numakube_lab.api.access.authentication import User
from numakube_lab.api.handling.call import Awaited, Call, Reply, Stream, json_reply
from numakube_lab.api.server import router
from numakube_lab.api.store.journal import NotKept
from numakube_lab.api.wire.refusals import Refusal, internal_error
from numakube_lab.api.wire.request_info import parse_request

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Mapping

    from numakube.kube.connection.transport import Request
    from numakube_lab.api.server.api_server import ApiServer

MASTERS: Final = "system:masters"
AUTHENTICATED: Final = "system:authenticated"


class InProcess:
    """A transport to the API server *server*, on behalf of *user*.

    Closing it closes nothing: the server belongs to its creator.
    """

    def __init__(
        self,
        server: ApiServer,
        *,
        user: str = "system:admin",
        groups: tuple[str, ...] = (MASTERS, AUTHENTICATED),
        agent: str = "numakube-lab",
    ) -> None:
        self._server = server
        self._user = User(user, "", groups)
        self._agent = agent

    async def send(self, request: Request) -> Response:
        """Return the whole answer to *request*."""
        # Handling never waits; without this a busy client would keep everybody else waiting.
        await asyncio.sleep(0)
        reply, warnings = await self._kept_answer(request)
        if isinstance(reply, Awaited):
            reply = await reply.reply
        if isinstance(reply, Stream):
            async with contextlib.aclosing(_Streamed(reply)) as stream:
                return Response(stream.status, stream.headers, await stream.read())
        return Response(reply.status, _headers(reply, warnings), reply.body)

    @contextlib.asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[_Streamed]:
        """Give the answer to *request* as a stream."""
        await asyncio.sleep(0)
        reply, warnings = await self._kept_answer(request)
        if isinstance(reply, Awaited):
            reply = await reply.reply
        whole = _Whole(reply, warnings) if isinstance(reply, Reply) else _Streamed(reply)
        async with contextlib.aclosing(whole):
            yield whole

    async def aclose(self) -> None:
        """Do nothing."""

    async def _kept_answer(self, request: Request) -> tuple[Reply | Stream | Awaited, list[str]]:
        """Return the answer to *request* and its warnings, when what it changed is kept."""
        state = self._server.state
        if request.method == "GET":
            answered = self._answer(request)
            await state.shown()
            return answered
        try:
            await state.writable()
            answered = self._answer(request)
            await state.settled()
        except NotKept as error:
            refusal = internal_error(str(error))
            return json_reply(refusal.code, refusal.status), []
        return answered

    def _answer(self, request: Request) -> tuple[Reply | Stream | Awaited, list[str]]:
        """Let the server handle *request*; return its answer and its warnings."""
        query = MultiDict(request.query)
        path = unquote(request.path)
        call = Call(
            method=request.method,
            info=parse_request(request.method, path, query),
            query=query,
            headers=self._headers_of(request),
            body=request.body or b"",
            user=self._user,
        )
        try:
            return router.answer(self._server.state, call), call.warnings
        except Refusal as refusal:
            return json_reply(refusal.code, refusal.status, dict(refusal.headers)), call.warnings

    def _headers_of(self, request: Request) -> Mapping[str, str]:
        headers = CIMultiDict({"Accept": request.accept, "User-Agent": self._agent})
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        headers.extend(request.headers)
        return headers


class _Streamed:
    """A stream that the server goes on writing to."""

    def __init__(self, stream: Stream) -> None:
        self.status = 200
        self.headers: Mapping[str, str] = {"Content-Type": stream.content_type}
        self._chunks = stream.chunks

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Return the body as it arrives."""
        return _passed_on(self._chunks)

    async def read(self) -> bytes:
        """Return the rest of the body."""
        return b"".join([chunk async for chunk in self.chunks()])

    async def aclose(self) -> None:
        """Let the server stop writing."""
        close = getattr(self._chunks, "aclose", None)
        if close is not None:
            await close()


class _Whole(_Streamed):
    """An answer that is there at once, such as a refusal, in the form of a stream."""

    def __init__(self, reply: Reply, warnings: list[str]) -> None:
        super().__init__(Stream(_once(reply.body), reply.content_type))
        self.status = reply.status
        self.headers = _headers(reply, warnings)


async def _passed_on(chunks: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    async for chunk in chunks:
        yield chunk


async def _once(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def _headers(reply: Reply, warnings: list[str]) -> Mapping[str, str]:
    headers = CIMultiDict(reply.headers)
    headers["Content-Type"] = reply.content_type
    for warning in warnings:
        escaped = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", f'299 - "{escaped}"')
    return headers
