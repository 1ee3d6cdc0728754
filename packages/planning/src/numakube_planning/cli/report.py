"""``numakube report``: how a cluster was used over days."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from numakube.cli.shared.connection_options import ClusterOptions, connected, live_options
from numakube.cli.shared.output_option import Output, output_option, print_document
from numakube.cli.shared.terminal import column_lines, say
from numakube.values.display import age_text, short_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube_planning.history.cluster_report import ClusterReport, ReportedDay

_WEEK: Final = 7
_MOST_DAYS: Final = 92
_SHOWN: Final = ("cpu", "memory")
_NOT_KNOWN: Final = "-"
_PERCENT: Final = 100


@click.command("report")
@click.option(
    "--prometheus",
    required=True,
    metavar="URL|NAMESPACE/SERVICE[:PORT]",
    envvar="NUMAKUBE_PROMETHEUS",
    help="Where the metrics are kept: an address, or a Service, asked through the API server."
    " By default what NUMAKUBE_PROMETHEUS says.",
)
@click.option("--weekly", is_flag=True, help="The last seven whole days, which is the default.")
@click.option(
    "--days",
    type=click.IntRange(1, _MOST_DAYS),
    metavar="NUMBER",
    help="So many whole days before today, in UTC.",
)
@click.option("--prometheus-ca", metavar="FILE", help="Authority of the certificate behind a URL.")
@click.option("--prometheus-token-file", metavar="FILE", help="Bearer token for a URL.")
@live_options
@output_option(Output.TABLE, Output.JSON, Output.YAML)
def command(
    *,
    prometheus: str,
    weekly: bool,
    days: int | None,
    prometheus_ca: str | None,
    prometheus_token_file: str | None,
    cluster: ClusterOptions,
    output: Output,
) -> None:
    """How was the cluster used, what was stranded, and who waited?

    The figures are those that exporters and schedulers publish and Prometheus keeps. A day without
    a record has none: that is not zero.
    """
    if weekly and days not in (None, _WEEK):
        raise click.UsageError("--weekly is --days 7.")
    token = ""
    if prometheus_token_file:
        token = Path(prometheus_token_file).read_text(encoding="utf-8").strip()
    found = asyncio.run(_report(prometheus, days or _WEEK, cluster, prometheus_ca, token))
    if output is not Output.TABLE:
        from numakube.api.codec import to_tree

        print_document(to_tree(found), output)
        return
    for line in _lines(found):
        say(line)


async def _report(
    where: str, days: int, cluster: ClusterOptions, authority: str | None, token: str
) -> ClusterReport:
    from numakube_planning.history.cluster_report import cluster_report, ends_of
    from numakube_planning.history.prometheus import Login, WrongAddress, prometheus_at

    login = Login(authority=authority or "", token=token)
    try:
        async with prometheus_at(where, login, lambda: connected(cluster)) as prometheus:
            return await cluster_report(prometheus, ends_of(time.time(), days))
    except WrongAddress as error:
        raise click.UsageError(str(error)) from None


def _lines(found: ClusterReport) -> Iterator[str]:
    first, last = found.days[0].date, found.days[-1].date
    yield f"{first} to {last}, by {found.source}"
    yield ""
    names = _resources(found)
    titles = ["DAY"]
    for name in names:
        titles += [short_name(name).upper(), "STRANDED"]
    yield from column_lines(titles, [_use_row(day, names) for day in found.days])
    yield ""
    titles = ["DAY", "PLACED", "WAIT", "WAITING", "REFUSED BY", "REJECTED", "MISALIGNED"]
    yield from column_lines(titles, list(map(_pods_row, found.days)))
    if found.summary:
        yield ""
        yield from found.summary


def _resources(found: ClusterReport) -> list[str]:
    """Return CPUs, memory, then devices: what zones are about; hugepages stand in the document."""
    known = {name for day in found.days for name in day.resources}
    devices = sorted(name for name in known if "/" in name)
    return [*(name for name in _SHOWN if name in known), *devices]


def _use_row(day: ReportedDay, names: list[str]) -> list[str]:
    row = [day.date]
    for name in names:
        use = day.resources.get(name)
        row += (
            [_NOT_KNOWN] * 2
            if use is None
            else [_share(use.used_share), _share(use.stranded_share)]
        )
    return row


def _share(share: float | None) -> str:
    return _NOT_KNOWN if share is None else f"{_PERCENT * share:.0f}%"


def _pods_row(day: ReportedDay) -> list[str]:
    waiting = day.waiting or {}
    by = max(waiting, key=lambda name: (waiting[name], name), default="")
    wait = day.median_wait_seconds
    return [
        day.date,
        _NOT_KNOWN if day.placed is None else f"{day.placed:.0f}",
        _NOT_KNOWN if wait is None else f"{wait:.1f}s" if wait < 10 else age_text(wait),
        _sum(day.waiting),
        by or _NOT_KNOWN,
        _sum(day.rejected),
        _sum(day.misaligned),
    ]


def _sum(values: Mapping[str, float] | None) -> str:
    return _NOT_KNOWN if values is None else f"{sum(values.values()):.1f}".removesuffix(".0")
