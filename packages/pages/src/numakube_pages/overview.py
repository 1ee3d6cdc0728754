"""The first page: how full the cluster is, what waits, and what is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.values.resources import CPU, MEMORY, is_hugepages
from numakube_pages import node_rows as flags
from numakube_pages.node_rows import grouped
from numakube_pages.pod_view import group_by_reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube_pages.node_rows import NodeRow
    from numakube_pages.page_source import Source
    from numakube_pages.pod_view import WaitingGroup


_FIRST: Final = (CPU, MEMORY)


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceTotal:
    """One resource in the whole cluster.

    Attributes:
        largest: the most that any one zone has left.
    """

    name: str
    total: int
    free: int
    largest: int

    @property
    def used_percent(self) -> int:
        """How much of it is taken."""
        return flags.used_percent(self.total, self.free)


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What the first page tells.

    Attributes:
        ready: nodes whose kubelet works.
        zone_count: NUMA zones of all nodes.
        flawed: how many nodes have which trouble, by flag.
    """

    nodes: int
    ready: int
    zone_count: int
    placed: int
    waiting: int
    refused: int
    mispredictions: int | None
    reported: int
    flawed: Counter[int]
    totals: Sequence[ResourceTotal]
    groups: Sequence[WaitingGroup]


def overview_of(source: Source, rows: Sequence[NodeRow]) -> Overview:
    """Return the figures of the whole cluster."""
    book, inside = source.pod_book, source.inside
    flawed = _flawed(rows)
    return Overview(
        nodes=len(rows),
        ready=len(rows) - flawed[flags.NOT_READY],
        zone_count=sum(len(row.zones) for row in rows),
        placed=book.placed_count,
        waiting=len(book.waiting),
        refused=len(book.refused),
        mispredictions=None if inside is None else len(inside.mispredictions()),
        reported=len(rows) - flawed[flags.NO_REPORT] - flawed[flags.UNUSABLE],
        flawed=flawed,
        totals=totals_of(rows),
        groups=group_by_reason(book.waiting.values()),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelGroup:
    """Nodes with the same value of a label, added up.

    Attributes:
        uses: each resource in all of their zones.
        fits: how many pods fit of the shape that was asked about.
    """

    value: str
    nodes: int
    zones: int
    uses: Mapping[str, ResourceTotal]
    pods: int
    fits: int


def groups_of(
    rows: Iterable[NodeRow], label: str, *, pods_on: Callable[[str], int], fits: Mapping[str, int]
) -> list[LabelGroup]:
    """Return nodes by the value of *label*."""
    return [
        LabelGroup(
            value=value,
            nodes=len(members),
            zones=sum(len(row.zones) for row in members),
            uses={total.name: total for total in totals_of(members)},
            pods=sum(pods_on(row.name) for row in members),
            fits=sum(fits.get(row.name, 0) for row in members),
        )
        for value, members in grouped(rows, label).items()
    ]


def totals_of(rows: Sequence[NodeRow]) -> list[ResourceTotal]:
    """Return each resource in the whole cluster: CPU, memory, hugepages, then devices."""
    sums: dict[str, list[int]] = {}
    for row in rows:
        for name, use in row.uses.items():
            one = sums.setdefault(name, [0, 0, 0])
            one[0] += use.total
            one[1] += use.total_free
            if use.largest > one[2]:
                one[2] = use.largest
    return [
        ResourceTotal(name=name, total=total, free=free, largest=largest)
        for name, (total, free, largest) in sorted(sums.items(), key=_rank)
    ]


def _rank(item: tuple[str, object]) -> tuple[int, str]:
    name = item[0]
    if name in _FIRST:
        return _FIRST.index(name), name
    return (len(_FIRST) if is_hugepages(name) else len(_FIRST) + 1), name


def _flawed(rows: Sequence[NodeRow]) -> Counter[int]:
    found: Counter[int] = Counter()
    for row in rows:
        if row.flags:
            found.update(kind.flag for kind in flags.KINDS if row.flags & kind.flag)
    return found
