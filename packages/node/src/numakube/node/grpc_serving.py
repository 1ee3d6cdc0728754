"""Serving gRPC on a unix socket, as kubelets and device plugins do."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping
    from pathlib import Path


async def serve_socket(socket: Path, services: Mapping[str, Mapping[str, Any]]) -> Any:  # noqa: ANN401 - grpc has no types
    """Serve the handlers of each service of *services* on *socket*; return the server.

    Raises:
        RuntimeError: gRPC cannot listen there.
    """
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        tuple(
            grpc.method_handlers_generic_handler(name, handlers)
            for name, handlers in services.items()
        )
    )
    server.add_insecure_port(f"unix://{socket}")
    starting = asyncio.ensure_future(server.start())
    try:
        # gRPC cannot be cancelled while it starts, and warns of a server that is never stopped.
        await asyncio.shield(starting)
    except asyncio.CancelledError:
        await starting
        await server.stop(grace=None)
        raise
    return server


def unary_handler(
    answer: Callable[[Any, Any], Awaitable[Any]],
    request: Any,  # noqa: ANN401 - a class of messages
) -> Any:  # noqa: ANN401
    """Return what serves a call with one request and one answer."""
    return grpc.unary_unary_rpc_method_handler(
        answer,
        request_deserializer=request.FromString,
        response_serializer=lambda message: message.SerializeToString(),
    )
