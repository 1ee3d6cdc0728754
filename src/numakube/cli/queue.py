"""``kubectl numa debug queue``: the pods that wait, where and for what."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from numakube.cli.shared.cluster_options import cluster_options
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, output_option
from numakube.cli.shared.scheduler_options import documents_for, leading, scheduler_options
from numakube.cli.shared.terminal import age, print_list, print_rows, repeated, say, watch_option

if TYPE_CHECKING:
    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.scheduler_options import AskedSchedulers, Document

_TITLES = ("POD", "PLACE", "PRIORITY", "ATTEMPTS", "WAITING", "NEXT TRY", "REFUSED BY")


@click.command("queue")
@click.option(
    "-n",
    "--namespace",
    default="",
    type=ObjectName("namespace"),
    metavar="NAME",
    help="Only pods of this namespace.",
)
@click.option("-A", "--all-namespaces", is_flag=True, help="Pods of every namespace: the default.")
@watch_option
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML, Output.NAME)
@cluster_options
@scheduler_options
def command(
    namespace: str,
    output: Output,
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    *,
    all_namespaces: bool,
    watch: bool,
) -> None:
    """Show the pods that wait for a node: where in the queue, why, and what would wake them.

    Asks the leader if there are several replicas. The wide form has the last message and the events
    after which a pod is tried again.
    """
    if all_namespaces and namespace:
        raise click.UsageError("Give -A or -n, not both.")

    def look() -> None:
        found = documents_for(cluster, schedulers, "queue", "/debug/queue")
        pods = [pod for entry in leading(found).values() for pod in entry.get("pods") or ()]
        _print([pod for pod in pods if _is_in(pod, namespace)], output)

    repeated(look, watch=watch and cluster.live)


def _is_in(pod: Document, namespace: str) -> bool:
    return not namespace or str(pod["pod"]).startswith(f"{namespace}/")


def _print(pods: list[Document], output: Output) -> None:
    if output in (Output.JSON, Output.YAML):
        print_list("QueuedPodList", pods, output)
    elif output is Output.NAME:
        for pod in pods:
            say(f"pod/{pod['pod'].partition('/')[2]}")
    else:
        wide = ("WAKES ON", "MESSAGE") if output is Output.WIDE else ()
        print_rows(
            (*_TITLES, *wide), (_row(pod, wide=bool(wide)) for pod in pods), empty="no pod waits"
        )


def _row(pod: Document, *, wide: bool) -> tuple[object, ...]:
    row = (
        pod["pod"],
        pod["place"],
        pod["priority"],
        pod["attempts"],
        age(pod["waitingSeconds"]),
        _next(pod),
        ",".join(pod["refusedBy"]),
    )
    more = (",".join(pod.get("wakesOn") or ()), pod["gate"] or pod["message"])
    return (*row, *more) if wide else row


def _next(pod: Document) -> str:
    match pod["place"]:
        case "active":
            return "now"
        case "in-flight":
            return "being tried"
        case "backoff":
            return f"in {pod['retryInSeconds']:.0f}s"
        case "gated":
            return "when it is let in"
        case _:
            return "at an event"
