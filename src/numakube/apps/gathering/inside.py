"""What schedulers and extenders tell of themselves, for a bundle."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.apps.debug_client import reach_schedulers
from numakube.errors import ApiError, ClusterUnreachable, NotFound
from numakube.insight.collected import SCHEDULER, scheduler_file
from numakube.insight.unreadable import Unreadable

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numakube.apps.debug_client import Reached
    from numakube.kube.client import Client

ENDPOINTS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "cache": "/debug/cache",
        "queue": "/debug/queue",
        "reservations": "/debug/reservations",
        "attempts": "/debug/attempts?full=true",
        "configz": "/configz",
    }
)
"""What is worth keeping: name of the file, and path."""


_NOBODY: Final = "no pod of a scheduler or extender of numakube runs"


async def look_inside(
    client: Client, files_wanted: Collection[str] = ENDPOINTS
) -> tuple[dict[str, bytes], list[Unreadable]]:
    """Return the files of every program that can be asked, and why others cannot."""
    files: dict[str, bytes] = {}
    try:
        found = await reach_schedulers(client)
    except ClusterUnreachable as error:
        return {}, [Unreadable(SCHEDULER, str(error))]
    errors = [] if found else [Unreadable(SCHEDULER, _NOBODY)]
    for one in found:
        if one.trouble:
            what = f"{SCHEDULER}/{one.name}" if one.name else SCHEDULER
            errors.append(Unreadable(what, one.trouble))
            continue
        for name in files_wanted:
            path = ENDPOINTS[name]
            content = await _asked(one, path, errors)
            if content is not None:
                files[scheduler_file(one.name, name)] = content
    return files, errors


async def _asked(one: Reached, path: str, errors: list[Unreadable]) -> bytes | None:
    try:
        return await one.get(path)
    except NotFound:
        return None  # an extender has no queue
    except (ApiError, ClusterUnreachable) as error:
        errors.append(Unreadable(f"{SCHEDULER}/{one.name}{path}", str(error)))
        return None
