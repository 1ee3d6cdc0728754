"""Remove from a server whatever was not there before a test, of every kind that it has."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from numakube.errors import NotFound
from numakube.kube.catalog import CORE_EVENTS, CUSTOM_RESOURCE_DEFINITIONS
from numakube.kube.client import Client, merge_patch
from numakube.kube.resource_types import Document, Resource
from numakube.testing import until
from numakube_lab.controllers.cluster.garbage_collector import collectable_resources

_AT_A_TIME = 16


class Sweeper:
    """Knows what was there."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._known: set[str] = set()
        self._resources: list[Resource[Document]] = []

    async def look(self) -> None:
        """Take note of everything that is there."""
        found = await collectable_resources(self._client)
        self._resources = [resource.raw for resource in found] + [CORE_EVENTS.raw]
        self._known = {one["metadata"]["uid"] for _, one in await self._all()}

    async def sweep(self) -> int:
        """Remove everything that has come since; return how much that was.

        Namespaces are last, they must be empty.
        """
        new = [(kind, one) for kind, one in await self._all() if not self._is_known(one)]
        limit = asyncio.Semaphore(_AT_A_TIME)

        async def remove(kind: Resource[Document], one: Document) -> None:
            async with limit:
                with contextlib.suppress(NotFound):
                    await self._remove(kind, one)

        for last in (False, True):
            turn = [one for one in new if (one[0].plural == "namespaces") is last]
            await asyncio.gather(*(remove(kind, one) for kind, one in turn))
        return len(new)

    async def _all(self) -> list[tuple[Resource[Document], Document]]:
        found = []
        for kind in self._resources:
            # A test may have removed the definition of a kind.
            with contextlib.suppress(NotFound):
                found += [(kind, one) for one in (await self._client.list(kind)).items]
        return found

    def _is_known(self, one: Document) -> bool:
        return one["metadata"]["uid"] in self._known

    async def _remove(self, kind: Resource[Document], one: Document) -> None:
        place: dict[str, Any] = {"namespace": one["metadata"].get("namespace", "")}
        name = one["metadata"]["name"]
        left = await self._client.delete(kind, name, grace_seconds=0, **place)
        if left is None:
            return
        if kind.plural == "namespaces":
            left["spec"]["finalizers"] = []
            await self._client.update(kind, left, subresource="finalize")
        elif kind.plural == CUSTOM_RESOURCE_DEFINITIONS.plural:
            # The server itself removes the objects of the kind first.
            await until(lambda: self._is_gone(kind, name))
        elif left["metadata"].get("finalizers"):
            nothing = merge_patch({"metadata": {"finalizers": None}})
            await self._client.patch(kind, name, nothing, **place)

    async def _is_gone(self, kind: Resource[Document], name: str) -> bool:
        try:
            await self._client.get(kind, name)
        except NotFound:
            return True
        return False
