"""``kubectl numa debug cache``: what schedulers believe of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from numakube.cli.shared.cluster_options import cluster_options
from numakube.cli.shared.kubectl_names import ObjectName
from numakube.cli.shared.output_option import Output, output_option
from numakube.cli.shared.scheduler_options import documents_for, leads, scheduler_options
from numakube.cli.shared.terminal import age, print_list, print_rows, repeated, say, watch_option
from numakube.errors import ConfigError
from numakube.values.display import held_quantities_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.scheduler_options import AskedSchedulers, Document

_TITLES = (
    "NODE", "SCHEDULER", "LEADS", "MODE", "STATE", "AGE", "REPORT", "FINGERPRINT", "PODS", "HELD",
)  # fmt: skip


@click.command("cache")
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
    """Show what schedulers believe about nodes, and why.

    Shows age and version of each node's report, whether its fingerprint matches the pods that the
    scheduler knows, pods that only one side knows, what is reserved for pods on their way, and why
    a node is blocked or stale. With the name of a node, everything about it is shown.
    """

    def look() -> None:
        query = {"node": node} if node else {}
        found = documents_for(cluster, schedulers, "cache", "/debug/cache", query)
        items = list(_items(found, node))
        if node and not items:
            raise ConfigError(f"no scheduler knows a node {node}")
        _print(items, output, detailed=node is not None)

    repeated(look, watch=watch and cluster.live)


def _items(found: dict[str, Document], node: str | None) -> Iterator[Document]:
    for scheduler, document in found.items():
        for entry in document["nodes"]:
            if node in (None, entry["name"]):
                mode = document.get("mode", "")
                yield {"scheduler": scheduler, "leads": leads(document), "mode": mode, **entry}


def _print(items: list[Document], output: Output, *, detailed: bool) -> None:
    if output in (Output.JSON, Output.YAML):
        print_list("NodeCacheList", items, output)
    elif output is Output.NAME:
        for name in dict.fromkeys(item["name"] for item in items):
            say(f"node/{name}")
    elif detailed and output is Output.TABLE:
        for item in items:
            for line in _details(item):
                say(line)
    else:
        wide = ("WHY",) if output is Output.WIDE else ()
        print_rows(
            (*_TITLES, *wide),
            ((*_row(item), _why(item))[: len(_TITLES) + len(wide)] for item in items),
            empty="no nodes",
        )


def _row(item: Document) -> tuple[object, ...]:
    numa = item["numa"]
    who = (item["name"], item["scheduler"], "yes" if item["leads"] else "no")
    if numa is None:
        return (*who, item["mode"], item["state"], "", "", "", item["pods"], "")
    return (
        *who,
        item["mode"],
        item["state"],
        age(numa["report"]["ageSeconds"]),
        numa["report"]["resourceVersion"],
        _fingerprint(numa),
        _pods(item, numa),
        len(numa["reservations"]),
    )


def _fingerprint(numa: dict[str, Any]) -> str:
    if numa["fingerprint"]["reported"] is None:
        return "none"
    return "matches" if numa["fingerprint"]["matched"] else "differs"


def _pods(item: Document, numa: dict[str, Any]) -> str:
    here, there = len(numa["podsOnlyHere"]), len(numa["podsOnlyInReport"])
    return f"{item['pods']}" + (f" (+{here} -{there})" if here or there else "")


def _why(item: Document) -> str:
    numa = item["numa"]
    if numa is None:
        return "there is no usable NodeResourceTopology of it"
    why = (numa["blocked"], numa["stale"], numa.get("orphaned"), *numa["problems"])
    return "; ".join(filter(None, why))


def _details(item: Document) -> Iterator[str]:
    from numakube.insight.pod_timeline import use_text

    role = "leads" if item["leads"] else "stands by"
    yield f"{item['name']}, as {item['scheduler']} sees it, which {role}"
    yield f"  cache          {item['mode']}, {item['state']}"
    if _why(item):
        yield f"  why            {_why(item)}"
    numa = item["numa"]
    if numa is None:
        return
    report, prints = numa["report"], numa["fingerprint"]
    latest = report["latestResourceVersion"]
    waiting = (
        f", version {latest} is not believed yet" if latest != report["resourceVersion"] else ""
    )
    yield f"  policy         {numa['policy']}, scope {numa['scope']}"
    yield (
        f"  report         version {report['resourceVersion']} of {numa['producer']}, generation "
        f"{report['generation']}, {age(report['ageSeconds'])} old"
        f"{', exact' if numa['exact'] else ', counts only'}{waiting}"
    )
    if why := numa.get("whyInexact"):
        yield f"  not exact      {why}"
    told = prints["reported"] or "none"
    yield f"  fingerprint    {told} ({prints['method']}), {_fingerprint(numa)}"
    yield f"  computed       {prints['computed']}"
    yield f"  pods           {item['pods']}"
    yield from _list("only known here", numa["podsOnlyHere"])
    yield from _list("only in report", numa["podsOnlyInReport"])
    for reservation in numa["reservations"]:
        held = use_text(reservation["held"])
        yield f"  held           {held} for {reservation['pod']} ({reservation['stage']})"
    for zone in numa["zones"]:
        yield f"  zone {zone['id']:<9} free {held_quantities_text(zone['available'])}"


def _list(title: str, names: list[str]) -> Iterator[str]:
    if names:
        yield f"  {title:<14} {', '.join(names)}"
