"""Writes what pods change to an object of its own, as long as the rest of the report stays.

The NodeResourceTopology itself is written again when more has changed, and once an hour, for
others who read it and in case that somebody has changed it. If the cluster does not have the small
objects, or does not let us write them, the whole report is written each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from numakube.api.meta import OwnerReference
from numakube.api.nrt import KIND, V1ALPHA2
from numakube.errors import AlreadyExists, Conflict, Forbidden, NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGY_UPDATES
from numakube.topology.report_update import update_of
from numakube.values.times import format_micro_time

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.nrt_update import NodeResourceTopologyUpdate
    from numakube.kube.client import Client

WHOLE_SECONDS: Final = 3600.0
"""How often the whole report is written at least."""
_ATTEMPTS: Final = 5

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


class UpdateWriter:
    """Writes the updates of one node's report."""

    def __init__(self, client: Client, *, manager: str) -> None:
        """Prepare to write.

        Args:
            client: where to.
            manager: who says so.
        """
        self._client = client
        self._manager = manager
        self._report: NodeResourceTopology | None = None
        self._whole_due = self._refused_until = 0.0
        # The version of the object when we last saw it.
        self._version = ""

    def start_from(self, report: NodeResourceTopology) -> None:
        """Take note that *report* was written; updates are of it from now on."""
        self._report = report
        self._whole_due = self._client.clock.monotonic() + WHOLE_SECONDS

    def stop(self) -> None:
        """Have the whole report written next: what readers have is not known, or something else."""
        self._report = None

    async def write(self, wanted: NodeResourceTopology) -> int | None:
        """Make readers believe what *wanted* says; ``None`` if the whole report has to be written.

        Returns:
            The size of what was sent.

        Raises:
            ApiError: the server refused.
            ClusterUnreachable: it did not answer.
        """
        now = self._client.clock.monotonic()
        report = self._report
        if report is None or now >= self._whole_due or now < self._refused_until:
            return None
        time = format_micro_time(self._client.clock.now())
        update = update_of(report, wanted, time=time)
        if update is None:
            return None
        try:
            return await self._put(_owned(update, report))
        except (Forbidden, NotFound) as error:
            self._refused_until = now + WHOLE_SECONDS
            _log.info("update_not_written", node=report.metadata.name, error=error.message)
            return None

    async def _put(self, update: NodeResourceTopologyUpdate) -> int | None:
        for _ in range(_ATTEMPTS):
            try:
                if not self._version:
                    self._version = await self._current_version(update.metadata.name)
                return await (self._replace(update) if self._version else self._create(update))
            except (AlreadyExists, Conflict) as error:
                last, self._version = error, ""
        raise last

    async def _current_version(self, name: str) -> str:
        try:
            found = await self._client.get(NODE_RESOURCE_TOPOLOGY_UPDATES, name)
        except NotFound:
            return ""
        return found.metadata.resource_version

    async def _create(self, update: NodeResourceTopologyUpdate) -> int:
        made = await self._client.create(
            NODE_RESOURCE_TOPOLOGY_UPDATES, update, field_manager=self._manager
        )
        self._version = made.metadata.resource_version
        return len(msgspec.json.encode(update))

    async def _replace(self, update: NodeResourceTopologyUpdate) -> int | None:
        metadata = msgspec.structs.replace(update.metadata, resource_version=self._version)
        update = msgspec.structs.replace(update, metadata=metadata)
        self._version = ""
        try:
            made = await self._client.update(
                NODE_RESOURCE_TOPOLOGY_UPDATES, update, field_manager=self._manager
            )
        except NotFound:
            # It goes with the report that it belongs to.
            return None
        self._version = made.metadata.resource_version
        return len(msgspec.json.encode(update))


def _owned(
    update: NodeResourceTopologyUpdate, report: NodeResourceTopology
) -> NodeResourceTopologyUpdate:
    """Return *update* as one that vanishes with *report*."""
    name, uid = report.metadata.name, report.metadata.uid
    owner = OwnerReference(api_version=V1ALPHA2, kind=KIND, name=name, uid=uid)
    metadata = msgspec.structs.replace(update.metadata, owner_references=(owner,))
    return msgspec.structs.replace(update, metadata=metadata)
