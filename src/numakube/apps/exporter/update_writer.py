"""Writes what pods change to an object of its own, as long as the rest of the report stays.

The NodeResourceTopology itself is written again when more has changed, and about once an hour, for
others who read it and in case somebody has changed it; also if somebody else has written the small
object. If the cluster does not have small objects, or does not let us write them, the whole report
is written each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
import structlog

from numakube.api.meta import OwnerReference
from numakube.api.nrt import KIND, V1ALPHA2
from numakube.errors import (
    AlreadyExists,
    ApiError,
    ClusterUnreachable,
    Conflict,
    NotFound,
    NumakubeError,
    TooManyRequests,
)
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGY_UPDATES
from numakube.kube.clock import spread
from numakube.topology.report_update import update_of
from numakube.values.times import format_micro_time

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.nrt_update import NodeResourceTopologyUpdate
    from numakube.kube.client import Client

WHOLE_SECONDS: Final = 3600.0
"""How often the whole report is written at least."""
REFUSED_SECONDS: Final = 300.0
"""How long whole reports are written after an update was refused."""
_INTERNAL: Final = 500

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
        # The report that updates are of, and the version of the last one; nothing if the whole
        # report has to be written next.
        self._report: NodeResourceTopology | None = None
        self._version = ""
        self._whole_due = self._refused_until = 0.0

    async def start_from(self, report: NodeResourceTopology) -> None:
        """Have updates be of *report*, which was just written.

        One is written at once, though it says nothing new. Then nobody else can write another, such
        as an exporter on its way out; and if the report is deleted, the update goes with it, which
        is noticed.
        """
        now = self._client.clock.monotonic()
        if now < self._refused_until:
            return
        self._whole_due = now + spread(WHOLE_SECONDS, self._client.rng)
        update = self._update(report, report)
        if update is None:
            return
        try:
            self._version = await self._current_version(report.metadata.name)
            await (self._replace(update) if self._version else self._create(update))
        except (ApiError, ClusterUnreachable) as error:
            self.stop()
            if _is_refusal(error) and not isinstance(error, AlreadyExists | Conflict):
                self._refused_until = now + REFUSED_SECONDS
            _log.info("update_not_written", node=report.metadata.name, error=str(error))
        else:
            self._report = report

    def stop(self) -> None:
        """Have the whole report written next: what readers have is not known, or something else."""
        self._report, self._version = None, ""

    async def write(self, wanted: NodeResourceTopology) -> int | None:
        """Make readers believe what *wanted* says; ``None`` if the whole report has to be written.

        Returns:
            The size of what was sent.

        Raises:
            ApiError: the server failed.
            ClusterUnreachable: it did not answer.
        """
        report = self._report
        if report is None or self._client.clock.monotonic() >= self._whole_due:
            return None
        update = self._update(report, wanted)
        if update is None:
            return None
        try:
            return await self._replace(update)
        except TooManyRequests:
            raise  # A whole report would be more still.
        except (ApiError, ClusterUnreachable) as error:
            # Somebody else has written or deleted it, or the server does not take it any more.
            self.stop()
            if _is_refusal(error):
                return None
            raise

    def _update(
        self, report: NodeResourceTopology, wanted: NodeResourceTopology
    ) -> NodeResourceTopologyUpdate | None:
        update = update_of(report, wanted, time=format_micro_time(self._client.clock.now()))
        return None if update is None else _owned(update, report)

    async def _current_version(self, name: str) -> str:
        try:
            found = await self._client.get(NODE_RESOURCE_TOPOLOGY_UPDATES, name)
        except NotFound:
            return ""
        return found.metadata.resource_version

    async def _create(self, update: NodeResourceTopologyUpdate) -> None:
        made = await self._client.create(
            NODE_RESOURCE_TOPOLOGY_UPDATES, update, field_manager=self._manager
        )
        self._version = made.metadata.resource_version

    async def _replace(self, update: NodeResourceTopologyUpdate) -> int:
        metadata = msgspec.structs.replace(update.metadata, resource_version=self._version)
        update = msgspec.structs.replace(update, metadata=metadata)
        made = await self._client.update(
            NODE_RESOURCE_TOPOLOGY_UPDATES, update, field_manager=self._manager
        )
        self._version = made.metadata.resource_version
        return len(msgspec.json.encode(update))


def _is_refusal(error: NumakubeError) -> bool:
    """Tell whether the server does not want what was sent, and not merely fails."""
    return isinstance(error, ApiError) and error.code < _INTERNAL


def _owned(
    update: NodeResourceTopologyUpdate, report: NodeResourceTopology
) -> NodeResourceTopologyUpdate:
    """Return *update* as one that vanishes with *report*."""
    name, uid = report.metadata.name, report.metadata.uid
    owner = OwnerReference(api_version=V1ALPHA2, kind=KIND, name=name, uid=uid)
    metadata = msgspec.structs.replace(update.metadata, owner_references=(owner,))
    return msgspec.structs.replace(update, metadata=metadata)
