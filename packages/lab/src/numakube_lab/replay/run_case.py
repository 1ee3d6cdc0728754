"""Runs recorded cases against an API server, and compares.

Send the requests of a case, filled with what earlier answers held, and read watches.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final

import aiohttp
from msgspec import UNSET

from kube_lab_server import COMPACT_PATH, ApiServer, User
from numakube_lab.replay.recorded_cases import (
    AnswerFilter,
    Matcher,
    RecordedCase,
    RecordedStep,
    own_strings,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
    from pathlib import Path

    from kube_lab_server import Json, JsonValue


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

    def capture(self, step: RecordedStep, answer: Answer) -> None:
        """Keep what *step* wants to know of its answer."""
        if step.captures:
            document = answer.document()
            for name, pointer in step.captures.items():
                self.captured[name] = resolve(document, pointer)

    async def send(self, step: RecordedStep) -> Answer:
        """Send the request of *step* and return the whole answer."""
        async with self.request(step) as response:
            return received(response, await response.text(), None)

    def request(self, step: RecordedStep) -> aiohttp.client._RequestContextManager:
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

    def _headers(self, step: RecordedStep) -> dict[str, str]:
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
    response: aiohttp.ClientResponse, step: RecordedStep, meanwhile: Callable[[], Awaitable[None]]
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


_JSON: Final = "application/json"

POLL_SECONDS: Final = 20.0
POLL_INTERVAL: Final = 0.02


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What became of a case: it passed if there are no failures."""

    id: str
    topic: str
    failures: tuple[str, ...]


@dataclass
class Performer:
    """Performs one case on the server that *sender* sends to."""

    case: RecordedCase
    sender: Sender

    def __post_init__(self) -> None:
        self._matcher = Matcher(own_strings(self.case), self.case.managed_fields)

    async def perform(self) -> CaseOutcome:
        """Perform every step; the first that fails ends the case."""
        failures: list[str] = []
        for number, step in enumerate(self.case.steps, start=1):
            label = f"step {number} {step.op or step.method} {step.path}".rstrip()
            failures = [f"{label}: {text}" for text in await self._step(step)]
            if failures:
                break
        return CaseOutcome(self.case.id, self.case.topic, tuple(failures))

    async def clean_up(self) -> None:
        """Send the requests that leave a shared server as it was."""
        for step in self.case.cleanup:
            await _until(partial(self._cleaned, step))

    async def _step(self, step: RecordedStep) -> list[str]:
        await asyncio.sleep(step.settle_ms / 1000)
        if step.op == "compact":
            return await self._compact()
        if step.op == "parallel":
            return await self._parallel(step)
        if step.poll:
            return await self._poll(step)
        return await self._attempt(step)

    async def _cleaned(self, step: RecordedStep) -> bool:
        return (
            await self.sender.send(step)
        ).status == step.until_status or step.until_status is None

    async def _poll(self, step: RecordedStep) -> list[str]:
        failures: list[str] = []

        async def matched() -> bool:
            failures[:] = await self._attempt(step)
            return not failures

        await _until(matched)
        return failures

    async def _attempt(self, step: RecordedStep) -> list[str]:
        answer, failures = await self._answer(step)
        failures += self._check(step, answer)
        if not failures:
            self.sender.capture(step, answer)
        return failures

    async def _answer(self, step: RecordedStep) -> tuple[Answer, list[str]]:
        if step.op != "watch":
            return await self.sender.send(step), []
        failures: list[str] = []

        async def meanwhile() -> None:
            for inner in step.during:
                failures.extend(f"during: {text}" for text in await self._step(inner))

        async with self.sender.request(step) as response:
            watched = None
            if response.status == 200:
                watched = await read_watch(response, step, meanwhile)
            text = "" if watched else await response.text()
            return received(response, text, watched), failures

    async def _compact(self) -> list[str]:
        answer = await self.sender.send(RecordedStep(method="POST", path=COMPACT_PATH))
        return [] if answer.status == 200 else [f"cannot compact: {answer.status} {answer.text}"]

    async def _parallel(self, step: RecordedStep) -> list[str]:
        answers = await asyncio.gather(*(self.sender.send(request) for request in step.requests))
        got = sorted(answer.status for answer in answers)
        return [] if got == list(step.statuses) else [f"wanted {step.statuses}, got {got}"]

    def _check(self, step: RecordedStep, answer: Answer) -> list[str]:
        if step.status is not None and answer.status != step.status:
            return [f"status: wanted {step.status}, got {answer.status} {answer.text[:500]}"]
        if step.check == "status":
            return []
        return self._check_headers(step, answer) + self._check_content(step, answer)

    def _check_headers(self, step: RecordedStep, answer: Answer) -> list[str]:
        failures = []
        got = answer.content_type
        # Parameters of JSON, such as those of aggregated discovery, were not recorded.
        if got.startswith(f"{_JSON};"):
            got = _JSON
        if got != step.content_type and answer.watched is None:
            failures.append(f"type: wanted {step.content_type}, got {got}")
        if answer.warnings != step.warnings:
            failures.append(f"warnings: wanted {step.warnings}, got {answer.warnings}")
        if step.retry_after is not UNSET and answer.retry_after != str(step.retry_after):
            failures.append(f"Retry-After: wanted {step.retry_after}, got {answer.retry_after}")
        return failures

    def _check_content(self, step: RecordedStep, answer: Answer) -> list[str]:
        if step.response_text is not None:
            return self._differences(step, step.response_text, answer.text)
        if step.events is not UNSET:
            return self._check_watch(step, answer)
        if step.response is UNSET:
            return []
        try:
            document = answer.document()
        except ValueError:
            return [f"not JSON: {answer.text[:200]!r}"]
        return self._differences(step, step.response, filtered(document, step.filter))

    def _check_watch(self, step: RecordedStep, answer: Answer) -> list[str]:
        if answer.watched is None:
            return [f"not a watch: {answer.text[:200]!r}"]
        wanted: Json = {"events": step.events}
        got: Json = {"events": answer.watched.events}
        if step.closed is not None:
            wanted["closed"], got["closed"] = step.closed, answer.watched.closed
        if step.bookmark is not UNSET:
            wanted["bookmark"], got["bookmark"] = step.bookmark, answer.watched.bookmark
        return self._differences(step, wanted, got)

    def _differences(self, step: RecordedStep, wanted: JsonValue, got: JsonValue) -> list[str]:
        contains = step.compare == "contains"
        return [str(d) for d in self._matcher.differences(wanted, got, contains=contains)]


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *condition* holds, but no longer than a poll may last."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + POLL_SECONDS
    while not await condition() and loop.time() < deadline:  # noqa: ASYNC110 - a remote condition
        await asyncio.sleep(POLL_INTERVAL)


def filtered(document: JsonValue, rule: AnswerFilter | None) -> JsonValue:
    """Return the part of *document* that *rule* says is to be compared."""
    if rule is None:
        return document
    target = resolve(document, rule.pointer)
    if rule.keys:
        return sorted(key for key in target or () if key in rule.values)
    if isinstance(target, list):
        named = {resolve(item, rule.key or ""): item for item in target}
        target[:] = [named[value] for value in rule.values if value in named]
    return document


# Replay a file of cases and report.


TOKENS: Final = {
    "admin": "replay-admin",
    "alice": "replay-alice",
    "bob": "replay-bob",
    "invalid": "replay-nobody",
}
"""The bearer tokens of the users that cases speak of."""

USERS: Final = {
    TOKENS["admin"]: User("admin", "admin", ("system:masters",)),
    TOKENS["alice"]: User("alice", "u-alice", ("devs",)),
    TOKENS["bob"]: User("bob", "u-bob", ("ops",)),
}

# A watch is mostly waiting, so many cases at once cost little more than one.
CONCURRENT_CASES: Final = 32


@dataclass(frozen=True, slots=True)
class TopicTally:
    """How many cases of a topic passed."""

    topic: str
    passed: int
    failed: int


async def replay(
    cases: Iterable[RecordedCase], server: str | None = None, *, ca: Path | None = None
) -> AsyncIterator[CaseOutcome]:
    """Yield the outcome of each of *cases* in order.

    Without *server* each case has a fresh API server of its own and they run side by side; with
    the address of one they run on it in sequence and are cleaned up after. It has to know the
    users of `TOKENS`; *ca* is a file of the certificates by which to trust it.
    """
    gate = asyncio.Semaphore(1 if server else CONCURRENT_CASES)

    async def one(case: RecordedCase) -> CaseOutcome:
        async with gate:
            return await perform(case, server, ca=ca)

    tasks = [asyncio.create_task(one(case), name=case.id) for case in cases]
    try:
        for task in tasks:
            yield await task
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def perform(
    case: RecordedCase, server: str | None = None, *, ca: Path | None = None
) -> CaseOutcome:
    """Perform *case* on the API server at address *server*, or on a fresh one."""
    async with AsyncExitStack() as stack:
        url = server
        if url is None:
            fresh = ApiServer(users=USERS, rbac=True, anonymous=case.server.anonymous_auth)
            url = (await stack.enter_async_context(fresh)).url
        tls = ssl.create_default_context(cafile=ca) if ca else True
        connector = aiohttp.TCPConnector(ssl=tls)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        performer = Performer(case, Sender(session, url, TOKENS))
        outcome = await performer.perform()
        if server is not None:
            await performer.clean_up()
        return outcome


def tally(outcomes: Iterable[CaseOutcome]) -> list[TopicTally]:
    """Count *outcomes* by topic."""
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for outcome in outcomes:
        (failed if outcome.failures else passed)[outcome.topic] += 1
    return [TopicTally(topic, passed[topic], failed[topic]) for topic in sorted(passed + failed)]


def table(tallies: Sequence[TopicTally]) -> str:
    """Return *tallies* as a table for people."""
    rows = [f"{'topic':<18}{'passed':>8}{'failed':>8}{'':>8}"]
    for entry in tallies:
        share = 100 * entry.passed / (entry.passed + entry.failed)
        rows.append(f"{entry.topic:<18}{entry.passed:>8}{entry.failed:>8}{share:>7.1f}%")
    return "\n".join(rows)
