"""A source fed by its own reflectors, for a dashboard that runs beside no scheduler.

Reports carry no time, but the server notes in ``metadata.managedFields`` when each writer last
changed an object. `report_dates` asks for that once, when a page is first opened, and sees later
changes as they happen: keeping it in memory for every object would cost too much.
"""

from __future__ import annotations

import asyncio
import contextlib
from functools import partial
from types import NoneType
from typing import TYPE_CHECKING, Any

from numakube.api.codec import Timestamp, Wire
from numakube.api.interning import shared_pod
from numakube.apps.dashboard.page_source import Source
from numakube.apps.dra_mirror import DraMirror
from numakube.apps.node_reports import ReportMirror
from numakube.apps.served_topologies import served_topologies
from numakube.errors import ClusterUnreachable, Expired, Forbidden, InvalidValue, NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGY_UPDATES, NODES, PODS
from numakube.kube.reflector import Reflector
from numakube.kube.store import Store
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.kube.client import Client
    from numakube.kube.resource_types import Resource


class Reflection:
    """Mirrors what pages show.

    Attributes:
        source: what pages are made from.
    """

    def __init__(self, client: Client) -> None:
        self._clock = client.clock
        self._nodes: Reflector[Node] = Reflector(client, NODES)
        self._pods: Reflector[Pod] = Reflector(client, PODS, store=Store(transform=shared_pod))
        self._reports = ReportMirror(client)
        self._dra = DraMirror(client)
        self.source = Source(
            nodes=self._nodes.store,
            pods=self._pods.store,
            topologies=self._reports.store,
            clock=client.clock,
            devices=self._dra.stores,
            devices_known=self._dra.is_known,
            missing=self.missing,
            dates=partial(report_dates, client),
        )

    async def run(self) -> None:
        """Keep the source up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            kinds: tuple[Reflector[Any], ...] = (self._nodes, self._pods, *self._dra.reflectors)
            for reflector in kinds:
                tasks.create_task(reflector.run(), name=f"dashboard-{reflector}")
            tasks.create_task(self._reports.run(), name="dashboard-reports")

    async def synced(self) -> None:
        """Return once everything that the server has is listed."""
        while self.not_ready():
            await self._clock.sleep(0.02)

    def missing(self) -> str:
        """Say what is not known, or no longer, and why; empty while all is up to date."""
        return missing_of(self._reflectors())

    def not_ready(self) -> str:
        """Say what has never been listed; the kind of reports may come later."""
        waiting = [
            str(one)
            for one in self._reflectors()
            if not one.synced.is_set() and not isinstance(one.last_error, NotFound)
        ]
        return f"not listed yet: {', '.join(waiting)}" if waiting else ""

    def _reflectors(self) -> tuple[Reflector[Any], ...]:
        return self._nodes, self._reports.topologies, self._pods


def missing_of(reflectors: Iterable[Reflector[Any]]) -> str:
    """Say which of them do not know what the server has, and why; empty if all do.

    One whose place in history has expired lists again at once: that is no news.
    """
    failing = [
        one
        for one in reflectors
        if not one.synced.is_set() or not isinstance(one.last_error, Expired | NoneType)
    ]
    return "; ".join(dict.fromkeys(map(_trouble, failing)))


def _trouble(reflector: Reflector[Any]) -> str:
    if isinstance(reflector.last_error, NotFound):
        return f"the API server does not know {reflector}"
    if isinstance(reflector.last_error, ClusterUnreachable):
        # Which request it was that failed does not matter to readers.
        return f"the API server cannot be reached ({str(reflector.last_error).rpartition(': ')[2]})"
    if reflector.last_error is not None:
        return f"{reflector}: {reflector.last_error}"
    return f"{reflector} are not listed yet"


class _Writer(Wire, frozen=True):
    time: Timestamp | None = None


class _Metadata(Wire, frozen=True):
    name: str = ""
    managed_fields: tuple[_Writer, ...] = ()


class _Dated(Wire, frozen=True):
    """A report of which only the dates matter."""

    metadata: _Metadata = _Metadata()


async def report_dates(client: Client) -> Mapping[str, datetime]:
    """Return when each report last changed; those of which it is not noted are missing.

    Raises:
        NumakubeError: the server does not say.
    """
    dated = (await served_topologies(client)).decoded_as(_Dated)
    found = await _dates(client, dated)
    with contextlib.suppress(Forbidden, NotFound):
        updates = await _dates(client, NODE_RESOURCE_TOPOLOGY_UPDATES.decoded_as(_Dated))
        found |= {name: max(date, updates.get(name, date)) for name, date in found.items()}
    return found


async def _dates(client: Client, dated: Resource[_Dated]) -> dict[str, datetime]:
    found = {}
    for report in (await client.list(dated, resource_version="0")).items:
        dates = [date for one in report.metadata.managed_fields if (date := _date(one)) is not None]
        if dates:
            found[report.metadata.name] = max(dates)
    return found


def _date(writer: _Writer) -> datetime | None:
    try:
        return parse_time(writer.time) if writer.time else None
    except InvalidValue:
        return None
