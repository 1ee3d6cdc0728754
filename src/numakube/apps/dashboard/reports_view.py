"""How far the report of each node can be trusted: age, producer, fingerprint, missing pods.

An exact report names the pods that it accounts for; other producers leave a fingerprint, which
says whether the sets agree but not where they differ.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from numakube.kube.resource_types import ObjectKey
from numakube.topology.exact_report import uid_hash
from numakube.topology.fingerprint import fingerprint_of, has_exclusive_resources
from numakube.topology.topology_view import FingerprintMethod, NodeTopology

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.api.pod import Pod
    from numakube.apps.dashboard.page_source import Age, Source
    from numakube.topology.topology_view import Unusable


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


class Agreement(StrEnum):
    """Whether a report and the API server tell of the same pods."""

    SAME = "same pods"
    DIFFERENT = "other pods"
    UNKNOWN = "not told"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """A report's pods against those of the API server.

    Attributes:
        fingerprint: the report's; empty if it has none.
        expected: that of the pods which the API server knows on the node.
        method: of which pods fingerprints are.
        only_in_report: hashes of the uids of pods that only the report knows.
        only_in_cluster: pods that only the API server knows.
    """

    agreement: Agreement
    fingerprint: str = ""
    expected: str = ""
    method: str = ""
    only_in_report: tuple[str, ...] = ()
    only_in_cluster: tuple[Pod, ...] = ()


def sides_of(view: NodeTopology | Unusable | None, pods: Sequence[Pod]) -> Sides:
    """Compare a report with the *pods* that the API server knows on the node and that run."""
    if not isinstance(view, NodeTopology):
        return Sides(agreement=Agreement.UNKNOWN)
    told, expected = view.fingerprint, ""
    extra: tuple[str, ...] = ()
    missing: tuple[Pod, ...] = ()
    agreement = Agreement.UNKNOWN
    if told is not None:
        expected = fingerprint_of(_fingerprinted(view, pods))
        agreement = Agreement.SAME if told == expected else Agreement.DIFFERENT
    if view.report is not None:
        known = {uid_hash(pod.metadata.uid) for pod in pods}
        extra = tuple(sorted(view.report.pods.keys() - known))
        missing = tuple(pod for pod in pods if not view.report.accounts_for(pod.metadata.uid))
        agreement = Agreement.DIFFERENT if extra or missing else Agreement.SAME
    return Sides(
        agreement=agreement,
        fingerprint=told or "",
        expected=expected,
        method=view.fingerprint_method.value,
        only_in_report=extra,
        only_in_cluster=missing,
    )


def _fingerprinted(view: NodeTopology, pods: Sequence[Pod]) -> list[tuple[str, str]]:
    """Return namespace and name of the pods that the report's fingerprint is of."""
    if view.fingerprint_method is not FingerprintMethod.ALL:
        listed = {name for zone in view.zones for name in zone.available}
        pods = [pod for pod in pods if has_exclusive_resources(pod, listed)]
    return [(pod.metadata.namespace, pod.metadata.name) for pod in pods]
