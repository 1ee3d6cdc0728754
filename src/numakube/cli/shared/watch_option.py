"""``-w``: show something again whenever the cluster changes.

On a terminal the picture is redrawn in place; elsewhere one picture follows the other. Changes
that come in a burst are shown once.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.dra_mirror import DraMirror
from numakube.apps.gathering import ZONES, gather
from numakube.apps.node_reports import ReportMirror
from numakube.cli.shared.connection_options import connected
from numakube.cli.shared.log_options import configure_logs
from numakube.insight.facts import ClusterFacts, facts_of
from numakube.kube.catalog import NODES, PODS
from numakube.kube.reflector import Reflector
from numakube.values.times import format_time

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Callable

    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.kube.client import Client
    from numakube.kube.store import Store

PAUSE: Final = 1.0
"""Seconds between two pictures, at least."""
_LOOK: Final = 0.05


def follow(cluster: ClusterOptions, show: Callable[[ClusterFacts], object]) -> None:
    """Call *show* with what is known of the cluster, now and after every change, until stopped."""
    configure_logs("warning", "text")
    asyncio.run(_follow(cluster, show))


async def _follow(cluster: ClusterOptions, show: Callable[[ClusterFacts], object]) -> None:
    async with connected(cluster) as client, contextlib.aclosing(states(client)) as stream:
        async for facts in stream:
            show(facts)


async def states(client: Client, *, pause: float = PAUSE) -> AsyncGenerator[ClusterFacts]:
    """Yield the cluster as it is, then again after each burst of changes.

    Raises:
        ClusterUnreachable: it does not answer at first; later, it is waited for.
    """
    facts = facts_of(await gather(client, what=ZONES))
    yield facts
    changed = asyncio.Event()
    mirrors = _Mirrors(client, changed)
    async with _running(mirrors):
        while True:
            await changed.wait()
            changed.clear()
            before, facts = facts, mirrors.facts()
            # What was mirrored at first is most often what was shown already.
            if _versions(facts) != _versions(before):
                yield facts
                await client.clock.sleep(pause)


def _versions(facts: ClusterFacts) -> list[set[tuple[str, str]]]:
    """Return what distinguishes one state of the cluster from another."""
    objects = facts.objects
    kinds = (
        facts.nodes.values(),
        facts.pods,
        facts.topologies.values(),
        objects.resource_slices.values(),
        objects.resource_claims.values(),
        objects.device_taint_rules.values(),
    )
    return [{(one.metadata.uid, one.metadata.resource_version) for one in kind} for kind in kinds]


class _Mirrors:
    """Nodes, pods, topologies and devices of claims, kept equal to the cluster's."""

    def __init__(self, client: Client, changed: asyncio.Event) -> None:
        self._clock = client.clock
        self.nodes = Reflector(client, NODES)
        self.pods = Reflector(client, PODS)
        self.reports = ReportMirror(client)
        self.dra = DraMirror(client)
        self._changed = changed

    async def run(self) -> None:
        """Mirror until cancelled; the first changes are reported once everything is there."""
        async with asyncio.TaskGroup() as tasks:
            for other in self._others():
                tasks.create_task(other.run())
            tasks.create_task(self.reports.run())
            await self.nodes.synced.wait()
            await self.pods.synced.wait()
            # A cluster may not know other kinds at all, or not allow to list them.
            for other in (self.reports.topologies, *self.dra.reflectors):
                while not other.synced.is_set() and other.last_error is None:
                    await self._clock.sleep(_LOOK)
            for store in self._stores():
                store.subscribe(lambda _change: self._changed.set(), replay=False)
            self._changed.set()

    def _others(self) -> tuple[Reflector[Any], ...]:
        return (self.nodes, self.pods, *self.dra.reflectors)

    def _stores(self) -> tuple[Store[Any], ...]:
        return (self.nodes.store, self.pods.store, self.reports.store, *self.dra.stores.values())

    def facts(self) -> ClusterFacts:
        """Return what is known at this moment."""
        return ClusterFacts(
            taken_at=format_time(self._clock.now()),
            nodes={node.metadata.name: node for node in self.nodes.store},
            pods=tuple(self.pods.store),
            topologies={report.metadata.name: report for report in self.reports.store},
            objects=self.dra.objects(),
        )


@contextlib.asynccontextmanager
async def _running(mirrors: _Mirrors) -> AsyncIterator[None]:
    """Mirror while the block runs."""
    task = asyncio.create_task(mirrors.run())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
