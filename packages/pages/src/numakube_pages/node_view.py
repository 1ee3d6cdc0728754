"""One node: its zones, its pods and where they sit, its kubelet, and what is odd about it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from markupsafe import Markup

from numakube.api.pod_resources import effective_requests, qos_class
from numakube.errors import InvalidValue
from numakube.insight import ClusterFacts
from numakube.insight.dra_devices import use_with_devices, with_dra_devices
from numakube.insight.held_closeness import closeness_words
from numakube.insight.node_map import node_picture
from numakube.insight.node_map.picture_from_facts import reported_pods, with_claimed
from numakube.kube import ObjectKey
from numakube.scheduling.numa.caches.counts_belief import use_in_report
from numakube.topology import NodeTopology, uid_hash
from numakube.topology.fingerprint import fingerprint_of, has_exclusive_resources
from numakube.topology.numa_zones import Unusable
from numakube.topology.topology_view import FingerprintMethod
from numakube.values.cpuset import CpuSet
from numakube.values.display import quantity_text
from numakube.values.resources import CPU
from numakube_pages.drawing.svg import svg_of
from numakube_pages.node_rows import row_of, used_percent
from numakube_pages.page_source import phase_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.insight.dra_devices import DraDevice
    from numakube.insight.node_map.picture import NodePicture
    from numakube.scheduling.snapshot.zone_belief import ZoneUse
    from numakube.topology import ExactReport
    from numakube.topology.numa_zones import ZoneView
    from numakube.topology.topology_view import Unusable
    from numakube.values.resources import Amounts
    from numakube_pages.node_rows import NodeRow
    from numakube_pages.page_source import Age, Source


_MANY: Final = 16
"""Beyond so many zones, those without CPUs that are alike share a line of the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedPod:
    """A pod on a node.

    Attributes:
        requests: what it asks for, as texts.
        use: what it holds exclusively by NUMA nodes; ``None`` if the report does not know it.
        closeness: how close its devices are to each other, in a sentence; empty if not known.
    """

    pod: Pod
    qos: str
    phase: str
    requests: Mapping[str, str]
    use: ZoneUse | None
    closeness: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZoneLine:
    """One zone in the table, or several without CPUs that are alike.

    Attributes:
        zone: the zone, or the first of them.
        ids: the NUMA ids of all of them.
        costs: distances to other zones.
        believed: what the scheduler takes to be free in it.
    """

    zone: ZoneView
    ids: str
    costs: tuple[int, ...]
    believed: Amounts | None

    def used_percent(self, resource: str) -> int:
        """Return how much of a resource is taken."""
        return used_percent(
            self.zone.allocatable.get(resource, 0), self.zone.available.get(resource, 0)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeView:
    """What the page of a node tells.

    Attributes:
        view: what the report says, or why it cannot be used; ``None`` without a report.
        resources: those of any zone, in order.
        age: for how long the report has not changed; ``None`` if that is not told.
        blocked: why the scheduler does not use the node for now.
    """

    node: Node
    row: NodeRow
    view: NodeTopology | Unusable | None
    zones: Sequence[ZoneLine]
    resources: Sequence[str]
    pods: Sequence[PlacedPod]
    sides: Sides
    age: Age | None
    blocked: str
    conditions: Sequence[tuple[str, str, str]]

    @property
    def is_folded(self) -> bool:
        """Whether the zones are too many for a line and a column each."""
        return self.told is not None and len(self.told.zones) > _MANY

    @property
    def told(self) -> NodeTopology | None:
        """The report, if it can be used."""
        return self.view if isinstance(self.view, NodeTopology) else None


def node_view(source: Source, name: str) -> NodeView | None:
    """Return what is known of a node; ``None`` if there is none of that name."""
    node = source.node(name)
    if node is None:
        return None
    devices = source.device_book.on(node)
    view = source.view(name)
    read = view if isinstance(view, NodeTopology) else None
    row = row_of(node, source.report(name), view=read, devices=devices)
    if isinstance(view, NodeTopology):
        view = with_dra_devices(view, devices)
    told = view if isinstance(view, NodeTopology) else None
    pods = source.pod_book.running_on(name)
    belief = source.inside.belief(name) if source.inside else None
    kubelets = told is None or told.policy.aligns or not source.allots
    return NodeView(
        node=node,
        row=row,
        view=view,
        zones=_zone_lines(told, belief.available if belief is not None and kubelets else ()),
        resources=list(row.uses),
        pods=[placed_pod(pod, told.report if told else None, devices) for pod in pods],
        sides=sides_of(view, pods),
        age=source.report_age(name),
        blocked=belief.blocked if belief is not None else "",
        conditions=[
            (condition.type, condition.status, condition.message)
            for condition in node.status.conditions
        ],
    )


def placed_pod(
    pod: Pod, report: ExactReport | None, devices: Sequence[DraDevice] = ()
) -> PlacedPod:
    """Return a pod with what a report says of it, and which *devices* of its node it has."""
    holding = report.holding(pod.metadata.uid) if report is not None else None
    use = None if report is None or holding is None else use_in_report(report, holding)
    claimed = [device for device in devices if pod.metadata.key in device.pods]
    return PlacedPod(
        pod=pod,
        qos=qos_class(pod),
        phase=phase_of(pod),
        requests=requests_of(pod),
        use=use_with_devices(use or {}, claimed) if claimed else use,
        closeness=closeness_words(report, holding) if report and holding else "",
    )


def requests_of(pod: Pod) -> dict[str, str]:
    """Return what a pod asks for all in all; nothing if it cannot be read."""
    try:
        return {
            name: quantity_text(name, amount) for name, amount in effective_requests(pod).items()
        }
    except InvalidValue:
        return {}


def _zone_lines(told: NodeTopology | None, believed: Sequence[Amounts]) -> list[ZoneLine]:
    if told is None:
        return []
    known: Sequence[Amounts | None] = believed
    if len(known) != len(told.zones):
        known = [None] * len(told.zones)
    folded = len(told.zones) > _MANY
    columns = [zone.id for zone in told.zones if not folded or zone.allocatable.get(CPU)]
    groups: dict[object, tuple[ZoneLine, list[int]]] = {}
    for zone, free in zip(told.zones, known, strict=True):
        costs = tuple(zone.costs[other] for other in columns if other in zone.costs)
        line = ZoneLine(zone=zone, ids=str(zone.id), costs=costs, believed=free)
        key = _kind(line) if folded and not zone.allocatable.get(CPU) else zone.id
        groups.setdefault(key, (line, []))[1].append(zone.id)
    return [replace(line, ids=str(CpuSet.of(ids))) for line, ids in groups.values()]


def _kind(line: ZoneLine) -> object:
    """Return what zones have in common that share a line."""
    amounts = (line.zone.allocatable, line.zone.available, line.believed or {})
    return line.costs, *(tuple(sorted(amount.items())) for amount in amounts)


def picture_of(source: Source, name: str) -> NodePicture | None:
    """Return the picture of a node; ``None`` if nothing is known that could be drawn."""
    report = source.report(name)
    if report is None:
        return None
    facts = ClusterFacts(pods=tuple(source.pod_book.running_on(name)), topologies={name: report})
    node = source.node(name)
    picture = with_claimed(
        node_picture(facts, name),
        source.device_book.on(node) if node is not None else (),
        reported=reported_pods(facts, name),
    )
    return picture if picture.zones or picture.parts else None


def drawing_of(picture: NodePicture, *, prefix: str) -> Markup:
    """Return the drawing of a node as SVG.

    The page has the node's name as its title; pods lead to their pages below *prefix*.
    """

    def link(pod: str) -> str:
        namespace, slash, own = pod.partition("/")
        # Pods that only the report knows have no name.
        known = slash and " " not in namespace  # "claim default/x" is the name of no pod
        return f"{prefix}pods/{quote(namespace, safe='')}/{quote(own, safe='')}" if known else ""

    unnamed = replace(picture, node="")
    # What comes from the cluster is escaped by the drawing; the style sheet is a file of ours.
    return Markup(svg_of(unnamed, prefix="drawing-", style=False, link=link))  # noqa: S704


# How far the report of each node can be trusted: age, producer, fingerprint, missing pods.
#
# An exact report names the pods that it accounts for; other producers leave a fingerprint, which
# says whether the sets agree but not where they differ.


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
