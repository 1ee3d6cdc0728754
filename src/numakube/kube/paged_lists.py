"""Lists in pages: how many objects a page has, and what to do if the server forgets the state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

from numakube.errors import Expired

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from numakube.kube.request_parts import Query

P = TypeVar("P")

PAGE_SIZE: Final = 500
"""Objects in a page of a list; kubectl's and client-go's figure."""


async def read_pages(
    page: Callable[[Query], Awaitable[P]],
    following: Callable[[P], str],
    *,
    selectors: Query = (),
    resource_version: str = "",
    page_size: int = PAGE_SIZE,
) -> list[P]:
    """Return the pages of a list, all of one state.

    Args:
        page: asks for one page, with the given query.
        following: tells the continuation that a page ends with; empty after the last.
        selectors: parameters of every page.
        resource_version: the state to begin with, see `Client.list`.
        page_size: objects per request; 0 asks for all at once.
    """
    version: Query = (("resourceVersion", resource_version),)
    if resource_version not in ("", "0"):
        version = (*version, ("resourceVersionMatch", "NotOlderThan"))
    limit = ("limit", str(page_size) if page_size else "")
    first = await page((*selectors, *version, limit))
    try:
        return await _completed(page, following, first, (*selectors, limit))
    except Expired:
        # The pages read so far show a state that the server has forgotten. One answer with
        # everything in it cannot expire.
        everything = await page((*selectors, *version))
        return await _completed(page, following, everything, selectors)


async def _completed(
    page: Callable[[Query], Awaitable[P]], following: Callable[[P], str], first: P, query: Query
) -> list[P]:
    """Return *first* and the pages that follow it."""
    pages = [first]
    while further := following(pages[-1]):
        # A continuation names its resource version itself.
        pages.append(await page((*query, ("continue", further))))
    return pages
