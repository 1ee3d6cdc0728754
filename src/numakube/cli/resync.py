"""``kubectl numa debug resync``: have schedulers read reports again."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click
import msgspec

from numakube.cli.shared.connection_options import live_options
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, output_option
from numakube.cli.shared.scheduler_options import reached, scheduler_options
from numakube.cli.shared.terminal import print_list, print_rows

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.scheduler_options import AskedSchedulers, Document


@click.command("resync")
@click.argument("node", required=False, type=ObjectName("node"))
@click.option("--all", "everything", is_flag=True, help="Every node.")
@output_option(Output.TABLE, Output.JSON, Output.YAML)
@live_options
@scheduler_options
def command(
    node: str | None,
    output: Output,
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    *,
    everything: bool,
) -> None:
    """Have schedulers read a node's report again and believe it as it is.

    Use it for a node that stays blocked although its report is right. Pods that are still on their
    way to the node keep their reservations. Prints what has changed, and pods that only one side
    knows.
    """
    if (node is None) != everything:
        raise click.UsageError("name a node, or say --all.")
    items = asyncio.run(_resync(node, cluster, schedulers))
    if output is not Output.TABLE:
        print_list("ResyncList", items, output)
        return
    titles = ("NODE", "SCHEDULER", "RESULT", "STATE", "REPORT", "ONLY HERE", "ONLY ON SERVER")
    print_rows(titles, map(_row, items), empty="no nodes")


async def _resync(
    node: str | None, cluster: ClusterOptions, schedulers: AskedSchedulers
) -> list[Document]:
    items: list[Document] = []
    async with reached(cluster, schedulers) as found:
        for one in found:
            query = {"node": node} if node else {}
            body = await one.send("POST", "/debug/resync", query=query)
            document = msgspec.json.decode(body)
            items += [{"scheduler": one.name, **item} for item in document["items"]]
    return items


def _row(item: Document) -> tuple[object, ...]:
    before, after = item["before"], item["after"]
    states = (before["state"], after["state"])
    versions = (before["resourceVersion"], after["resourceVersion"])
    return (
        item["node"],
        item["scheduler"],
        "changed" if item["changed"] else "as before",
        _change(*states),
        _change(*versions),
        ",".join(item["podsOnlyHere"]),
        ",".join(item["podsOnlyOnServer"]),
    )


def _change(before: str, after: str) -> str:
    return after if before == after else f"{before} -> {after}"
