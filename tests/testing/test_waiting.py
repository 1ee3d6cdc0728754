"""Waiting says what it saw when it was in vain."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from numakube.testing import until, until_blocking


async def test_what_is_seen_is_returned_as_soon_as_it_holds() -> None:
    """None is nothing yet, and so is an exception that was named."""
    sights = iter([None, ValueError("too early"), 1, 2, 3])

    def look() -> int | None:
        seen = next(sights)
        if isinstance(seen, Exception):
            raise seen
        return seen

    assert await until(look, lambda seen: seen > 1, despite=(ValueError,)) == 2


async def test_a_failure_shows_what_was_seen_last() -> None:
    """In both forms."""
    count = itertools.count()

    async def look() -> str:
        return f"sight {next(count)}"

    with pytest.raises(AssertionError, match=r"not within 0.05 s; seen last: 'sight \d+'"):
        await until(look, lambda _: False, within=0.05)
    with pytest.raises(AssertionError, match="seen last: 'red'"):
        until_blocking(lambda: "red", lambda seen: seen == "green", within=0)


async def test_a_look_that_hangs_does_not_hide_what_was_seen_before() -> None:
    """As at a server that has stopped to answer."""
    sights = iter(["red"])

    async def look() -> str:
        for sight in sights:
            return sight
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(AssertionError, match="seen last: 'red'"):
        await until(look, lambda seen: seen == "green", within=0.05)


async def test_a_time_limit_inside_is_not_mistaken_for_ours() -> None:
    """It belongs to what was looked at."""

    async def look() -> bool:
        raise TimeoutError("the server does not answer")

    with pytest.raises(TimeoutError, match="the server does not answer"):
        await until(look)
