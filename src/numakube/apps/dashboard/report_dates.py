"""When reports last changed, by the API server's word.

Reports carry no time, but the server notes in ``metadata.managedFields`` when each writer last
changed an object. It is not kept in memory for every object, so it is asked for once, when
a page is first opened; later changes are seen as they happen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.wire import Timestamp, Wire
from numakube.errors import InvalidValue
from numakube.kube.served_topologies import served_topologies
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from numakube.kube.client import Client


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
    found = {}
    dated = (await served_topologies(client)).decoded_as(_Dated)
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
