"""Perform a case: send its requests over HTTP and compare the answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from numakube_lab.api.server.http_front import COMPACT_PATH
from numakube_lab.replay.answer_matching import Matcher
from numakube_lab.replay.recorded_cases import Case, Filter, Step, own_strings
from numakube_lab.replay.request_sending import Answer, Sender, read_watch, received, resolve

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numakube_lab.kinds import Json, JsonValue

_JSON: Final = "application/json"

POLL_SECONDS: Final = 20.0
POLL_INTERVAL: Final = 0.02


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a case: it passed if there are no failures."""

    id: str
    topic: str
    failures: tuple[str, ...]


@dataclass
class Performer:
    """Performs one case on the server that *sender* sends to."""

    case: Case
    sender: Sender

    def __post_init__(self) -> None:
        self._matcher = Matcher(own_strings(self.case), self.case.managed_fields)

    async def perform(self) -> Outcome:
        """Perform every step; the first that fails ends the case."""
        failures: list[str] = []
        for number, step in enumerate(self.case.steps, start=1):
            label = f"step {number} {step.op or step.method} {step.path}".rstrip()
            failures = [f"{label}: {text}" for text in await self._step(step)]
            if failures:
                break
        return Outcome(self.case.id, self.case.topic, tuple(failures))

    async def clean_up(self) -> None:
        """Send the requests that leave a shared server as it was."""
        for step in self.case.cleanup:
            await _until(partial(self._cleaned, step))

    async def _step(self, step: Step) -> list[str]:
        await asyncio.sleep(step.settle_ms / 1000)
        if step.op == "compact":
            return await self._compact()
        if step.op == "parallel":
            return await self._parallel(step)
        if step.poll:
            return await self._poll(step)
        return await self._attempt(step)

    async def _cleaned(self, step: Step) -> bool:
        return (
            await self.sender.send(step)
        ).status == step.until_status or step.until_status is None

    async def _poll(self, step: Step) -> list[str]:
        failures: list[str] = []

        async def matched() -> bool:
            failures[:] = await self._attempt(step)
            return not failures

        await _until(matched)
        return failures

    async def _attempt(self, step: Step) -> list[str]:
        answer, failures = await self._answer(step)
        failures += self._check(step, answer)
        if not failures:
            self.sender.capture(step, answer)
        return failures

    async def _answer(self, step: Step) -> tuple[Answer, list[str]]:
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
        answer = await self.sender.send(Step(method="POST", path=COMPACT_PATH))
        return [] if answer.status == 200 else [f"cannot compact: {answer.status} {answer.text}"]

    async def _parallel(self, step: Step) -> list[str]:
        answers = await asyncio.gather(*(self.sender.send(request) for request in step.requests))
        got = sorted(answer.status for answer in answers)
        return [] if got == list(step.statuses) else [f"wanted {step.statuses}, got {got}"]

    def _check(self, step: Step, answer: Answer) -> list[str]:
        if step.status is not None and answer.status != step.status:
            return [f"status: wanted {step.status}, got {answer.status} {answer.text[:500]}"]
        if step.check == "status":
            return []
        return self._check_headers(step, answer) + self._check_content(step, answer)

    def _check_headers(self, step: Step, answer: Answer) -> list[str]:
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

    def _check_content(self, step: Step, answer: Answer) -> list[str]:
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

    def _check_watch(self, step: Step, answer: Answer) -> list[str]:
        if answer.watched is None:
            return [f"not a watch: {answer.text[:200]!r}"]
        wanted: Json = {"events": step.events}
        got: Json = {"events": answer.watched.events}
        if step.closed is not None:
            wanted["closed"], got["closed"] = step.closed, answer.watched.closed
        if step.bookmark is not UNSET:
            wanted["bookmark"], got["bookmark"] = step.bookmark, answer.watched.bookmark
        return self._differences(step, wanted, got)

    def _differences(self, step: Step, wanted: JsonValue, got: JsonValue) -> list[str]:
        contains = step.compare == "contains"
        return [str(d) for d in self._matcher.differences(wanted, got, contains=contains)]


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait until *condition* holds, but no longer than a poll may last."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + POLL_SECONDS
    while not await condition() and loop.time() < deadline:  # noqa: ASYNC110 - a remote condition
        await asyncio.sleep(POLL_INTERVAL)


def filtered(document: JsonValue, rule: Filter | None) -> JsonValue:
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
