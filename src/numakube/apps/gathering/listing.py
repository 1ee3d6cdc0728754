"""All objects of a kind as one JSON list, byte for byte as the server wrote them, page by page."""

from typing import Any

import msgspec

from numakube.api.codec import BROKEN_JSON
from numakube.api.meta import ListMeta
from numakube.api.wire import Wire
from numakube.errors import Expired, MalformedObject
from numakube.kube.client import PAGE_SIZE, Client
from numakube.kube.requests import list_request
from numakube.kube.resources import Resource


class _Page(Wire, frozen=True):
    api_version: str = ""
    kind: str = ""
    metadata: ListMeta = ListMeta()
    items: tuple[msgspec.Raw, ...] | None = None


async def list_raw(
    client: Client, resource: Resource[Any], *, namespace: str = "", page_size: int = PAGE_SIZE
) -> bytes:
    """Return the list of all objects, or of those in *namespace*, as the server would give it."""
    path = resource.collection_path(namespace=namespace)
    try:
        pages = await _pages(client, path, page_size)
    except Expired:
        # Too slow for the server's memory: one answer with everything in it cannot expire.
        pages = await _pages(client, path, 0)
    first = pages[0]
    return msgspec.json.encode(
        {
            "apiVersion": first.api_version or resource.api_version,
            "kind": first.kind or f"{resource.kind}List",
            "metadata": {"resourceVersion": first.metadata.resource_version},
            "items": [item for page in pages for item in page.items or ()],
        }
    )


async def _pages(client: Client, path: str, page_size: int) -> list[_Page]:
    limit = ("limit", str(page_size) if page_size else "")
    pages = [await _page(client, path, limit)]
    while pages[-1].metadata.continue_:
        further = ("continue", pages[-1].metadata.continue_)
        pages.append(await _page(client, path, limit, further))
    return pages


async def _page(client: Client, path: str, *query: tuple[str, str]) -> _Page:
    response = await client.request(list_request(path, query))
    try:
        return msgspec.json.decode(response.body, type=_Page)
    except BROKEN_JSON as error:
        raise MalformedObject(f"the list {path}", f"not readable: {error}") from None
