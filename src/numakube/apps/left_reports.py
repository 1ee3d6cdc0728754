"""Takes off reports what exporters have left there that are gone: data that nobody keeps.

An exporter leaves its data when it ends, because it cannot know whether another one will start in a
moment. Who removes exporters for good takes the data away: amounts stay, as old as they are, and
what only our readers understand goes. Reports of other exporters, and of those that name no pod,
are left alone; so is the attribute that names the exporter: it tells that nobody keeps the amounts.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import attribute_value
from numakube.api.pod import has_ended
from numakube.errors import NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGY_UPDATES, PODS
from numakube.kube.client import merge_patch
from numakube.topology import nrt_names

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.kube.client import Client

LEFT: Final = (
    nrt_names.EXACT_ANNOTATION,
    nrt_names.INEXACT_ANNOTATION,
    nrt_names.SURPRISES_ANNOTATION,
)
_AT_ONCE: Final = 16
_POLL_SECONDS: Final = 1.0


@dataclass(frozen=True, slots=True)
class Cleared:
    """What came of it, in names of nodes.

    Attributes:
        cleared: whose reports were changed.
        kept: whose exporters are there still.
    """

    cleared: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()


async def clear_reports(client: Client, namespace: str, *, updates: bool = False) -> Cleared:
    """Take what exporters of *namespace* have left that are gone off their reports.

    Args:
        client: of the cluster.
        namespace: where the pods of the exporters were.
        updates: delete the updates of these reports, too; without their reports' promise they say
            nothing anyway.

    Raises:
        ApiError: the server refused.
        ClusterUnreachable: it did not answer.
    """
    try:
        reports = (await client.list(NODE_RESOURCE_TOPOLOGIES)).items
    except NotFound:
        return Cleared()  # the kind is gone, and the objects with it
    pods = (await client.list(PODS, namespace=namespace)).items
    running = {pod.metadata.key for pod in pods if not has_ended(pod)}
    left = {
        report.metadata.name: _exporter(report) for report in reports if _is_left(report, namespace)
    }
    gone = tuple(name for name, exporter in left.items() if exporter not in running)
    limit = asyncio.Semaphore(_AT_ONCE)

    async def clear(name: str) -> None:
        patch = merge_patch({"metadata": {"annotations": dict.fromkeys(LEFT)}})
        async with limit:
            with suppress(NotFound):
                await client.patch(NODE_RESOURCE_TOPOLOGIES, name, patch)
            if updates:
                with suppress(NotFound):
                    await client.delete(NODE_RESOURCE_TOPOLOGY_UPDATES, name)

    await asyncio.gather(*map(clear, gone))
    return Cleared(gone, tuple(left.keys() - set(gone)))


async def clear_all_reports(client: Client, namespace: str, *, seconds: float) -> Cleared:
    """Do so until the last exporter is gone, for so many *seconds* at most; see `clear_reports`."""
    deadline = client.clock.monotonic() + seconds
    cleared: tuple[str, ...] = ()
    while True:
        done = await clear_reports(client, namespace, updates=True)
        cleared += done.cleared
        if not done.kept or client.clock.monotonic() >= deadline:
            return Cleared(cleared, done.kept)
        await client.clock.sleep(_POLL_SECONDS)


def _is_left(report: NodeResourceTopology, namespace: str) -> bool:
    """Tell whether *report* has something of an exporter of *namespace*."""
    ours = _exporter(report).startswith(f"{namespace}/")
    return ours and any(name in report.metadata.annotations for name in LEFT)


def _exporter(report: NodeResourceTopology) -> str:
    return attribute_value(report.attributes, nrt_names.EXPORTER) or ""
