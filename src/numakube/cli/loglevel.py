"""``kubectl numa debug loglevel``: what schedulers log, while they run and for a while."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from numakube.cli.shared.connection_options import live_options
from numakube.cli.shared.output_option import Output, output_option
from numakube.cli.shared.scheduler_options import ask_all, reached, scheduler_options
from numakube.cli.shared.terminal import print_list, print_rows
from numakube.values.display import age_text

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.scheduler_options import AskedSchedulers, Document

_PATH = "/debug/flags/v"


@click.command("loglevel")
@click.argument("level", required=False)
@click.option("--module", default="", metavar="MODULE", help="Only this module and those below it.")
@click.option("--pod", default="", metavar="NAMESPACE/NAME", help="Only messages about this pod.")
@click.option("--for", "duration", default="", metavar="10m", help="End after this time.")
@click.option("--reset", is_flag=True, help="Remove the rule of --module or --pod.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@live_options
@scheduler_options
def command(
    level: str | None,
    module: str,
    pod: str,
    duration: str,
    output: Output,
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    *,
    reset: bool,
) -> None:
    """Show what schedulers log, or change it without a restart.

    LEVEL is debug, info, warning, error, or a verbosity as in kube-scheduler. For a module or a pod
    it ends after ten minutes, or after --for.
    """
    if reset and (level or not (module or pod)):
        raise click.UsageError("--reset takes no level, but --module or --pod.")
    if not (level or reset) and (module or pod or duration):
        raise click.UsageError("name a level.")
    query = {"module": module, "pod": pod, "for": duration}
    given = {name: text for name, text in query.items() if text}
    found = asyncio.run(_act(cluster, schedulers, level, given, reset=reset))
    if output is not Output.TABLE:
        items = [{"scheduler": name, **document} for name, document in found.items()]
        print_list("LogLevelsList", items, output)
        return
    rows = (row for name, document in found.items() for row in _rows(name, document))
    print_rows(("SCHEDULER", "WHAT", "LEVEL", "ENDS IN"), rows)


async def _act(
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    level: str | None,
    query: dict[str, str],
    *,
    reset: bool,
) -> dict[str, Document]:
    async with reached(cluster, schedulers) as found:
        for one in found:
            if reset:
                await one.send("DELETE", _PATH, query=query)
            elif level is not None:
                await one.send("PUT", _PATH, level.encode(), query=query)
        return await ask_all(found, _PATH)


def _rows(name: str, document: Document) -> list[tuple[object, ...]]:
    general = document["general"]
    rows: list[tuple[object, ...]] = [
        (name, "everything", general["level"], _left(general["expiresInSeconds"]))
    ]
    for rule in document["rules"]:
        what = f"pod {rule['pod']}" if rule["pod"] else rule["module"]
        rows.append((name, what, rule["level"], _left(rule["expiresInSeconds"])))
    return rows


def _left(seconds: float | None) -> str:
    return "never" if seconds is None else age_text(seconds)
