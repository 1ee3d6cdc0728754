"""``kubectl numa top``: how full nodes and zones are, and what still fits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.cli.shared.cluster_options import (
    all_namespaces_option,
    cluster_options,
    facts_for,
    namespace_for,
    namespace_option,
    selector_option,
    warn_of_refusal,
)
from numakube.cli.shared.kubectl_names import names_argument
from numakube.cli.shared.output_option import (
    Output,
    make_console,
    output_option,
    print_document,
    text_width,
)
from numakube.cli.shared.terminal import say

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.cli.shared.connection_options import ClusterOptions
    from numakube.cli.shared.pods_in_manifests import Batch
    from numakube.insight.facts import ClusterFacts
    from numakube.insight.usage.zone_usage import NodeUsage, ZoneUsage

_PIPED_WIDTH: Final = 120
_TABLES: Final = (Output.TABLE, Output.WIDE)
_FOR_MPI: Final = (Output.HOSTFILE, Output.RANKFILE)


@click.command("top")
@names_argument(
    "node", "zone", "pod", "namespace", metavar="[nodes|zones|pods|namespaces] [NAME]..."
)
@selector_option
@namespace_option
@all_namespaces_option
@cluster_options
@click.option(
    "--sort-by",
    default="",
    metavar="KEY",
    help="name, a resource such as cpu, stranded, largest, fragmentation or fits; pods: name, node,"
    " cpu, memory or zones; namespaces: name, pods, strands or a resource.",
)
@click.option(
    "--shape",
    metavar="RESOURCES",
    help="Also count how many more such pods the scheduler would place, such as"
    " cpu=8,memory=32Gi,nvidia.com/gpu=1.",
)
@click.option(
    "-f",
    "--filename",
    metavar="FILE",
    help="Also count how many more pods of this manifest (a Pod, Deployment, Job, ...) it would.",
)
@click.option(
    "--measured", is_flag=True, help="pods: also show what they really have, where it is measured."
)
@click.option("--group-by", "label", default="", metavar="LABEL", help="Add nodes up by a label.")
@click.option("--no-headers", is_flag=True, help="Print no titles of columns.")
@click.option("-w", "--watch", is_flag=True, help="Print again whenever something changes.")
@output_option(*Output)
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
    filename: str | None,
    measured: bool,
    label: str,
    no_headers: bool,
    watch: bool,
    output: Output,
) -> None:
    """How full are nodes and NUMA zones, what still fits, and where do pods run?

    top namespaces tells what the pods of each namespace have for themselves, and STRANDS what is
    unusable because of them: they hold what the zone lacks. -l chooses the nodes to look at.

    The columns of CPU, memory and devices show what is free and what can be given out. STRANDED is
    free but unusable, because the zone lacks another resource that has to go with it. LARGEST is
    the most CPUs with their share of memory that one zone still has. FITS is found by trying, pod
    after pod, on the scheduler's own plugins and the kubelet model.
    """
    if output in _FOR_MPI and what != "pods":
        raise click.UsageError(f"-o {output} is about pods: top pods -o {output}.")
    if (shape or filename or label) and what != "nodes":
        raise click.UsageError("--shape, -f and --group-by are about nodes, not zones or pods.")
    if measured and what != "pods":
        raise click.UsageError("--measured is about pods; map --measured shows zones.")
    space = namespace_for(cluster, namespace)
    view = _View(
        what=what,
        observer="measured" if measured else "",
        names=names,
        selector=selector,
        namespace="" if all_namespaces else space,
        sort_by=sort_by,
        wanted=_wanted(shape, filename, space),
        label=label,
        headers=not no_headers,
        follows=watch,
        output=output,
    )
    if watch:
        if not cluster.live:
            raise click.UsageError("--watch needs a live cluster; a bundle does not change.")
        from numakube.cli.shared.watch_option import follow

        follow(cluster, view.show)
        return
    from numakube.apps.gathering import SCHEDULING, ZONES

    facts = facts_for(cluster, what=SCHEDULING if view.wanted else ZONES)
    view.show(facts)
    warn_of_refusal(facts)


def _wanted(shape: str | None, filename: str | None, namespace: str) -> Batch | None:
    """Return what to count, if anything."""
    if shape is None and filename is None:
        return None
    from numakube.cli.shared.wanted_pod import wanted_pod

    return wanted_pod(shape, filename, namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class _View:
    """What to show, and how; ``shown`` is what the reader has seen last."""

    what: str
    observer: str
    names: tuple[str, ...]
    selector: str
    namespace: str
    sort_by: str
    wanted: Batch | None
    label: str
    headers: bool
    follows: bool
    output: Output
    shown: list[object] = field(default_factory=list)

    def show(self, facts: ClusterFacts) -> None:
        """Print what was asked for."""
        wide = self.output is Output.WIDE
        lines, document, names = {
            "nodes": self._nodes,
            "zones": self._zones,
            "pods": self._pods,
            "namespaces": self._namespaces,
        }[self.what](facts, wide=wide)
        if self.follows and self.shown == [document]:
            return
        self.shown[:] = [document]
        console = make_console()
        if self.follows and console.is_terminal and self.output in _TABLES:
            console.clear()
        if self.output is Output.NAME:
            lines = names
        elif self.output in _FOR_MPI:
            pass
        elif self.output not in _TABLES:
            print_document(document, self.output)
            return
        for line in lines:
            say(line)
        if self.follows and not console.is_terminal:
            click.echo()

    def _usages(self, facts: ClusterFacts) -> tuple[list[NodeUsage], list[ZoneUsage]]:
        from numakube.cli.shared.selection import chosen_nodes
        from numakube.insight.usage.zone_usage import node_usage

        room = self._room(facts)
        blind = self._without_zones(facts)
        nodes: list[NodeUsage] = []
        zones: list[ZoneUsage] = []
        for name in chosen_nodes(facts, self.names, self.selector):
            node, own = node_usage(facts, name, fits=None if name in blind else room.get(name, 0))
            nodes.append(node)
            zones += own
        return nodes, zones

    def _room(self, facts: ClusterFacts) -> Mapping[str, int]:
        """Return by node how many pods fit of what was asked about."""
        if self.wanted is None:
            return {}
        from numakube.cli.shared.wanted_pod import known_in
        from numakube.insight.explain.workload_explanation import room_in

        return room_in(facts, known_in(facts, self.wanted).pod)

    def _without_zones(self, facts: ClusterFacts) -> set[str]:
        """Return the nodes of which nobody can say how many of the pods fit."""
        if self.wanted is None:
            return set()
        from numakube.insight.unknown_zones import why_unknown

        return {name for name in facts.nodes if why_unknown(facts, self.wanted.pod, [name])}

    def _nodes(
        self, facts: ClusterFacts, *, wide: bool
    ) -> tuple[list[str], Mapping[str, Any], list[str]]:
        from numakube.cli.top import top_columns
        from numakube.insight.usage.usage_json import groups_document, nodes_document
        from numakube.insight.usage.zone_usage import cluster_usage, usage_by_label

        found, _ = self._usages(facts)
        total, fits = cluster_usage(found), self.wanted is not None
        if self.label:
            groups: list[Any] = top_columns.sorted_usages(
                usage_by_label(facts, found, self.label), self.sort_by
            )
            titles, rows = top_columns.groups_table(
                [*groups, total], self.label, wide=wide, fits=fits
            )
            document = groups_document(groups, total, self.label, counts_fits=fits)
            names = [f"{self.label}={group.node}" for group in groups]
        else:
            nodes: list[Any] = top_columns.sorted_usages(found, self.sort_by)
            shown = [*nodes, total] if len(nodes) > 1 else nodes
            titles, rows = top_columns.nodes_table(shown, wide=wide, fits=fits)
            document = nodes_document(nodes, total, counts_fits=fits)
            names = [f"node/{node.node}" for node in nodes]
        return [*self._table(titles, rows), *self._replicas(total, document)], document, names

    def _replicas(self, total: NodeUsage, document: dict[str, Any]) -> list[str]:
        """Say whether there is room for all that a manifest asks for."""
        if self.wanted is None or self.wanted.replicas is None:
            return []
        count, fits = self.wanted.replicas, min(self.wanted.replicas, total.fits or 0)
        document["replicas"] = {"of": self.wanted.title, "wanted": count, "fit": fits}
        verb = "fits" if fits == 1 else "fit"
        return [f"{fits} of {count} pods of {self.wanted.title} {verb}."]

    def _zones(
        self, facts: ClusterFacts, *, wide: bool
    ) -> tuple[list[str], Mapping[str, Any], list[str]]:
        from numakube.cli.top import top_columns
        from numakube.insight.usage.usage_json import zones_document

        _, found = self._usages(facts)
        zones: list[Any] = top_columns.sorted_usages(found, self.sort_by)
        return (
            self._table(*top_columns.zones_table(zones, wide=wide)),
            zones_document(zones),
            list(dict.fromkeys(f"node/{zone.node}" for zone in zones)),
        )

    def _pods(
        self, facts: ClusterFacts, *, wide: bool
    ) -> tuple[list[str], Mapping[str, Any], list[str]]:
        from numakube.api.pod import has_ended
        from numakube.cli.shared.selection import chosen_pods
        from numakube.cli.top import top_columns
        from numakube.insight.usage.pod_alignment import pod_usages
        from numakube.insight.usage.usage_json import pods_document

        chosen = [
            pod
            for pod in chosen_pods(facts, self.namespace, self.selector)
            if not has_ended(pod) and (not self.names or pod.metadata.name in self.names)
        ]
        usages = list(pod_usages(facts, chosen))
        if self.output in _FOR_MPI:
            from numakube.cli.top.mpi_files import hostfile, rankfile

            write = hostfile if self.output is Output.HOSTFILE else rankfile
            return write(chosen, usages), {}, []
        pods = top_columns.sorted_pods(usages, self.sort_by)
        rows = [top_columns.pod_row(pod, wide=wide) for pod in pods]
        titles = [*top_columns.POD_TITLES, *(top_columns.POD_MORE if wide else ())]
        document = pods_document(pods)
        if self.observer:
            self._observe(facts, titles, rows, document["items"])
        return self._table(titles, rows), document, [f"pod/{pod.name}" for pod in pods]

    def _observe(
        self,
        facts: ClusterFacts,
        titles: list[str],
        rows: list[list[str]],
        items: list[dict[str, Any]],
    ) -> None:
        """Add to each pod what was seen of it."""
        from numakube.insight.observations import observed, observer

        watcher = observer(self.observer)
        titles.append(self.observer.upper())
        for row, item in zip(rows, items, strict=True):
            pod = facts.pod(item["namespace"], item["name"])
            if pod is None or not pod.spec.node_name:
                row.append("")
                continue
            seen = watcher.of_pod(observed(facts, pod.spec.node_name), pod)
            row.append(seen.text)
            item[self.observer] = dict(seen.document)

    def _namespaces(
        self, facts: ClusterFacts, *, wide: bool
    ) -> tuple[list[str], Mapping[str, Any], list[str]]:
        del wide
        from numakube.cli.shared.selection import chosen_nodes
        from numakube.cli.top import top_columns
        from numakube.insight.usage.namespace_usage import namespace_usages
        from numakube.insight.usage.usage_json import namespaces_document

        found = [
            usage
            for usage in namespace_usages(facts, chosen_nodes(facts, (), self.selector))
            if not self.names or usage.namespace in self.names
        ]
        usages = top_columns.sorted_namespaces(found, self.sort_by)
        return (
            self._table(top_columns.NAMESPACE_TITLES, list(map(top_columns.namespace_row, usages))),
            namespaces_document(usages),
            [f"namespace/{usage.namespace}" for usage in usages if usage.namespace],
        )

    def _table(self, titles: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
        from numakube.cli.shared.terminal import column_lines
        from numakube.cli.top.top_columns import narrowed

        if self.output is not Output.WIDE and self.what in ("nodes", "zones"):
            width = text_width(make_console(), _PIPED_WIDTH)
            titles, rows = narrowed(titles, rows, width, keep=self.sort_by)
        return list(column_lines(titles, rows, headers=self.headers))
