"""One node: its zones, its pods and where they sit, its kubelet, and what is odd about it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from markupsafe import Markup

from numakube.api.pod_resources import effective_requests, qos_class
from numakube.apps.dashboard.dashboard_pods import phase_of
from numakube.apps.dashboard.node_rows import row_of, used_percent
from numakube.apps.dashboard.reports_view import sides_of
from numakube.errors import InvalidValue
from numakube.insight.dra_devices import use_with_devices, with_dra_devices
from numakube.insight.drawing.claimed_devices import with_claimed
from numakube.insight.drawing.picture_from_facts import node_picture, reported_pods
from numakube.insight.drawing.svg import svg_of
from numakube.insight.facts import ClusterFacts
from numakube.insight.held_closeness import closeness_words
from numakube.scheduling.numa.caches.zone_use import use_in_report
from numakube.topology.topology_view import NodeTopology
from numakube.values.cpuset import CpuSet
from numakube.values.display import quantity_text
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.pod import Pod
    from numakube.apps.dashboard.node_rows import NodeRow
    from numakube.apps.dashboard.page_source import Age, Source
    from numakube.apps.dashboard.reports_view import Sides
    from numakube.insight.dra_devices import DraDevice
    from numakube.insight.drawing.picture import NodePicture
    from numakube.scheduling.numa.caches.mispredictions import ZoneUse
    from numakube.topology.exact_report import ExactReport
    from numakube.topology.numa_zones import ZoneView
    from numakube.topology.topology_view import Unusable
    from numakube.values.resources import Amounts

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
    if isinstance(view, NodeTopology):
        view = with_dra_devices(view, devices)
    told = view if isinstance(view, NodeTopology) else None
    row = row_of(node, source.report(name), devices=devices)
    pods = source.pod_book.running_on(name)
    belief = source.inside.belief(name) if source.inside else None
    return NodeView(
        node=node,
        row=row,
        view=view,
        zones=_zone_lines(told, belief.available if belief is not None else ()),
        resources=list(row.uses),
        pods=[placed_pod(pod, told.report if told else None, devices) for pod in pods],
        sides=sides_of(view, pods),
        age=source.report_age(name),
        blocked=belief.blocked if belief is not None else "",
        conditions=[(one.type, one.status, one.message) for one in node.status.conditions],
    )


def placed_pod(
    pod: Pod, report: ExactReport | None, devices: Sequence[DraDevice] = ()
) -> PlacedPod:
    """Return a pod with what a report says of it, and which *devices* of its node it has."""
    holding = report.holding(pod.metadata.uid) if report is not None else None
    use = None if report is None or holding is None else use_in_report(report, holding)
    claimed = [one for one in devices if pod.metadata.key in one.pods]
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
    return line.costs, *(tuple(sorted(one.items())) for one in amounts)


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
