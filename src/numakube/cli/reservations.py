"""``kubectl numa debug reservations``: what is held for pods on their way."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import cluster_options
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, output_option
from numakube.cli.shared.scheduler_options import documents_for, scheduler_options
from numakube.cli.shared.terminal import print_list, print_rows, repeated, say, watch_option

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.scheduler_options import AskedSchedulers, Document


@click.command("reservations")
@click.argument("node", required=False, type=ObjectName("node"))
@watch_option
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML, Output.NAME)
@cluster_options
@scheduler_options
def command(
    node: str | None,
    output: Output,
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    *,
    watch: bool,
) -> None:
    """Show what is reserved where, for which pod, and since when.

    A reservation lasts from the choice of a node until a report of the node contains the pod.
    """

    def look() -> None:
        query = {"node": node} if node else {}
        found = documents_for(cluster, schedulers, "reservations", "/debug/reservations", query)
        items = [
            {"scheduler": scheduler, **item}
            for scheduler, document in found.items()
            for item in document["items"]
            if node in (None, item["node"])
        ]
        _print(items, output)

    repeated(look, watch=watch and cluster.live)


def _print(items: list[Document], output: Output) -> None:
    from numakube.insight.pod_timeline import use_text

    if output in (Output.JSON, Output.YAML):
        print_list("ReservationList", items, output)
    elif output is Output.NAME:
        for item in items:
            say(f"pod/{item['pod'].partition('/')[2]}")
    else:
        wide = output is Output.WIDE
        titles = ("NODE", "POD", "STAGE", "SINCE", "HELD", *(("SCHEDULER", "UID") if wide else ()))
        rows = (
            (item["node"], item["pod"], item["stage"], item["since"], use_text(item["held"]))
            + ((item["scheduler"], item["uid"]) if wide else ())
            for item in items
        )
        print_rows(titles, rows, empty="nothing is held")
