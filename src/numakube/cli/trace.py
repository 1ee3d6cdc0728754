"""``kubectl numa debug trace pod``: what happened to a pod, from the queue to its zones."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from numakube.cli.shared.cluster_options import cluster_options, namespace_option, pod_place
from numakube.cli.shared.kubectl_names import names_argument
from numakube.cli.shared.output_option import Output, print_document
from numakube.cli.shared.scheduler_options import (
    ask_all,
    bundled,
    leading,
    reached,
    scheduler_options,
)
from numakube.cli.shared.terminal import say
from numakube.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.scheduler_options import AskedSchedulers, Document

_WATCH_SECONDS = 1.0


@click.command("trace")
@names_argument("pod", metavar="pod NAME")
@namespace_option
@click.option("-w", "--watch", is_flag=True, help="Go on printing what happens.")
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="Output format.",
)
@cluster_options
@scheduler_options
def command(
    what: str,
    names: tuple[str, ...],
    namespace: str,
    output: str,
    cluster: ClusterOptions,
    schedulers: AskedSchedulers,
    *,
    watch: bool,
) -> None:
    """Show what happened to a pod: queued, tried, reserved, bound, admitted, observed.

    Schedulers and extenders always keep the last attempts of every pod in full, at any log level.
    """
    del what
    if len(names) != 1:
        raise click.UsageError("Give the name of one pod, as in `trace pod web`.")
    if watch and not cluster.live:
        raise click.UsageError("-w needs a live cluster, not --from.")
    if watch and output != "text":
        raise click.UsageError("-w prints text only.")
    inside, name = pod_place(cluster, namespace, names[0])
    if watch:
        asyncio.run(_follow(cluster, schedulers, inside, name))
        return
    if cluster.live:
        documents = asyncio.run(_ask(cluster, schedulers, inside, name))
    else:
        documents = _from_bundle(cluster, inside, name)
    if not documents:
        raise ConfigError(
            f"no scheduler remembers a pod {inside}/{name}: it was never tried, or too long ago"
        )
    if output == "text":
        for line in _lines(documents):
            say(line)
    else:
        items = [{"source": source, **document} for source, document in documents.items()]
        head = {"apiVersion": "debug.numakube.dev/v1alpha1", "kind": "PodTrace"}
        print_document({**head, "pod": f"{inside}/{name}", "items": items}, Output(output))


async def _ask(
    cluster: ClusterOptions, schedulers: AskedSchedulers, namespace: str, name: str
) -> dict[str, Document]:
    async with reached(cluster, schedulers) as found:
        return await ask_all(found, f"/debug/pods/{namespace}/{name}")


async def _follow(
    cluster: ClusterOptions, schedulers: AskedSchedulers, namespace: str, name: str
) -> None:
    """Print each line once, as it appears."""
    told: set[str] = set()
    async with reached(cluster, schedulers) as found:
        while True:
            documents = await ask_all(found, f"/debug/pods/{namespace}/{name}")
            for line in _lines(documents):
                if line not in told:
                    told.add(line)
                    say(line)
            await asyncio.sleep(_WATCH_SECONDS)


def _from_bundle(cluster: ClusterOptions, namespace: str, name: str) -> dict[str, Document]:
    key, found = f"{namespace}/{name}", {}
    for source, document in bundled(cluster, "attempts").items():
        flights = [flight for flight in document["items"] if flight["pod"] == key]
        if flights:
            found[source] = {**document, "items": None, "flights": flights}
    return found


def _lines(documents: dict[str, Document]) -> Iterator[str]:
    from numakube.insight.pod_timeline import timeline

    for source, document in documents.items():
        for flight in reversed(document.get("flights") or ()):
            yield from timeline(flight, source=source)
    # A standby has the pod in its queue too, untried: only the leader knows how it is.
    leaders = leading(documents)
    for state, source in {_state(one): source for source, one in leaders.items()}.items():
        if state:
            who = f" (as {source} says, which leads)" if len(documents) > 1 else ""
            yield f"now: {state}{who}"


def _state(document: dict[str, Any]) -> str:
    entry = document.get("queue")
    if entry:
        retry = (
            f", tried again in {entry['retryInSeconds']:.0f} s" if entry["retryInSeconds"] else ""
        )
        count = entry["attempts"]
        attempts = "1 attempt" if count == 1 else f"{count} attempts"
        with_gang = f", {_gang(entry['gang'])}" if entry.get("gang") else ""
        return f"waits ({entry['place']}) after {attempts}{retry}{with_gang}"
    node = document.get("node")
    return (
        f"on {node}" + (", not yet confirmed by the API server" if document["assumed"] else "")
        if node
        else ""
    )


def _gang(gang: dict[str, Any]) -> str:
    """Say how far the gang of a pod has got."""
    counts = f"{gang['running']} run, {gang.get('waiting', 0)} wait"
    places = f" in {gang['topology']}={'|'.join(gang['domains'])}" if gang.get("domains") else ""
    name = str(gang["name"]).rpartition("/")[2]
    return (
        f"with gang {gang['name']}: {counts}, {gang['needed']} needed{places}"
        f" (see `kubectl numa explain podgroup {name}`)"
    )
