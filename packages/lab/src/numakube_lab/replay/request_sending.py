"""Send the requests of a case, filled with what earlier answers held, and read watches."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import aiohttp
from msgspec import UNSET

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from numakube_lab.kinds import Json, JsonValue
    from numakube_lab.replay.recorded_cases import Step

_PLACEHOLDER: Final = re.compile(r"\$\{(\w+)\}")
_WARNING: Final = re.compile(r'299 - "((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer as received."""

    status: int
    content_type: str
    text: str
    warnings: tuple[str, ...] = ()
    retry_after: str | None = None
    watched: WatchedEvents | None = None

    def document(self) -> JsonValue:
        """Return what captures and comparisons look into."""
        if self.watched is not None:
            return {"events": self.watched.events}
        return json.loads(self.text)


@dataclass
class Sender:
    """Sends steps to the server at *url*; *tokens* maps the users to bearer tokens."""

    session: aiohttp.ClientSession
    url: str
    tokens: Mapping[str, str]
    captured: dict[str, JsonValue] = field(default_factory=dict)

    def capture(self, step: Step, answer: Answer) -> None:
        """Keep what *step* wants to know of its answer."""
        if step.captures:
            document = answer.document()
            for name, pointer in step.captures.items():
                self.captured[name] = resolve(document, pointer)

    async def send(self, step: Step) -> Answer:
        """Send the request of *step* and return the whole answer."""
        async with self.request(step) as response:
            return received(response, await response.text(), None)

    def request(self, step: Step) -> aiohttp.client._RequestContextManager:
        """Return the request of *step*, to be entered."""
        headers, data = self._headers(step), None
        if step.raw_body is not None:
            data = step.raw_body.encode()
        elif step.body is not UNSET:
            data = json.dumps(self._body(step.body)).encode()
        if data is not None and "Content-Type" not in step.headers:
            headers["Content-Type"] = "application/json"
        skip = ("Content-Type",) if "Content-Type" not in headers else ()
        return self.session.request(
            step.method,
            self.url + self._fill(step.path),
            params=self._query(step.query),
            headers=headers,
            data=data,
            skip_auto_headers=skip,
        )

    def _headers(self, step: Step) -> dict[str, str]:
        headers = {"Accept": "application/json", **step.headers}
        if token := self.tokens.get(step.user):
            headers["Authorization"] = f"Bearer {token}"
        return {name: value for name, value in headers.items() if value}

    def _query(self, query: Json) -> list[tuple[str, str]]:
        pairs = []
        for name, value in query.items():
            values = value if isinstance(value, list) else [value]
            pairs += [(name, self._fill(str(item))) for item in values]
        return pairs

    def _fill(self, text: str) -> str:
        return _PLACEHOLDER.sub(lambda match: str(self.captured[match[1]]), text)

    def _body(self, body: JsonValue) -> JsonValue:
        match body:
            case str():
                whole = _PLACEHOLDER.fullmatch(body)
                return self.captured[whole[1]] if whole else self._fill(body)
            case {"$from": str(name)}:
                return self._changed(self.captured[name], body)
            case dict():
                return {key: self._body(value) for key, value in body.items()}
            case list():
                return [self._body(value) for value in body]
            case _:
                return body

    def _changed(self, document: JsonValue, changes: Json) -> JsonValue:
        copy = json.loads(json.dumps(document))
        for pointer, value in changes.get("$set", {}).items():
            parent, key = _parent(copy, pointer)
            parent[key] = self._body(value)
        for pointer in changes.get("$remove", ()):
            parent, key = _parent(copy, pointer)
            del parent[key]
        return copy


def received(response: aiohttp.ClientResponse, text: str, watched: WatchedEvents | None) -> Answer:
    """Return what counts of *response*, whose body is *text* or was *watched*."""
    headers = response.headers
    warnings = [
        re.sub(r"\\(.)", r"\1", warning)
        for value in headers.getall("Warning", [])
        for warning in _WARNING.findall(value)
    ]
    return Answer(
        status=response.status,
        content_type=headers.get("Content-Type", ""),
        text=text,
        warnings=tuple(warnings),
        retry_after=headers.get("Retry-After"),
        watched=watched,
    )


def resolve(document: JsonValue, pointer: str) -> JsonValue:
    """Return what the JSON pointer names; None if there is nothing."""
    for part in _parts(pointer):
        try:
            document = document[int(part)] if isinstance(document, list) else document[part]
        except (KeyError, IndexError, TypeError):
            return None
    return document


def _parent(document: JsonValue, pointer: str) -> tuple[JsonValue, JsonValue]:
    *parts, last = _parts(pointer)
    for part in parts:
        if isinstance(document, list):
            document = document[int(part)]
        else:
            document = document.setdefault(part, {})
    if isinstance(document, list):
        return document, int(last)
    return document, last


def _parts(pointer: str) -> list[str]:
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


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
