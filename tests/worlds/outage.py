"""A way to the API server that can be cut: what clients see when the server is killed.

Requests under way get no answer, whether they were carried out or not. Until the server is back
every request is refused. What it had stored is kept, as etcd keeps it.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from numakube.errors import ClusterUnreachable
from numakube.kube.connection.transport import Request, Response, Stream, Transport


@dataclass(slots=True)
class Server:
    """Whether the server is there.

    Attributes:
        lives: how often it was started.
    """

    is_up: bool = True
    lives: int = 1

    def kill(self) -> None:
        """Cut everybody off."""
        self.is_up = False

    def start(self) -> None:
        """Serve again."""
        self.is_up = True
        self.lives += 1


class Line:
    """A transport that reaches the server while it is up."""

    def __init__(self, inner: Transport, server: Server) -> None:
        self._inner = inner
        self._server = server

    async def send(self, request: Request) -> Response:
        """Return the answer, if the server lives to give it."""
        life = self._life()
        answer = await self._inner.send(request)
        if not self._server.is_up or self._server.lives != life:
            raise ClusterUnreachable("the connection was lost", sent=True)
        return answer

    @contextlib.asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[Stream]:
        """Give the answer as a stream; the server ends all streams when it is killed."""
        self._life()
        async with self._inner.open(request) as stream:
            yield stream

    async def aclose(self) -> None:
        """Close what is behind it."""
        await self._inner.aclose()

    def _life(self) -> int:
        if not self._server.is_up:
            raise ClusterUnreachable("connection refused", refused=True)
        return self._server.lives
