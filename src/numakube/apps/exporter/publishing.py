"""From a report to the object on the server, and the annotations that tell about updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from numakube.apps.exporter.wakeups import PERIODIC
from numakube.apps.exporter.writer import (
    SLEEP_DURATION,
    UPDATE_INTERVAL,
    Operation,
    Writer,
    Written,
)
from numakube.values.durations import SECOND, format_duration

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.apps.exporter.node_object import NodeObject
    from numakube.apps.exporter.report import Report
    from numakube.kube.client import Client


class Publisher(Protocol):
    """Where reports go."""

    async def publish(self, report: Report, *, cause: str, slept: float | None) -> Written:
        """Publish *report*; *slept* are the seconds since the last wake-up."""
        ...

    async def mark_stale(self, reason: str) -> Written:
        """Say that what was published must not be trusted."""
        ...


class Nowhere:
    """Publishes nothing."""

    async def publish(self, report: Report, *, cause: str, slept: float | None) -> Written:
        """Do nothing."""
        return Written(Operation.NONE)

    async def mark_stale(self, reason: str) -> Written:
        """Do nothing."""
        return Written(Operation.NONE)


class ObjectPublisher:
    """Publishes to the node's object."""

    def __init__(
        self,
        client: Client,
        node: NodeObject,
        *,
        name: str,
        owner: bool = True,
        resync: int = 0,
        timing_period: float | None = None,
        ours: frozenset[str] = frozenset(),
    ) -> None:
        """Prepare to publish.

        Args:
            client: where to.
            node: the Node, read again with every periodic report and for every new object.
            name: the object's name.
            owner: let the object vanish with its Node.
            resync: read the object again after so many writes; 0 or less for never.
            timing_period: the period to tell in annotations; ``None`` to tell nothing.
            ours: further annotations that go if a report does not have them.
        """
        self._writer = Writer(
            client, name, resync=resync, before_creation=self._with_fresh_owner, ours=ours
        )
        self._node = node
        self._name = name
        self._owner = owner
        self._timing_period = timing_period

    async def publish(self, report: Report, *, cause: str, slept: float | None) -> Written:
        """Write what has changed."""
        if cause == PERIODIC:
            self._writer.forget()
        if cause == PERIODIC or not self._node.is_known:
            await self._node.refresh()
        wanted = self._owned(report.topology(self._name))
        return await self._writer.write(self._timed(wanted, cause, slept))

    def forget(self) -> None:
        """Take note that the object may not be what it was."""
        self._writer.forget()

    async def mark_stale(self, reason: str) -> Written:
        """Set the attribute that says so."""
        return await self._writer.mark_stale(reason)

    async def _with_fresh_owner(self, wanted: NodeResourceTopology) -> NodeResourceTopology:
        """Return *wanted* with the Node of today as its owner.

        An object vanishes with its Node. If that has registered anew, an object that is owned by
        the old one would vanish again and again.
        """
        await self._node.refresh()
        return self._owned(wanted)

    def _owned(self, wanted: NodeResourceTopology) -> NodeResourceTopology:
        owner = self._node.owner if self._owner else None
        references = () if owner is None else (owner,)
        metadata = msgspec.structs.replace(wanted.metadata, owner_references=references)
        return msgspec.structs.replace(wanted, metadata=metadata)

    def _timed(
        self, wanted: NodeResourceTopology, cause: str, slept: float | None
    ) -> NodeResourceTopology:
        if self._timing_period is None:
            return wanted
        interval = self._timing_period if cause == PERIODIC else 0.0
        times = {
            SLEEP_DURATION: format_duration(round(slept or 0.0) * SECOND),
            UPDATE_INTERVAL: format_duration(round(interval * SECOND)),
        }
        annotations = {**wanted.metadata.annotations, **times}
        metadata = msgspec.structs.replace(wanted.metadata, annotations=annotations)
        return msgspec.structs.replace(wanted, metadata=metadata)
