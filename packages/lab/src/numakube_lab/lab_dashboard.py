"""The dashboard of a lab: served from the start, fed from the first visit on.

Most labs are looked at by programs only. So nothing is mirrored until the first page is
opened, which takes a moment longer.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Final

from aiohttp import web

from numakube.apps.dashboard.dashboard import PREFIX, Dashboard
from numakube.apps.dashboard.page_access import Gate
from numakube.apps.dashboard.watched_source import Reflection
from numakube.apps.host.endpoint_access import Access
from numakube_lab.lifetime import Lifetime

if TYPE_CHECKING:
    import ssl
    from collections.abc import AsyncIterator, Awaitable, Callable

    from numakube.kube.client import Client

_FIRST_VISIT_SECONDS: Final = 10.0


class LabDashboard(Lifetime):
    """Serves the pages of one lab; use it as a context.

    Attributes:
        url: the address of the first page.
    """

    def __init__(self, client: Client, *, name: str, host: str) -> None:
        self._host = host
        self._reflection = Reflection(client)
        gate = Gate(client.clock, host=host, path=PREFIX, access=Access(client, host=host))
        self._dashboard = Dashboard(self._reflection.source, gate=gate, title=f"numakube {name}")
        self._visited = asyncio.Event()
        self.tls: ssl.SSLContext | None = None
        self.url = ""

    async def live(self) -> AsyncIterator[None]:
        """Serve the pages."""
        application = web.Application(middlewares=[self._on_visit])
        application.add_routes(self._dashboard.routes(at_root=True))
        runner = web.AppRunner(application, handle_signals=False, access_log=None)
        async with AsyncExitStack() as stack:
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, self._host, 0, ssl_context=self.tls).start()
            feeding = asyncio.create_task(self._feed(), name="lab-dashboard")
            stack.push_async_callback(_ended, feeding)
            # Open streams end first: the server waits for them.
            stack.callback(self._dashboard.close)
            host, port = runner.addresses[0][:2]
            scheme = "http" if self.tls is None else "https"
            self.url = f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{PREFIX}"
            yield

    @web.middleware
    async def _on_visit(
        self,
        request: web.Request,
        handler: Callable[[web.Request], Awaitable[web.StreamResponse]],
    ) -> web.StreamResponse:
        if not self._visited.is_set():
            self._visited.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(_FIRST_VISIT_SECONDS):
                    await self._reflection.synced()
        return await handler(request)

    async def _feed(self) -> None:
        await self._visited.wait()
        await self._reflection.run()


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
