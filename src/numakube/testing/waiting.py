"""Waiting for an effect: the only place where tests sleep.

A test waits for the very effect that it asserts, not for another one that usually comes with it.
What announces itself by an event or a watch needs none of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import time
from typing import TYPE_CHECKING, Any, TypeVar, overload

from numakube.errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

T = TypeVar("T")

PATIENCE_SECONDS = 120.0
"""After this time, what should come true never will, on however slow a machine."""

_SHORTEST_PAUSE = 0.001
_LONGEST_PAUSE = 0.05


@overload
async def until(
    look: Callable[[], Awaitable[T | None]],
    holds: Callable[[T], object] = bool,
    *,
    within: float = PATIENCE_SECONDS,
    despite: tuple[type[Exception], ...] = (NotFound,),
    news: asyncio.Event | None = None,
) -> T: ...
@overload
async def until(
    look: Callable[[], T | None],
    holds: Callable[[T], object] = bool,
    *,
    within: float = PATIENCE_SECONDS,
    despite: tuple[type[Exception], ...] = (NotFound,),
    news: asyncio.Event | None = None,
) -> T: ...
async def until(
    look: Callable[[], Any],
    holds: Callable[[Any], object] = bool,
    *,
    within: float = PATIENCE_SECONDS,
    despite: tuple[type[Exception], ...] = (NotFound,),
    news: asyncio.Event | None = None,
) -> Any:
    """Return what *look* sees as soon as *holds* for it; the failure shows what it saw last.

    Args:
        look: returns what there is now, or a coroutine for it; None is nothing yet.
        holds: tells whether that is what was waited for.
        within: seconds to wait.
        despite: exceptions of *look* that mean "not yet"; by default, that an object is missing.
        news: set whenever it is worthwhile to look again before the pause is over.
    """
    seen: Any = None
    try:
        async with asyncio.timeout(within) as limit:
            for pause in _pauses():
                try:
                    found = look()
                    seen = await found if inspect.isawaitable(found) else found
                except despite as error:
                    seen = error
                else:
                    if seen is not None and holds(seen):
                        return seen
                await _pause(pause, news)
    except TimeoutError:
        if not limit.expired():
            raise
        raise AssertionError(_failure(seen, within)) from None


def until_blocking(
    look: Callable[[], T | None],
    holds: Callable[[T], object] = bool,
    *,
    within: float = PATIENCE_SECONDS,
) -> T:
    """Do as `until` does, where there is no event loop."""
    end = time.monotonic() + within
    for pause in _pauses():
        seen = look()
        if seen is not None and holds(seen):
            return seen
        if time.monotonic() > end:
            break
        time.sleep(pause)
    raise AssertionError(_failure(seen, within))


async def turns(count: int = 1) -> None:
    """Let the other tasks have *count* turns; no time passes."""
    for _ in range(count):
        await asyncio.sleep(0)


async def elapse(seconds: float) -> None:
    """Let real time pass, in a scenario of which that is a part; no effect is waited for so."""
    await asyncio.sleep(seconds)


async def _pause(seconds: float, news: asyncio.Event | None) -> None:
    if news is None:
        await asyncio.sleep(seconds)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await news.wait()
    news.clear()


def _pauses() -> Iterator[float]:
    """Yield ever longer pauses: most effects are close, and looking costs time as well."""
    pause = _SHORTEST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, _LONGEST_PAUSE)


def _failure(seen: object, within: float) -> str:
    return f"not within {within:g} s; seen last: {seen!r}"
