"""The dashboard as routes that a program mounts in its server.

dashboard = Dashboard(source, gate=Gate(clock, host=listen.host, path=PREFIX, access=access))
serving = Serving(listen, health=health, registry=registry, routes=dashboard.routes())
async with serving:
    ...
    dashboard.close()  # before the server is, which waits for open streams
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from aiohttp import web

from numakube.apps.host.http_serving import body_of
from numakube_pages.live_updates import Live
from numakube_pages.page_access import COOKIE, HEADERS, SESSION_SECONDS
from numakube_pages.pages import Pages

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numakube.apps.host.http_serving import Handler
    from numakube_pages.history_view import History
    from numakube_pages.page_access import Gate
    from numakube_pages.page_source import Source


PREFIX: Final = "/dashboard/"
_LONGEST_FORM: Final = 1 << 16


class Dashboard:
    """The routes of one dashboard."""

    def __init__(
        self,
        source: Source,
        *,
        gate: Gate,
        title: str = "numakube",
        live: Live | None = None,
        visited: Callable[[], Awaitable[None]] | None = None,
        history: History | None = None,
    ) -> None:
        """Prepare pages about *source*; *visited* is awaited before one is made.

        Without a *history* its page says where one comes from.
        """
        self._source = source
        self._visited = visited
        self._gate = gate
        self.live = Live(source) if live is None else live
        self._pages = Pages(source, prefix=gate.path, title=title, history=history)

    def routes(self, *, at_root: bool = False) -> list[web.RouteDef]:
        """Return the routes; *at_root*: ``/`` leads to the first page."""
        pages, path = self._pages, self._gate.path

        def guarded(handler: Handler) -> Handler:
            return self._gate.guarded(self._looking(handler))

        routes = [
            web.get(path, guarded(pages.overview)),
            web.get(path + "nodes", guarded(pages.nodes)),
            web.get(path + "nodes/{name:[^/]+}", guarded(pages.node)),
            web.get(path + "pods", guarded(pages.pods)),
            web.get(path + "pods/{namespace:[^/]+}/{name:[^/]+}", guarded(pages.pod)),
            web.get(path + "pending", guarded(pages.pending)),
            web.get(path + "mispredictions", guarded(pages.mispredictions)),
            web.get(path + "caches", guarded(pages.caches)),
            web.get(path + "history", guarded(pages.history)),
            web.get(path + "search", guarded(pages.search)),
            web.get(path + "heat", guarded(pages.heat)),
            web.get(path + "fits", guarded(pages.fits)),
            web.get(path + "events", guarded(self._events), allow_head=False),
            # No secrets in there, and the page that asks for a token needs them.
            web.get(path + "static/{folder}/{name}", self._gate.shielded(pages.asset)),
            web.get(path + "login", self._gate.shielded(self._ask)),
            web.post(path + "login", self._gate.shielded(self._enter)),
            web.post(path + "logout", self._gate.shielded(self._leave)),
            web.get(path.rstrip("/"), self._gate.shielded(self._first_page)),
            web.get(path + "{rest:.+}", guarded(pages.nowhere), allow_head=False),
        ]
        if at_root:
            routes.append(web.get("/", self._gate.shielded(self._first_page)))
        return routes

    def _looking(self, handler: Handler) -> Handler:
        """Return *handler* with the source open: a page is being viewed."""

        async def answer(request: web.Request) -> web.StreamResponse:
            if self._visited is not None:
                await self._visited()
            self._source.open()
            return await handler(request)

        return answer

    def close(self) -> None:
        """End open streams and stop listening to the source."""
        self.live.close()
        self._source.close()

    async def _events(self, request: web.Request) -> web.StreamResponse:
        return await self.live.stream(request, lambda: self._gate.admits(request))

    async def _first_page(self, _: web.Request) -> web.Response:
        raise web.HTTPFound(self._gate.path, headers=HEADERS)

    async def _ask(self, request: web.Request) -> web.Response:
        return self._pages.login(target=self._gate.inward(request.query.get("next", "")))

    async def _enter(self, request: web.Request) -> web.Response:
        length = request.content_length
        if length is None or length > _LONGEST_FORM:
            raise web.HTTPRequestEntityTooLarge(max_size=_LONGEST_FORM, actual_size=length or 0)
        form = dict(parse_qsl((await body_of(request)).decode(errors="replace")))
        target = self._gate.inward(form.get("next", ""))
        number = await self._gate.enter(form.get("token", "").strip())
        if not number:
            return self._pages.login(target=target, wrong=True)
        answer = web.HTTPSeeOther(target, headers=HEADERS)
        answer.set_cookie(
            COOKIE,
            number,
            path=self._gate.path,
            max_age=int(SESSION_SECONDS),
            httponly=True,
            secure=request.secure,
            samesite="Strict",
        )
        raise answer

    async def _leave(self, request: web.Request) -> web.Response:
        self._gate.leave(request)
        answer = web.HTTPSeeOther(f"{self._gate.path}login", headers=HEADERS)
        answer.del_cookie(COOKIE, path=self._gate.path)
        raise answer
