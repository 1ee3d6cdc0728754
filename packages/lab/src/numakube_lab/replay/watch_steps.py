"""Read a watch the way the recordings were made."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import aiohttp

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numakube_lab.kinds import Json
    from numakube_lab.replay.cases import Step

AT_ONCE_SECONDS: Final = 0.15
"""How long a watch must be silent before what it began with is taken as complete."""

CLOSE_SECONDS: Final = 30.0
"""How long to wait for a server to close a watch."""

_INITIAL_END: Final = "k8s.io/initial-events-end"


@dataclass
class WatchedEvents:
    """What a watch delivered.

    Attributes:
        events: everything but plain bookmarks.
        bookmark: the object of the last plain bookmark.
        closed: whether the server ended the watch.
    """

    events: list[Json] = field(default_factory=list)
    bookmark: Json | None = None
    closed: bool = False

    def add(self, event: Json) -> None:
        """Take note of *event*."""
        annotations = event["object"].get("metadata", {}).get("annotations", {})
        if event["type"] == "BOOKMARK" and _INITIAL_END not in annotations:
            self.bookmark = event["object"]
        else:
            self.events.append(event)


async def read_watch(
    response: aiohttp.ClientResponse, step: Step, meanwhile: Callable[[], Awaitable[None]]
) -> WatchedEvents:
    """Read what comes at once, do *meanwhile*, then read until quiet or closed."""
    watched = WatchedEvents()
    await _read_until_quiet(response, watched, AT_ONCE_SECONDS)
    await meanwhile()
    to_close = step.until == "close"
    await _read_until_quiet(response, watched, CLOSE_SECONDS if to_close else step.quiet_ms / 1000)
    return watched


async def _read_until_quiet(
    response: aiohttp.ClientResponse, watched: WatchedEvents, seconds: float
) -> None:
    while not watched.closed:
        try:
            async with asyncio.timeout(seconds):
                line = await response.content.readline()
        except TimeoutError:
            return
        except aiohttp.ClientError:
            line = b""
        if line:
            watched.add(json.loads(line))
        else:
            watched.closed = True
