"""Replay a file of cases and report."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import aiohttp

from numakube_lab.api.access.authentication import User
from numakube_lab.api.server.api_server import ApiServer
from numakube_lab.replay.request_sending import Sender
from numakube_lab.replay.run_case import Outcome, Performer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Sequence
    from pathlib import Path

    from numakube_lab.replay.recorded_cases import Case

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
class Tally:
    """How many cases of a topic passed."""

    topic: str
    passed: int
    failed: int


async def replay(
    cases: Iterable[Case], server: str | None = None, *, ca: Path | None = None
) -> AsyncIterator[Outcome]:
    """Yield the outcome of each of *cases* in order.

    Without *server* each case has a fresh API server of its own and they run side by side; with
    the address of one they run on it in sequence and are cleaned up after. It has to know the
    users of `TOKENS`; *ca* is a file of the certificates by which to trust it.
    """
    gate = asyncio.Semaphore(1 if server else CONCURRENT_CASES)

    async def one(case: Case) -> Outcome:
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


async def perform(case: Case, server: str | None = None, *, ca: Path | None = None) -> Outcome:
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


def tally(outcomes: Iterable[Outcome]) -> list[Tally]:
    """Count *outcomes* by topic."""
    passed: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    for outcome in outcomes:
        (failed if outcome.failures else passed)[outcome.topic] += 1
    return [Tally(topic, passed[topic], failed[topic]) for topic in sorted(passed + failed)]


def table(tallies: Sequence[Tally]) -> str:
    """Return *tallies* as a table for people."""
    rows = [f"{'topic':<18}{'passed':>8}{'failed':>8}{'':>8}"]
    for entry in tallies:
        share = 100 * entry.passed / (entry.passed + entry.failed)
        rows.append(f"{entry.topic:<18}{entry.passed:>8}{entry.failed:>8}{share:>7.1f}%")
    return "\n".join(rows)
