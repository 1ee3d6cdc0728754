"""Reach the lab's API server from inside its process: requests without sockets.

The lab's own parts (controllers, a thousand kubelets) use the same client as everybody else, over
this transport. They are trusted: nothing is authenticated, and their rights are not checked.

    client = Client(InProcess(server, user="system:kube-scheduler"), rate=0)
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from multidict import CIMultiDict

from kube_lab_server import AUTHENTICATED, MASTERS, InsideRequest, User
from numakube.kube import Response

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from kube_lab_server import ApiServer, InsideAnswer
    from numakube.kube import Request


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
        answer = await self._ask(request)
        return Response(answer.status, answer.headers, await answer.read())

    @contextlib.asynccontextmanager
    async def open(self, request: Request) -> AsyncIterator[InsideAnswer]:
        """Give the answer to *request* as a stream."""
        async with contextlib.aclosing(await self._ask(request)) as answer:
            yield answer

    async def aclose(self) -> None:
        """Do nothing."""

    async def _ask(self, request: Request) -> InsideAnswer:
        asked = InsideRequest(
            request.method,
            request.path,
            request.query,
            self._headers_of(request),
            request.body or b"",
        )
        return await self._server.ask(self._user, asked)

    def _headers_of(self, request: Request) -> Mapping[str, str]:
        headers = CIMultiDict({"Accept": request.accept, "User-Agent": self._agent})
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        headers.extend(request.headers)
        return headers
