"""``kubectl numa top``: how full nodes and zones are, what still fits, where pods lie."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.cli.cluster import (
    all_namespaces_option,
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
    selector_option,
)
from numakube.cli.naming import names_argument
from numakube.cli.output import Output, make_console, output_option, print_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.cli.cluster import ClusterOptions
    from numakube.insight.facts import ClusterFacts
    from numakube.insight.usage.nodes import NodeUsage, ZoneUsage
    from numakube.values.resources import Amounts

_TABLES: Final = (Output.TABLE, Output.WIDE)


@click.command("top")
@names_argument("node", "zone", "pod", metavar="[nodes|zones|pods] [NAME]...")
@selector_option
@namespace_option
@all_namespaces_option
@cluster_options
@click.option(
    "--sort-by",
    default="",
    metavar="KEY",
    help="name, a resource such as cpu, stranded, largest, fragmentation or fits; pods: name, node,"
    " cpu, memory or zones.",
)
@click.option(
    "--shape",
    metavar="RESOURCES",
    help="Also count how many such pods fit, such as cpu=8,memory=32Gi,nvidia.com/gpu=1.",
)
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
@click.option("-w", "--watch", is_flag=True, help="Print again whenever something changes.")
@output_option(Output.TABLE, Output.WIDE, Output.JSON, Output.YAML, Output.NAME)
def command(
    *,
    what: str,
    names: tuple[str, ...],
    selector: str,
    namespace: str,
    all_namespaces: bool,
    cluster: ClusterOptions,
    sort_by: str,
    shape: str | None,
    no_headers: bool,
    watch: bool,
    output: Output,
) -> None:
    """How full are nodes and NUMA zones, what still fits, and where do pods lie?

    Columns of CPU, memory and devices are what is free of what can be given out. STRANDED is free
    for nobody, since the zone lacks what would have to go with it. LARGEST is the most CPUs with
    their share of memory that one zone still has.
    """
    view = _View(
        what=what,
        names=names,
        selector=selector,
        namespace="" if all_namespaces else namespace_for(cluster, namespace),
        sort_by=sort_by,
        shape=_parsed(shape),
        headers=not no_headers,
        anew=watch,
        output=output,
    )
    if watch:
        if not cluster.live:
            raise click.UsageError("--watch needs a live cluster; a bundle does not change.")
        from numakube.cli.following import follow

        follow(cluster, view.show)
        return
    from numakube.apps.gathering import ZONES

    view.show(facts_for(cluster, what=ZONES))


def _parsed(shape: str | None) -> Amounts:
    """Return the amounts of ``cpu=8,memory=32Gi``."""
    from numakube.errors import InvalidValue
    from numakube.values.resources import amount_of

    amounts: dict[str, int] = {}
    for part in (shape or "").split(","):
        name, equals, text = part.strip().partition("=")
        if not part.strip():
            continue
        try:
            amounts[name] = amount_of(name, text)
        except InvalidValue as error:
            raise click.UsageError(f"--shape: {part!r}: {error}") from None
        if not equals or not name or amounts[name] < 0:
            raise click.UsageError(f"--shape: {part!r} is not like cpu=8.")
    return amounts


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What to show, and how; ``shown`` is what the reader has seen last."""

    what: str
    names: tuple[str, ...]
    selector: str
    namespace: str
    sort_by: str
    shape: Amounts
    headers: bool
    anew: bool
    output: Output
    shown: list[object] = field(default_factory=list)

    def show(self, facts: ClusterFacts) -> None:
        """Print what was asked for."""
        wide = self.output is Output.WIDE
        lines, document, names = {"nodes": self._nodes, "zones": self._zones, "pods": self._pods}[
            self.what
        ](facts, wide=wide)
        if self.anew and self.shown == [document]:
            return
        self.shown[:] = [document]
        console = make_console()
        if self.anew and console.is_terminal and self.output in _TABLES:
            console.clear()
        if self.output is Output.NAME:
            lines = names
        elif self.output not in _TABLES:
            print_document(document, self.output)
            return
        if lines:
            click.echo("\n".join(lines))
        if self.anew and not console.is_terminal:
            click.echo()

    def _usages(self, facts: ClusterFacts) -> tuple[list[NodeUsage], list[ZoneUsage]]:
        from numakube.cli.choosing import chosen_nodes
        from numakube.insight.usage.nodes import node_usage

        nodes: list[NodeUsage] = []
        zones: list[ZoneUsage] = []
        for name in chosen_nodes(facts, self.names, self.selector):
            node, own = node_usage(facts, name, shape=self.shape)
            nodes.append(node)
            zones += own
        return nodes, zones

    def _nodes(
        self, facts: ClusterFacts, *, wide: bool
    ) -> tuple[list[str], Mapping[str, Any], list[str]]:
        from numakube.cli.top import tables
        from numakube.insight.usage.document import nodes_document
        from numakube.insight.usage.nodes import cluster_usage

        found, _ = self._usages(facts)
        nodes: list[Any] = tables.sorted_usages(found, self.sort_by)
        total = cluster_usage(nodes)
        rows = [tables.node_row(node, wide=wide) for node in nodes]
        if len(nodes) > 1:
            rows.append(tables.node_row(total, wide=wide))
        titles = [*tables.NODE_TITLES, *(tables.NODE_MORE if wide else ())]
        fits = [node.fits for node in nodes] + ([total.fits] if len(nodes) > 1 else [])
        return (
            self._table(titles, rows, fits),
            nodes_document(nodes, total, counts_fits=bool(self.shape)),
            [f"node/{node.node}" for node in nodes],
        )

    def _zones(
        self, facts: ClusterFacts, *, wide: bool
    ) -> tuple[list[str], Mapping[str, Any], list[str]]:
        from numakube.cli.top import tables
        from numakube.insight.usage.document import zones_document

        _, found = self._usages(facts)
        zones: list[Any] = tables.sorted_usages(found, self.sort_by)
        rows = [tables.zone_row(zone, wide=wide) for zone in zones]
        titles = [*tables.ZONE_TITLES, *(tables.ZONE_MORE if wide else ())]
        return (
            self._table(titles, rows, [zone.fits for zone in zones]),
            zones_document(zones, counts_fits=bool(self.shape)),
            list(dict.fromkeys(f"node/{zone.node}" for zone in zones)),
        )

    def _pods(
        self, facts: ClusterFacts, *, wide: bool
    ) -> tuple[list[str], Mapping[str, Any], list[str]]:
        from numakube.cli.choosing import chosen_pods
        from numakube.cli.top import tables
        from numakube.insight.facts import has_ended
        from numakube.insight.usage.document import pods_document
        from numakube.insight.usage.pods import pod_usages

        chosen = [
            pod
            for pod in chosen_pods(facts, self.namespace, self.selector)
            if not has_ended(pod) and (not self.names or pod.metadata.name in self.names)
        ]
        pods = tables.sorted_pods(list(pod_usages(facts, chosen)), self.sort_by)
        rows = [tables.pod_row(pod, wide=wide) for pod in pods]
        titles = [*tables.POD_TITLES, *(tables.POD_MORE if wide else ())]
        return (
            self._table(titles, rows, []),
            pods_document(pods),
            [f"pod/{pod.name}" for pod in pods],
        )

    def _table(self, titles: list[str], rows: list[list[str]], fits: Sequence[int]) -> list[str]:
        from numakube.cli.columns import column_lines

        if self.shape and fits:
            titles = [*titles, "FITS"]
            rows = [[*row, str(count)] for row, count in zip(rows, fits, strict=True)]
        return list(column_lines(titles, rows, headers=self.headers))
