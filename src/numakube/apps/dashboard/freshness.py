"""How far what is known of each node can be trusted: age, producer, fingerprint, missing pods."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.apps.dashboard.report_mismatch import sides_of
from numakube.kube.object_keys import ObjectKey
from numakube.topology.view import NodeTopology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.apps.dashboard.page_source import Age, Source
    from numakube.apps.dashboard.report_mismatch import Sides
    from numakube.topology.view import Unusable

BOUNDS: Final = (60.0, 600.0, 3600.0)
"""Reports are counted by age up to these seconds, and beyond."""
_AGES: Final = (
    "less than a minute ago",
    "less than 10 minutes ago",
    "less than an hour ago",
    "an hour ago or longer",
)
_UNKNOWN: Final = "at a time that is not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportLine:
    """The report of one node.

    Attributes:
        age: for how long it has not changed; ``None`` if that is not told.
        reserved: how many resources of zones are believed to be less free than reported.
        blocked: why the scheduler does not use the node for now.
    """

    node: str
    age: Age | None
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
        age=source.report_age(node),
        view=view,
        sides=sides_of(view, pods),
        pods=len(pods),
        reserved=reserved,
        blocked=belief.blocked if belief is not None else "",
    )


def ages_of(source: Source, nodes: Sequence[str]) -> list[tuple[str, int]]:
    """Return how many reports last changed how long ago."""
    counts: Counter[int] = Counter()
    for node in nodes:
        if source.report(node) is not None:
            age = source.report_age(node)
            known = age is not None and not age.at_least
            counts[sum(age.seconds >= bound for bound in BOUNDS) if age and known else -1] += 1
    counted = [(text, counts[index]) for index, text in enumerate(_AGES)]
    return [*counted, (_UNKNOWN, counts[-1])] if counts[-1] else counted


def orphans_of(source: Source) -> list[str]:
    """Return the reports of nodes that do not exist."""
    names = (key.name for key in source.topologies.keys())  # noqa: SIM118 - no dict
    return sorted(name for name in names if ObjectKey("", name) not in source.nodes)
