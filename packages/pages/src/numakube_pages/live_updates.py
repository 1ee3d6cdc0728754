"""Server-sent events that tell a page that it is out of date, and the map which rows changed.

They also say whether the server itself is up to date. Changes of a second are sent together; a
heart-beat keeps proxies and browsers from giving up, and is when the caller's right is checked
again. A browser connects again by itself.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import msgspec
from aiohttp import web

from numakube_pages.heatmap import USED
from numakube_pages.page_access import HEADERS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Hashable

    from numakube_pages.page_source import Source

MOST_STREAMS: Final = 64
PAUSE_SECONDS: Final = 0.5
GLANCE_SECONDS: Final = 1.0
"""Nothing wakes a stream when the API server goes away; it looks after it this often."""
HEARTBEAT_SECONDS: Final = 15.0
RETRY_MILLISECONDS: Final = 2000
_DIGITS: Final = 18

_STREAM_HEADERS: Final = {
    **HEADERS,
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Accel-Buffering": "no",
}


class Live:
    """All open streams of one dashboard."""

    def __init__(
        self,
        source: Source,
        *,
        pause: float = PAUSE_SECONDS,
        heartbeat: float = HEARTBEAT_SECONDS,
        glance: float = GLANCE_SECONDS,
    ) -> None:
        self._source = source
        self._pause = pause
        self._glance = min(glance, heartbeat)
        self.heartbeat = heartbeat
        self._closing = asyncio.Event()
        self.streams = 0

    def close(self) -> None:
        """End all streams, so that the server can end."""
        self._closing.set()

    async def stream(
        self, request: web.Request, may_go_on: Callable[[], Awaitable[bool]]
    ) -> web.StreamResponse:
        """Tell of changes until the caller goes, may no longer see them, or the server ends."""
        if self.streams >= MOST_STREAMS or self._closing.is_set():
            raise web.HTTPServiceUnavailable(
                text="too many pages are open\n", headers={"Retry-After": "30"}
            )
        response = web.StreamResponse(headers=_STREAM_HEADERS)
        self.streams += 1
        try:
            await response.prepare(request)
            await response.write(f"retry: {RETRY_MILLISECONDS}\n\n".encode())
            with suppress(ConnectionResetError):
                await _Stream(self._source, request, response).run(self, may_go_on)
        finally:
            self.streams -= 1
        return response

    async def next_turn(self, woken: asyncio.Event) -> bool:
        """Wait for a change, the next glance or the end; tell whether there was a change."""
        waits = [asyncio.ensure_future(event.wait()) for event in (woken, self._closing)]
        try:
            await asyncio.wait(waits, timeout=self._glance, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if not woken.is_set() or self.closing:
            return False
        woken.clear()
        return True

    async def rest(self) -> None:
        """Let changes gather, unless the server ends."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._pause):
                await self._closing.wait()

    @property
    def closing(self) -> bool:
        """Whether the server ends."""
        return self._closing.is_set()


class _Stream:
    """What one page receives."""

    def __init__(self, source: Source, request: web.Request, response: web.StreamResponse) -> None:
        query = request.query
        self._source = source
        self._response = response
        self._topic = query.get("topic", "")
        self._resource = query.get("resource", "")
        self._measure = query.get("measure", USED)
        self._layout = _number(query.get("layout"))
        self._version = _number(query.get("version"))
        self._state: Hashable = None
        self._missing: str | None = None

    async def run(self, live: Live, may_go_on: Callable[[], Awaitable[bool]]) -> None:
        self._state = self._page_state()
        clock = self._source.clock
        heard = clock.monotonic()
        with self._source.woken() as woken:
            await self._tell_whether_live()
            await self._tell_map()
            while not live.closing:
                changed = await live.next_turn(woken)
                await self._tell_whether_live()
                if changed:
                    await self._tell_page()
                    await self._tell_map()
                    await live.rest()
                elif clock.monotonic() - heard >= live.heartbeat:
                    if not await may_go_on():
                        return
                    await self._response.write(b": still here\n\n")
                    heard = clock.monotonic()

    async def _tell_whether_live(self) -> None:
        """Say what is missing whenever that changes; nothing is, as long as all watches are."""
        missing = self._source.missing()
        if missing != self._missing:
            self._missing = missing
            await self._send("state", {"missing": missing})
            await self._tell_page()

    def _page_state(self) -> Hashable:
        return self._source.state_of(self._topic), self._source.missing()

    async def _tell_page(self) -> None:
        state = self._page_state()
        if state != self._state:
            self._state = state
            await self._send("page", {"version": self._source.version})

    async def _tell_map(self) -> None:
        if not self._resource:
            return
        news = await self._source.zone_book.heat_since(
            self._resource, layout=self._layout, version=self._version, measure=self._measure
        )
        self._layout, self._version = news["layout"], news["version"]
        if news.get("rows") != []:
            await self._send("map", news)

    async def _send(self, event: str, data: dict[str, Any]) -> None:
        body = msgspec.json.encode(data)
        await self._response.write(b"event: " + event.encode() + b"\ndata: " + body + b"\n\n")


def _number(text: str | None) -> int:
    text = text or ""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else 0
