"""Which version of a kind an API server has, where it may be one of several.

Kubernetes serves a kind that has become stable as ``v1`` and, unless told to, no longer as a beta
version. Objects are the same in all of them, so a reader takes the first that is there:

    groups = await served(client, POD_GROUPS, ("v1beta1", "v1"))    # NotFound if there is none
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from numakube.api.codec import Wire
from numakube.errors import Forbidden, MalformedObject, NotFound
from numakube.kube.connection.transport import Request
from numakube.kube.decode import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.kube.client import Client
    from numakube.kube.resource_types import Resource

T = TypeVar("T")
_NOT_FOUND: Final = 404


class ServedKind(Wire, frozen=True):
    """A kind as a server describes it."""

    name: str = ""
    namespaced: bool = False


class _ServedList(Wire, frozen=True):
    resources: tuple[ServedKind, ...] | None = None


async def served(client: Client, resource: Resource[T], versions: Iterable[str]) -> Resource[T]:
    """Return *resource* in the first of *versions* that is served.

    Raises:
        NotFound: none of them is.
    """
    tried = tuple(versions)
    for version in tried:
        try:
            found = await served_in(client, resource.group, version, resource.plural)
        except NotFound:
            continue
        except Forbidden:
            # Who may not ask what there is can still read what there usually is.
            return resource
        if found is not None:
            return replace(resource, version=version)
    name = f"{resource.plural}.{resource.group}"
    text = f"the cluster serves {name} in none of {', '.join(tried)}"
    raise NotFound(text, code=_NOT_FOUND, reason="NotFound")


async def served_in(client: Client, group: str, version: str, plural: str) -> ServedKind | None:
    """Return what the server says of a kind in *version* of its group; nothing if it lacks it.

    Raises:
        NotFound: there is no such version of the group.
    """
    request = Request(method="GET", path=f"/apis/{group}/{version}")
    response = await client.request(request)
    try:
        listed = msgspec.json.decode(response.body, type=_ServedList).resources or ()
    except UNREADABLE as error:
        raise MalformedObject(str(request), f"not readable: {error}") from None
    return next((one for one in listed if one.name == plural), None)
