"""How far what is known of each node can be trusted: age, producer, fingerprint, missing pods."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.apps.dashboard.sides import sides_of
from numakube.kube.objects import ObjectKey
from numakube.topology.view import NodeTopology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.apps.dashboard.sides import Sides
    from numakube.apps.dashboard.source import Source
    from numakube.topology.view import Unusable

BOUNDS: Final = (60.0, 600.0, 3600.0)
"""Reports are counted by age up to these seconds, and beyond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """The report of one node.

    Attributes:
        age: for how many seconds it has not changed; so long at least if ``age_at_least``.
        reserved: how many resources of zones are believed to be less free than reported.
        blocked: why the scheduler does not use the node for now.
    """

    node: str
    age: float
    age_at_least: bool
    view: NodeTopology | Unusable | None
    sides: Sides
    pods: int
    reserved: int | None
    blocked: str

    @property
    def told(self) -> NodeTopology | None:
        """The report, if it can be used."""
        return self.view if isinstance(self.view, NodeTopology) else None


def report_line(source: Source, node: str) -> ReportLine:
    """Return what there is to say about the report of a node."""
    view = source.view(node)
    pods = source.pod_book.running_on(node)
    age, at_least = source.report_age(node)
    belief = source.inside.belief(node) if source.inside else None
    reserved = None
    if belief is not None and isinstance(view, NodeTopology):
        pairs = zip(view.zones, belief.available, strict=False)
        reserved = sum(
            free < zone.available.get(name, 0)
            for zone, believed in pairs
            for name, free in believed.items()
        )
    return ReportLine(
        node=node,
        age=age,
        age_at_least=at_least,
        view=view,
        sides=sides_of(view, pods),
        pods=len(pods),
        reserved=reserved,
        blocked=belief.blocked if belief is not None else "",
    )


def ages_of(source: Source, nodes: Sequence[str]) -> list[tuple[str, int]]:
    """Return how many reports have not changed for how long."""
    counts: Counter[int] = Counter()
    for node in nodes:
        if source.report(node) is not None:
            age, _ = source.report_age(node)
            counts[sum(age >= bound for bound in BOUNDS)] += 1
    texts = ("under a minute", "under ten minutes", "under an hour", "an hour or more")
    return [(text, counts[index]) for index, text in enumerate(texts)]


def orphans_of(source: Source) -> list[str]:
    """Return the reports of nodes that do not exist."""
    names = (key.name for key in source.topologies.keys())  # noqa: SIM118 - no dict
    return sorted(name for name in names if ObjectKey("", name) not in source.nodes)
