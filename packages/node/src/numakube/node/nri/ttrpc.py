"""Calling the other end of a socket, and answering its calls.

    peer = Peer(reader, writer, serves=Conversation.PLUGIN, answer=answer)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(peer.run())
        payload = await peer.call("Runtime", "RegisterPlugin", request, seconds=5.0)

Calls are answered side by side: one that takes its time keeps no other waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final, TypeAlias

import structlog
from google.protobuf.message import DecodeError

from numakube.errors import MalformedObject, NumakubeError, RuntimeUnavailable
from numakube.node.nri.nri_messages import TTRPC
from numakube.node.nri.ttrpc_frames import Conversation, Inner, Outer, TtrpcFrame, Type, to_bytes

if TYPE_CHECKING:
    from asyncio import Future, StreamReader, StreamWriter

Answer: TypeAlias = Callable[[str, bytes], Awaitable[bytes | None]]
"""Takes method and request; ``None`` says that there is no such method."""

PACKAGE: Final = "nri.pkg.api.v1alpha1"
INVALID_ARGUMENT: Final = 3
UNIMPLEMENTED: Final = 12
INTERNAL: Final = 13
_CHUNK: Final = 1 << 16

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class CallRefused(RuntimeUnavailable):
    """The other end has answered with an error; the connection goes on."""


class Peer:
    """One end of a socket."""

    def __init__(
        self,
        reader: StreamReader,
        writer: StreamWriter,
        *,
        serves: Conversation,
        answer: Answer,
    ) -> None:
        """Prepare; nothing is read before `run`.

        Args:
            reader: what comes in.
            writer: where to send.
            serves: the conversation in which this end answers; it calls in the other one.
            answer: answers calls.
        """
        self._reader = reader
        self._writer = writer
        self._serves = serves
        self._calls = next(
            conversation for conversation in Conversation if conversation is not serves
        )
        self._answer = answer
        self._waiting: dict[int, Future[bytes]] = {}
        self._next = 1
        self._cut: dict[int, Inner] = {conversation: Inner() for conversation in Conversation}
        self._answering: set[asyncio.Task[None]] = set()
        self._closed = False

    async def run(self) -> None:
        """Read and answer until the other end has gone.

        Raises:
            RuntimeUnavailable: what it says makes no sense.
        """
        try:
            async with asyncio.TaskGroup() as answers:
                why = await self._read(answers)
                for one in self._answering:
                    one.cancel()
        finally:
            self._closed = True
            self._writer.close()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(RuntimeUnavailable("NRI: the connection was closed"))
        if why:
            raise RuntimeUnavailable(why)

    async def answered(self) -> None:
        """Wait until every call that came in has its answer."""
        await asyncio.gather(*self._answering)

    async def call(self, service: str, method: str, payload: bytes, *, seconds: float) -> bytes:
        """Return what the other end answers.

        Raises:
            RuntimeUnavailable: it refused, has gone, or took too long.
        """
        if self._closed:
            raise RuntimeUnavailable(f"NRI: {method}: the connection was closed")
        number, self._next = self._next, self._next + 2
        request = TTRPC.Request(
            service=f"{PACKAGE}.{service}",
            method=method,
            payload=payload,
            timeout_nano=int(seconds * 1e9),
        )
        answered: Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answered
        try:
            async with asyncio.timeout(seconds):
                await self._send(self._calls, number, Type.REQUEST, request.SerializeToString())
                return await answered
        except TimeoutError:
            raise RuntimeUnavailable(f"NRI: no answer to {method} in {seconds:g} s") from None
        except OSError as error:
            raise RuntimeUnavailable(f"NRI: {method}: {error.strerror or error}") from None
        finally:
            del self._waiting[number]

    async def _read(self, answers: asyncio.TaskGroup) -> str:
        """Read until the end; return what made no sense, or the empty text."""
        outer = Outer()
        try:
            while data := await self._reader.read(_CHUNK):
                for conversation, piece in outer.feed(data):
                    self._hear(conversation, piece, answers)
        except MalformedObject as error:
            return str(error)
        except OSError:
            return ""
        return ""

    def _hear(self, conversation: int, piece: bytes, answers: asyncio.TaskGroup) -> None:
        cut = self._cut.get(conversation)
        for frame in cut.feed(piece) if cut is not None else ():
            if conversation == self._serves and frame.type == Type.REQUEST:
                task = answers.create_task(self._serve(frame))
                self._answering.add(task)
                task.add_done_callback(self._answering.discard)
            elif conversation == self._calls and frame.type == Type.RESPONSE:
                self._settle(frame)

    async def _serve(self, frame: TtrpcFrame) -> None:
        response = TTRPC.Response()
        try:
            request = TTRPC.Request.FromString(frame.data)
            payload = await self._answer(request.method, request.payload)
        except DecodeError as error:
            response.status.code, response.status.message = INVALID_ARGUMENT, str(error)
        except NumakubeError as error:
            _log.warning("nri_request_refused", method=request.method, error=str(error))
            response.status.code, response.status.message = INTERNAL, str(error)
        except Exception as error:
            _log.exception("nri_request_failed", method=request.method)
            response.status.code, response.status.message = INTERNAL, str(error)
        else:
            if payload is None:
                response.status.code = UNIMPLEMENTED
                response.status.message = f"there is no method {request.method}"
            else:
                response.payload = payload
        with contextlib.suppress(OSError):
            await self._send(self._serves, frame.call, Type.RESPONSE, response.SerializeToString())

    def _settle(self, frame: TtrpcFrame) -> None:
        waiting = self._waiting.get(frame.call)
        if waiting is None or waiting.done():
            return
        try:
            response = TTRPC.Response.FromString(frame.data)
        except DecodeError as error:
            raise MalformedObject("NRI", str(error)) from None
        if response.status.code:
            waiting.set_exception(CallRefused(f"NRI: {response.status.message}"))
        else:
            waiting.set_result(response.payload)

    async def _send(self, conversation: Conversation, call: int, kind: Type, data: bytes) -> None:
        self._writer.write(to_bytes(conversation, TtrpcFrame(call, kind, data)))
        await self._writer.drain()
