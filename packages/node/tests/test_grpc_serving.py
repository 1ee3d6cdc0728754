"""Serving gRPC on a unix socket."""

import asyncio
from pathlib import Path

import pytest

from numakube.node.grpc_serving import serve_socket


async def test_a_server_that_is_cancelled_while_it_starts_is_stopped(tmp_path: Path) -> None:
    """Another one can serve there at once."""
    socket = tmp_path / "s.sock"
    starting = asyncio.ensure_future(serve_socket(socket, {}))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    server = await serve_socket(socket, {})
    assert socket.is_socket()
    await server.stop(grace=None)
