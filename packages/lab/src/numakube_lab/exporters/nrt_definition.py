"""The definitions of NodeResourceTopology objects and their updates, installed in a lab."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

from numakube.api.crds import UPDATE_CRD, crd
from numakube.errors import AlreadyExists
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS

if TYPE_CHECKING:
    from numakube.kube.client import Client

_POLL_SECONDS: Final = 0.02
_SECONDS: Final = 30.0


async def install_definition(client: Client) -> None:
    """Create the definitions unless they are there; return when such objects can be written."""
    for definition in (crd(), crd(UPDATE_CRD)):
        with contextlib.suppress(AlreadyExists):
            await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await established(client, definition["metadata"]["name"])


async def established(client: Client, name: str) -> None:
    """Return when objects of the definition called *name* can be written."""
    async with client.clock.timeout(_SECONDS):
        while not _is_established(await client.get(CUSTOM_RESOURCE_DEFINITIONS, name)):
            await client.clock.sleep(_POLL_SECONDS)


def _is_established(definition: dict[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()
    return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)
