"""The columns of ``kubectl numa top``, and by what rows can be sorted."""

from __future__ import annotations

from collections import Counter
from math import inf
from typing import TYPE_CHECKING, Final, TypeAlias

import click

from numakube.values.cpuset import CpuSet
from numakube.values.display import amount_text, brief_text, short_name
from numakube.values.resources import CPU, MEMORY, is_hugepages, is_memory

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numakube.insight.usage.close_pairs import ClosePairs
    from numakube.insight.usage.largest_pod import PodShape
    from numakube.insight.usage.namespace_usage import NamespaceUsage
    from numakube.insight.usage.pod_alignment import PodUsage
    from numakube.insight.usage.zone_usage import NodeUsage, ZoneUsage
    from numakube.values.resources import Amounts

Usage: TypeAlias = "NodeUsage | ZoneUsage"

NODE_TITLES: Final = (
    "NODE", "POLICY", "ZONES", "CPU", "MEMORY", "DEVICES", "STRANDED", "LARGEST", "FRAGMENTED",
)  # fmt: skip
GROUP_TITLES: Final = ("NODES", *NODE_TITLES[2:])
HUGEPAGES: Final = "HUGEPAGES"
NODE_MORE: Final = (HUGEPAGES, "LARGEST WITH DEVICES", "CLOSE PAIRS", "DATA")
ZONE_TITLES: Final = ("NODE", "ZONE", "CPU", "MEMORY", "DEVICES", "STRANDED", "LARGEST")
ZONE_MORE: Final = ("USED", HUGEPAGES, "LARGEST WITH DEVICES", "CLOSE PAIRS", "WITHIN")
POD_TITLES: Final = ("NAMESPACE", "POD", "NODE", "ALIGNMENT", "ZONES", "CPUS", "MEMORY", "DEVICES")
NAMESPACE_TITLES: Final = (
    "NAMESPACE", "PODS", "CPUS", "MEMORY", "DEVICES", "ALIGNED", "STRANDS", "UNKNOWN",
)  # fmt: skip
NOBODYS: Final = "<none>"
POD_MORE: Final = ("CLOSENESS", "CONTAINERS")
TOTAL: Final = "*"
_DISPENSABLE: Final = ("FRAGMENTED", "POLICY", "ZONES", "STRANDED", "DEVICES")
"""Columns that are left out where a table would be too wide, the first first."""
_GAP: Final = 3
_STEM: Final = 5
"""Letters that the name of a column and what rows are sorted by have in common."""
_PAIRS: Final = 3
"""Pairs of resources in a cell."""


def node_row(node: NodeUsage, *, wide: bool) -> list[str]:
    """Return the cells of a node; one without data says why."""
    name = node.node or TOTAL
    if node.why_unknown:
        more = [""] * len(NODE_MORE) if wide else []
        return [name, "", "", "", "", "", "", node.why_unknown, "", *more]
    row = [name, node.policy, str(node.zones), *_amounts(node), _largest(node), _fragments(node)]
    if wide:
        row += [*_more(node), _data(node)]
    return row


def nodes_table(
    nodes: Sequence[NodeUsage], *, wide: bool, fits: bool
) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows of nodes; what fits, and what is wrong with any, comes last."""
    titles = [*NODE_TITLES, *(NODE_MORE if wide else ())]
    rows = [node_row(node, wide=wide) for node in nodes]
    return _with_last(nodes, *with_hugepages(nodes, titles, rows), fits=fits)


def groups_table(
    groups: Sequence[NodeUsage], label: str, *, wide: bool, fits: bool
) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows of groups of nodes, the total last."""
    titles = [label, *GROUP_TITLES, *(NODE_MORE[:-1] if wide else ())]
    rows = [_group_row(group, wide=wide) for group in groups]
    return _with_last(groups, *with_hugepages(groups, titles, rows), fits=fits)


def narrowed(
    titles: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, keep: str = ""
) -> tuple[list[str], list[list[str]]]:
    """Return the table without columns, those first that say nothing, until it fits *width*.

    The column by which rows are sorted, if *keep* names one, stays.
    """
    columns = dict(zip(titles, zip(*rows, strict=True), strict=True)) if rows else {}
    sorted_by = keep.upper()[:_STEM]
    empty = [name for name, cells in columns.items() if not any(cells)]
    for name in (*empty, "LARGEST", *_DISPENSABLE):
        widths = (max(map(len, (title, *cells))) for title, cells in columns.items())
        if sum(widths) + _GAP * (len(columns) - 1) <= width:
            break
        if name == "LARGEST":
            # Where the largest of all is can be seen above.
            *above, last = columns[name]
            total = rows[-1][0] == TOTAL
            columns[name] = (*above, last.partition(" on ")[0] if total else last)
        elif name[:_STEM] != sorted_by:
            columns.pop(name, None)
    return list(columns) or list(titles), [list(row) for row in zip(*columns.values(), strict=True)]


def with_hugepages(
    usages: Sequence[Usage], titles: Sequence[str], rows: Sequence[Sequence[str]]
) -> tuple[list[str], list[list[str]]]:
    """Return the table with hugepages beside memory, where any node has some."""
    cells = [_hugepages(one) for one in usages]
    if not any(cells) or HUGEPAGES in titles:
        return list(titles), list(map(list, rows))
    place = titles.index("MEMORY") + 1
    filled = [[*row[:place], cell, *row[place:]] for row, cell in zip(rows, cells, strict=True)]
    return [*titles[:place], HUGEPAGES, *titles[place:]], filled


def _with_last(
    nodes: Sequence[NodeUsage], titles: list[str], rows: list[list[str]], *, fits: bool
) -> tuple[list[str], list[list[str]]]:
    last: dict[str, list[str]] = {}
    if fits:
        last["FITS"] = ["unknown" if node.fits is None else str(node.fits) for node in nodes]
    if any(node.troubles for node in nodes):
        last["STATUS"] = [",".join(node.troubles) or "Ready" for node in nodes]
    more = zip(*last.values(), strict=True) if last else ((),) * len(rows)
    return [*titles, *last], [[*row, *cells] for row, cells in zip(rows, more, strict=True)]


def _group_row(group: NodeUsage, *, wide: bool) -> list[str]:
    row = [
        group.node or TOTAL, str(group.nodes), str(group.zones), *_amounts(group),
        _largest(group), _fragments(group),
    ]  # fmt: skip
    return [*row, *_more(group)] if wide else row


def zones_table(zones: Sequence[ZoneUsage], *, wide: bool) -> tuple[list[str], list[list[str]]]:
    """Return titles and rows; zones of a node without CPUs that are alike share a row."""
    titles = [*ZONE_TITLES, *(ZONE_MORE if wide else ())]
    titles, cells = with_hugepages(zones, titles, [_zone_row(zone, wide=wide) for zone in zones])
    rows: dict[object, tuple[list[str], list[int]]] = {}
    for zone, row in zip(zones, cells, strict=True):
        alike = zone.zone if zone.allocatable.get(CPU) else tuple(row[2:])
        rows.setdefault((row[0], alike), (row, []))[1].append(zone.zone)
    return titles, [[row[0], str(CpuSet.of(ids)), *row[2:]] for row, ids in rows.values()]


def _zone_row(zone: ZoneUsage, *, wide: bool) -> list[str]:
    row = [zone.node, str(zone.zone), *_amounts(zone), zone.largest.text]
    if wide:
        used = {name: amount for name, amount in zone.used.items() if amount}
        row += [amounts_text(used), *_more(zone), " / ".join(zone.within)]
    return row


def pod_row(pod: PodUsage, *, wide: bool) -> list[str]:
    """Return the cells of a pod."""
    row = [
        pod.namespace,
        pod.name,
        pod.node,
        pod.words,
        "+".join(map(str, pod.zones)),
        str(pod.cpus),
        amounts_text(pod.memory),
        amounts_text(pod.devices),
    ]
    if wide:
        containers = (f"{name}: {zone}" for name, zone in pod.containers.items())
        row += [pod.closeness, ", ".join(containers) or pod.why_unknown]
    return row


def namespace_row(usage: NamespaceUsage) -> list[str]:
    """Return the cells of a namespace."""
    holding = usage.aligned + usage.spread
    return [
        usage.namespace or NOBODYS,
        str(usage.pods),
        str(usage.cpus),
        amounts_text(usage.memory),
        amounts_text(usage.devices),
        f"{usage.aligned} of {holding}" if holding else "",
        amounts_text(usage.strands),
        str(usage.unknown or ""),
    ]


def _amounts(usage: Usage) -> list[str]:
    """Return free of allocatable for CPUs, memory and devices, and what is stranded."""
    devices = [name for name in sorted(usage.allocatable) if name != CPU and not is_memory(name)]
    return [
        _of(usage, CPU),
        _of(usage, MEMORY),
        ", ".join(f"{short_name(name)} {_of(usage, name)}" for name in devices),
        amounts_text(usage.stranded),
    ]


def _of(usage: Usage, resource: str) -> str:
    if resource not in usage.allocatable:
        return ""
    free, total = usage.free.get(resource, 0), usage.allocatable[resource]
    return f"{amount_text(resource, free)}/{amount_text(resource, total)}"


def _more(usage: Usage) -> list[str]:
    """Return hugepages, what fits with devices, and pairs of devices behind one switch."""
    return [_hugepages(usage), _with_devices(usage.with_devices), _pairs_text(usage.pairs)]


def _hugepages(usage: Usage) -> str:
    kinds = [name for name in sorted(usage.allocatable) if is_hugepages(name)]
    return ", ".join(f"{name.partition('-')[2]} {_of(usage, name)}" for name in kinds)


def _largest(node: NodeUsage) -> str:
    text = node.largest.text
    return f"{text} on {node.largest_on}" if node.largest_on not in ("", node.node) else text


def _with_devices(shapes: Mapping[str, PodShape]) -> str:
    return ", ".join(shape.text for _, shape in sorted(shapes.items()))


def _pairs_text(pairs: Sequence[ClosePairs]) -> str:
    """Return free of all pairs and the best one: ``gpu+hostdev 3/4 PIX``; those that can be close.

    Where no devices are behind one switch, the closest pair is all that there is to tell.
    """
    told = [pair for pair in pairs if pair.total] or sorted(pairs, key=_closest)[:1]
    texts = [" ".join(filter(None, _pair_words(one))) for one in told]
    more = f" and {len(texts) - _PAIRS} more" if len(texts) > _PAIRS else ""
    return ", ".join(texts[:_PAIRS]) + more


def _pair_words(pairs: ClosePairs) -> tuple[str, ...]:
    return (
        "+".join(map(short_name, pairs.resources)),
        f"{pairs.free}/{pairs.total}" if pairs.total else "",
        "" if pairs.best is None else pairs.best.name,
    )


def _closest(pairs: ClosePairs) -> float:
    return inf if pairs.best is None else pairs.best


def amounts_text(amounts: Amounts) -> str:
    """Return amounts in a few words: ``6 CPU, 12Gi, 1 gpu``."""
    return ", ".join(brief_text(*each) for each in amounts.items())


def _fragments(node: NodeUsage) -> str:
    shares = {name: round(100 * share) for name, share in node.fragmentation.items()}
    return ", ".join(
        f"{short_name(name)} {share}%"
        for name, share in shares.items()
        if share and not is_hugepages(name)
    )


def _data(node: NodeUsage) -> str:
    words = ["exact" if node.exact else "amounts"]
    if node.stale:
        words.append(f"old: {node.stale}")
    if node.pending:
        words.append(f"{node.pending} pods not reported yet")
    return ", ".join(words)


def sorted_usages(usages: Sequence[Usage], key: str) -> list[Usage]:
    """Return nodes or zones in order; numbers go from large to small.

    A key is ``name``, ``stranded``, ``largest``, ``fragmentation``, ``fits`` or a resource, of
    which what is free counts.
    """
    if not key or key == "name":
        return list(usages)
    measure = _MEASURES.get(key) or _free_measure(usages, key)
    return sorted(usages, key=measure, reverse=True)


def _free_measure(usages: Sequence[Usage], key: str) -> Callable[[Usage], float]:
    known = {name for usage in usages for name in usage.allocatable}
    found = [name for name in sorted(known) if key in (name, short_name(name))]
    if not found:
        choices = ", ".join([*_MEASURES, "name", *sorted(known)])
        raise click.UsageError(f"--sort-by {key}: nothing of that name; there are {choices}")
    return lambda usage: usage.free.get(found[0], 0)


def _stranded(usage: Usage) -> float:
    """Return the stranded part: the sum over resources of what share of them is stranded."""
    return sum(
        amount / usage.allocatable[name]
        for name, amount in usage.stranded.items()
        if usage.allocatable.get(name)
    )


def _worst(usage: Usage) -> float:
    return max(getattr(usage, "fragmentation", {}).values(), default=0.0)


_MEASURES: Final[Mapping[str, Callable[[Usage], float]]] = {
    "stranded": _stranded,
    "largest": lambda usage: usage.largest.cpus,
    "fragmentation": _worst,
    "fits": lambda usage: getattr(usage, "fits", 0) or 0,
}


def sorted_namespaces(usages: Sequence[NamespaceUsage], key: str) -> list[NamespaceUsage]:
    """Return namespaces in order; numbers go from large to small."""
    measures: dict[str, Callable[[NamespaceUsage], float]] = {
        "pods": lambda usage: usage.pods,
        "cpu": lambda usage: usage.cpus,
        "memory": lambda usage: sum(usage.memory.values()),
    }
    devices = {name for usage in usages for name in (*usage.devices, *usage.strands)}
    for name in sorted(devices - {CPU, MEMORY}):
        measures[name] = measures[short_name(name)] = lambda usage, name=name: (  # type: ignore[misc]
            usage.devices[name]
        )
    if key in ("", "name"):
        return list(usages)
    if key == "strands":
        # In proportion, so that resources of different units can be added up.
        total = sum((usage.strands for usage in usages), Counter[str]())
        return sorted(
            usages,
            key=lambda usage: sum(part / total[name] for name, part in usage.strands.items()),
            reverse=True,
        )
    if key not in measures:
        raise click.UsageError(
            f"--sort-by {key}: namespaces are sorted by name, strands, {', '.join(measures)}"
        )
    return sorted(usages, key=measures[key], reverse=True)


def sorted_pods(pods: Sequence[PodUsage], key: str) -> list[PodUsage]:
    """Return pods in order; numbers go from large to small."""
    measures: dict[str, Callable[[PodUsage], float]] = {
        "cpu": lambda pod: len(pod.cpus),
        "memory": lambda pod: sum(pod.memory.values()),
        "zones": lambda pod: len(pod.zones),
    }
    by_place = sorted(pods, key=lambda pod: (pod.namespace, pod.name))
    if key == "node":
        return sorted(by_place, key=lambda pod: pod.node)
    if key in ("", "name"):
        return by_place
    if key not in measures:
        raise click.UsageError(
            f"--sort-by {key}: pods are sorted by name, node, {', '.join(measures)}"
        )
    return sorted(by_place, key=measures[key], reverse=True)
