"""Calls to a server of the gRPC library, and to servers that break the rules."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from hpack import Encoder

from numakube.node.grpc_call import CallFailed, GrpcCode, call
from numakube.node.grpc_serving import serve_socket

MEGABYTE = 1 << 20
METHOD = "/test.Echo/Call"
SETTINGS = "000000 04 00 00000000"
STATUS = Encoder().encode([(b":status", b"200")]).hex()


@pytest.fixture
def socket() -> Iterator[Path]:
    """A socket path short enough for the kernel."""
    with tempfile.TemporaryDirectory(prefix="gc-") as folder:
        yield Path(folder) / "s"


@pytest.fixture
async def echo(socket: Path) -> AsyncIterator[Path]:
    """A server that sends back what it gets; a message that begins with ! is refused with it."""

    async def answer(request: bytes, context: Any) -> bytes:
        if request.startswith(b"!"):
            await context.abort(grpc.StatusCode.NOT_FOUND, request.decode())
        return request

    async def many(request: bytes, _: Any) -> bytes:
        return bytes(int(request))

    handlers = {
        "Call": grpc.unary_unary_rpc_method_handler(answer),
        "Many": grpc.unary_unary_rpc_method_handler(many),
    }
    server = await serve_socket(socket, {"test.Echo": handlers})
    yield socket
    await server.stop(grace=None)


async def ask(socket: Path, request: bytes = b"", *, method: str = METHOD) -> bytes:
    """Call a method."""
    return await call(socket, method, request, within=10.0, at_most=MEGABYTE)


async def test_an_answer_comes_back(echo: Path) -> None:
    """An empty one too, and as often as asked, side by side."""
    assert await ask(echo, b"hello") == b"hello"
    assert await ask(echo) == b""
    texts = [str(number).encode() for number in range(20)]
    assert await asyncio.gather(*(ask(echo, text) for text in texts)) == texts


async def test_an_answer_may_be_larger_than_frames_and_windows(echo: Path) -> None:
    """But not larger than the caller wants it."""
    fits = str(MEGABYTE - 5).encode()
    assert len(await ask(echo, fits, method="/test.Echo/Many")) == MEGABYTE - 5
    with pytest.raises(CallFailed, match="more than 1048576 bytes") as refused:
        await ask(echo, str(MEGABYTE).encode(), method="/test.Echo/Many")
    assert refused.value.code is GrpcCode.RESOURCE_EXHAUSTED


async def test_a_refusal_has_the_servers_words(echo: Path) -> None:
    """Which are escaped on their way."""
    with pytest.raises(CallFailed, match=r"^NOT_FOUND: !50 % für µ$") as refused:
        await ask(echo, "!50 % für µ".encode())
    assert refused.value.code is GrpcCode.NOT_FOUND


async def test_a_method_that_does_not_exist_is_refused(echo: Path) -> None:
    """By a server that is older than its client."""
    with pytest.raises(CallFailed) as refused:
        await ask(echo, method="/test.Echo/Other")
    assert refused.value.code is GrpcCode.UNIMPLEMENTED


async def test_a_socket_that_is_not_there_is_unavailable(socket: Path) -> None:
    """The server is away."""
    with pytest.raises(CallFailed) as refused:
        await ask(socket)
    assert refused.value.code is GrpcCode.UNAVAILABLE


def frame(kind: int, flags: int, payload: str, *, stream: int = 1) -> str:
    """Return a frame in hexadecimal."""
    length = len(bytes.fromhex(payload))
    return f"{length:06x}{kind:02x}{flags:02x}{stream:08x}{payload}"


def trailers(**headers: str) -> str:
    """Return the frame that ends an answer."""
    named = [(name.replace("_", "-").encode(), text.encode()) for name, text in headers.items()]
    return frame(1, 0x5, Encoder().encode(named).hex())


@pytest.mark.parametrize(
    ("answer", "code", "complaint"),
    [
        ("", GrpcCode.UNAVAILABLE, "hung up"),
        (SETTINGS, GrpcCode.UNAVAILABLE, "hung up"),
        (SETTINGS + frame(3, 0, "00000007"), GrpcCode.UNAVAILABLE, "reset, HTTP/2 error 7"),
        (frame(7, 0, "0000000000000000", stream=0), GrpcCode.UNAVAILABLE, "takes no more calls"),
        (frame(1, 0x5, STATUS), GrpcCode.UNKNOWN, "that of HTTP is 200"),
        (trailers(grpc_status="0"), GrpcCode.INTERNAL, "cannot be read"),
        (trailers(grpc_status="99"), GrpcCode.INTERNAL, "cannot be read"),
        (
            frame(1, 0x4, STATUS) + frame(0, 0, "0100000000") + trailers(grpc_status="0"),
            GrpcCode.INTERNAL,
            "one plain message",
        ),
        (frame(1, 0x5, "be"), GrpcCode.INTERNAL, "cannot be read"),
        ("ffffff 00 00 00000001", GrpcCode.UNAVAILABLE, "hung up"),
        ("485454502f312e3120343030", GrpcCode.UNAVAILABLE, "hung up"),  # HTTP/1.1 400
    ],
)
async def test_a_server_that_breaks_off_or_talks_nonsense_is_an_error(
    socket: Path, answer: str, code: GrpcCode, complaint: str
) -> None:
    """With a code and a reason, never another exception."""
    async with scripted(socket, answer):
        with pytest.raises(CallFailed, match=complaint) as refused:
            await ask(socket)
    assert refused.value.code is code


async def test_padding_continuations_and_pings_are_understood(socket: Path) -> None:
    """The gRPC library sends none of them, but a server may."""
    block = Encoder().encode([(b"grpc-status", b"0")]).hex()
    answer = (
        SETTINGS
        + frame(6, 0, "0102030405060708", stream=0)
        + frame(1, 0x4 | 0x20, "0000000010" + STATUS)
        + frame(0, 0x8, "02" + "0000000002" + "6f6b" + "0000")
        + frame(1, 0x1, block[:8])
        + frame(9, 0x4, block[8:])
    )
    async with scripted(socket, answer):
        assert await ask(socket) == b"ok"


async def test_a_server_that_says_nothing_is_given_up(socket: Path) -> None:
    """After the time that the caller allows."""
    async with scripted(socket, SETTINGS, ends=False):
        with pytest.raises(CallFailed, match=r"no answer within 0\.05 s") as refused:
            await call(socket, METHOD, b"", within=0.05, at_most=MEGABYTE)
    assert refused.value.code is GrpcCode.DEADLINE_EXCEEDED


class scripted:  # noqa: N801 - reads as a function
    """A server that sends the same bytes to everybody, and hangs up unless told otherwise."""

    def __init__(self, socket: Path, answer: str, *, ends: bool = True) -> None:
        self._socket, self._answer, self._ends = socket, bytes.fromhex(answer), ends

    async def __aenter__(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self._socket)

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(self._answer)
        if self._ends:
            writer.write_eof()
        await reader.read()
        writer.close()
