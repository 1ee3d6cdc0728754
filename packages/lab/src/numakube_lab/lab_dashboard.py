"""The pages of a lab: what annexes add to the servers of programs, on an address of its own."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from aiohttp import web

from numakube.apps.debugging.annex_endpoints import AnnexEndpoints, ServingProgram
from numakube.apps.host import Access
from numakube_lab.lifetime import Lifetime

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator

    from numakube.kube import Client

_FIRST_PAGE: Final = "/dashboard/"


class LabDashboard(Lifetime):
    """Serves the pages of one lab; use it as a context.

    Attributes:
        url: the address of the first page.
    """

    def __init__(self, client: Client, *, name: str, host: str) -> None:
        self._access = Access(client, host=host)
        self._added = AnnexEndpoints(ServingProgram(client=client, title=f"numakube {name}"))
        self.tls: ssl.SSLContext | None = None
        self.url = ""

    async def live(self) -> AsyncIterator[None]:
        """Serve the pages."""
        host, application = self._access.host, web.Application()
        application.add_routes([*self._added.routes(self._access), web.get("/", _to_first_page)])
        runner = web.AppRunner(application, handle_signals=False, access_log=None)
        async with AsyncExitStack() as stack:
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, host, 0, ssl_context=self.tls).start()
            await stack.enter_async_context(self._added.served())
            host, port = runner.addresses[0][:2]
            scheme = "http" if self.tls is None else "https"
            self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{_FIRST_PAGE}"
            yield


async def _to_first_page(_: web.Request) -> web.Response:
    raise web.HTTPFound(_FIRST_PAGE)
