"""An explanation as text: one screen, whatever the size of the cluster; all nodes if wide.

`render` is for files and pipes; `lines_of` says what each line is, for those that fold and colour.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.annexes import Group, points
from numakube.insight.explain.kubelet_steps import folded_zones
from numakube.values.display import (
    held_quantities_text,
    lack_text,
    quantity_text,
    zones_text,
)
from numakube.values.resources import amount_of
from numakube.values.safe_text import printable
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from numakube.insight.explain.explanation_document import (
        Candidate,
        CapacityLeft,
        Change,
        ClaimAsk,
        ContainerAsk,
        DeviceStep,
        Explanation,
        Holder,
        PodPlacement,
        ReasonGroup,
        ResourceAsk,
    )

_NAMES: Final = 3
_GROUPS: Final = 8
_AMOUNTS: Final = 8
_HOLDERS: Final = 8
_FITTING: Final = 5
_MOST_SAID: Final = 400
_SPREADING: Final = tuple(
    name
    for policy in (TopologyPolicy.RESTRICTED, TopologyPolicy.BEST_EFFORT)
    for name in (policy.value, policy.api_name)
)
"""Policies that accept several zones where one is not enough, of kubelets and of annotations."""
_MOST_COLUMNS: Final = 2
_MOST_WIDTH: Final = 56
_ABOUT_ROOM: Final = ("NodeResourceTopologyMatch", "NodeResourcesFit")
"""Who refuses for lack of room, so that numbers help; besides plugins with an explainer."""
_HELPS: Final = {
    "refused": "What would help",
    "fits": "What would align it",
    "held": "What would help",
    "unknown": "What would help",
}
DATA_WORDS: Final = {
    "exact": "exact data",
    "counts": "counts by zone only",
    "stale": "stale data",
    "unusable": "unusable NodeResourceTopology",
    "none": "no NodeResourceTopology",
}


class LineRole(Enum):
    """What a line is."""

    TITLE = auto()
    HEADING = auto()
    TEXT = auto()
    ROW = auto()
    """Of a table: it must not be folded."""
    CHANGE = auto()
    NOTE = auto()
    FITS = auto()
    REFUSED = auto()


class Line(NamedTuple):
    """One line, and what it is."""

    text: str
    role: LineRole = LineRole.TEXT


EMPTY: Final = Line("")


def render(explanation: Explanation, *, wide: bool = False) -> str:
    """Return the explanation for people; *wide* has a row for every node, and every holder."""
    return joined(lines_of(explanation, wide=wide))


def joined(lines: Iterable[Line]) -> str:
    """Return *lines* as text."""
    return "".join(f"{line.text}\n" for line in lines)


def lines_of(explanation: Explanation, *, wide: bool = False) -> Iterator[Line]:
    """Yield the lines of `render`."""
    for line in _lines(explanation, wide=wide):
        yield line._replace(text=printable(line.text))


def change_lines(heading: str, changes: Iterable[Change]) -> Iterator[Line]:
    """Yield what would help, numbered."""
    yield EMPTY
    yield Line(heading, LineRole.HEADING)
    for number, change in enumerate(changes, 1):
        yield Line(f"  {number}. {change.text}", LineRole.CHANGE)


def _lines(one: Explanation, *, wide: bool) -> Iterator[Line]:
    yield Line(_title(one), LineRole.TITLE)
    yield Line(one.summary)
    if one.pod.said:
        yield Line(_said(one))
    if one.placement is not None:
        yield from map(Line, _placement(one.placement))
    if one.fitting:
        known = one.zones_known and one.verdict != "unknown"
        verb = "would take it" if known or one.verdict == "fits" else "have room"
        yield Line(f"  {verb}: {_names(one.fitting, _FITTING)}")
    if one.groups:
        yield EMPTY
        yield from map(Line, _groups(one.groups, wide=wide))
    if one.claims:
        yield EMPTY
        yield from map(Line, _claims(one.claims))
    if wide:
        yield EMPTY
        yield from table_lines(_verdicts(one))
    yield from _changes(one)
    if one.notes:
        yield EMPTY
        yield from (Line(f"Note: {note}", LineRole.NOTE) for note in one.notes)
    about_room = {*_ABOUT_ROOM, *points(Group.PLUGIN_EXPLAINERS)}
    for candidate in one.candidates:
        if wide or candidate.fits or candidate.plugin in about_room:
            yield EMPTY
            yield from _candidate(candidate, wide=wide)


def _said(one: Explanation) -> str:
    """Return what the scheduler said last, and whether that still holds."""
    said = one.pod.said
    text = said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}..."
    past = ", which no longer holds" if one.verdict == "fits" else ""
    return f"The scheduler's last answer{past}: {text}"


def _verdicts(one: Explanation) -> list[list[str]]:
    rows = [["node", "verdict", "score", "by"]]
    for each in one.verdicts:
        fits = "has room, zones not known" if one.verdict == "unknown" else "fits"
        verdict = fits if each.fits else each.reason
        rows.append([each.node, verdict, str(each.score) if each.fits else "", each.plugin])
    return rows


def _changes(one: Explanation) -> Iterator[Line]:
    if one.changes:
        model = " and the kubelet model" if one.zones_known else ", without any NUMA zone"
        tried = f"(each was tried on the scheduler{model}):"
        yield from change_lines(f"{_HELPS[one.verdict]} {tried}", one.changes)
    elif one.verdict == "refused" and one.nodes:
        yield EMPTY
        yield Line(
            "No change of the pod or of one node was found that would help.", LineRole.HEADING
        )


def _title(one: Explanation) -> str:
    pod = one.pod
    about = [pod.state, pod.qos_class, f"priority {pod.priority}", f"scheduler {pod.scheduler}"]
    return f"Pod {pod.namespace}/{pod.name} ({', '.join(about)})"


def _placement(placement: PodPlacement) -> Iterator[str]:
    for container in placement.containers:
        who = f"container {container.container}" if container.container else "whole pod"
        held = held_quantities_text(container.amounts)
        cpus = f"; CPUs {container.cpus}" if container.cpus else ""
        if held:
            yield f"  {who}: {held} in {zones_text(container.zones)}{cpus}"
    if len(placement.zones) > 1 and placement.distance:
        yield f"  largest distance between its zones: {placement.distance} (10 is local)"


def _groups(groups: Sequence[ReasonGroup], *, wide: bool) -> Iterator[str]:
    shown = groups if wide else groups[:_GROUPS]
    width = max(len(str(len(group.nodes))) for group in shown)
    for group in shown:
        names = _names(group.nodes, _NAMES)
        noun = "node: " if len(group.nodes) == 1 else "nodes:"
        yield f"{len(group.nodes):>{width}} {noun} {group.reason}   [{group.plugin}]"
        yield f"{'':>{width}}        {group.meaning + ' ' if group.meaning else ''}({names})"
        if group.then:
            yield f"{'':>{width}}        Even without that: {group.then}"
    rest = groups[len(shown) :]
    if rest:
        nodes = sum(len(group.nodes) for group in rest)
        yield f"{nodes} more nodes for {len(rest)} more reasons; -o wide lists all."


def _claims(claims: Iterable[ClaimAsk]) -> Iterator[str]:
    for claim in claims:
        yield f"Claim {claim.claim}: {_serving(claim.nodes)}"
        for request in claim.requests:
            wanted = f"{request.count or 'all'} of class {request.device_class}"
            yield f"  request {request.request} ({wanted}): {_serving(request.nodes)}"
            yield f"    devices: {'; '.join(_steps(request.steps))}"
            if not claim.nodes:
                yield from map(_amount_left, request.amounts[:_AMOUNTS])
            if not claim.nodes and (more := len(request.amounts) - _AMOUNTS) > 0:
                yield f"    and {more} more devices with less; -o json lists them"
            for holder in request.holders[:_HOLDERS]:
                pods = f" (for {', '.join(holder.pods)})" if holder.pods else ""
                yield f"    {_names(holder.devices, _NAMES)} held by {holder.claim}{pods}"
            if len(request.holders) > _HOLDERS:
                yield f"    and {len(request.holders) - _HOLDERS} more claims hold devices"
        yield from (f"  {constraint}" for constraint in claim.constraints)


def _amount_left(one: CapacityLeft) -> str:
    """Say what is left of a device that claims share."""
    where = f" ({zones_text(one.numa_nodes)})" if one.numa_nodes else ""
    enough = "" if one.enough else f", too little for {one.wanted}"
    return f"    {one.device} of {one.node}{where} has {one.left} of {one.total}{enough}"


def _serving(nodes: int) -> str:
    if not nodes:
        return "no node can serve it"
    return f"{nodes} node{'s' if nodes > 1 else ''} could serve it alone"


def _steps(steps: Iterable[DeviceStep]) -> Iterator[str]:
    """Yield how many devices each condition leaves, until none is left."""
    for step in steps:
        if not step.devices:
            yield f"none {step.what}"
            return
        yield f"{step.devices} {step.what} on {step.nodes} node{'s' if step.nodes > 1 else ''}"


def _candidate(one: Candidate, *, wide: bool) -> Iterator[Line]:
    kubelet = f"policy {one.policy}, scope {one.scope}, " if one.policy else ""
    verdict = _fits(one.data) if one.fits else f"refused: {one.reason}"
    why = f": {one.data_reason}" if one.data_reason else ""
    title = f"Node {one.node} ({kubelet}{DATA_WORDS[one.data]}{why}): {verdict}"
    yield Line(title, LineRole.FITS if one.fits else LineRole.REFUSED)
    yield from table_lines(_rows(one))
    yield from map(Line, _holders(one, wide=wide))
    yield from map(Line, _reasons(one))


def _fits(data: str) -> str:
    """Return what is said of a node that does not refuse the pod, by what is known of its zones."""
    return "has room" if data in ("none", "unusable") else "fits"


def _reasons(one: Candidate) -> Iterator[str]:
    """Yield what the verdict about a node comes from."""
    if one.kept_for:
        yield f"  room is kept for {', '.join(one.kept_for)}, for which pods were evicted there"
    if one.rules:
        yield "  How its NUMA nodes are given:"
        yield from (f"    {rule}" for rule in one.rules)
    if one.steps and one.decided_by in ("", "kubelet"):
        yield "  How its kubelet decides:"
        yield from (f"    {step}" for step in one.steps)


def _rows(one: Candidate) -> list[list[str]]:
    """Return a table with a column for each zone; of more than two, with one for all of them."""
    asks = [ask for container in one.containers for ask in container.resources]
    zones = sorted({zone.zone for ask in asks for zone in ask.zones})
    narrow = len(zones) > _MOST_COLUMNS
    titles = ["zones"] if narrow else [f"zone {zone}" for zone in zones]
    rows = [["", "resource", "wanted", "free on node", *titles]]
    for container in one.containers:
        name = f"{_role(container)}{container.container}" if container.container else "whole pod"
        for ask in container.resources:
            cells = _cells(ask, lacks=not one.fits and not _may_spread(ask, one.policy))
            first, *more = _lines_of(cells) if narrow else [[cells.get(zone, "") for zone in zones]]
            rows.append(
                [name, ask.resource, quantity_text(ask.resource, ask.wanted), _free(ask), *first]
            )
            rows += [["", "", "", "", *cell] for cell in more]
            name = ""
    return rows if len(rows) > 1 else []


def _lines_of(cells: Mapping[int, str]) -> list[list[str]]:
    """Return what the zones have, equal ones together, in lines that are not too wide."""
    lines = [""]
    for zones, text in folded_zones(cells):
        part = f"{zones}: {text}"
        if lines[-1] and len(lines[-1]) + len(part) > _MOST_WIDTH:
            lines.append("")
        lines[-1] += f"; {part}" if lines[-1] else part
    return [[line] for line in lines]


def _role(container: ContainerAsk) -> str:
    return {"init": "init container ", "sidecar": "sidecar "}.get(container.role, "container ")


def _free(ask: ResourceAsk) -> str:
    if not ask.free:
        return ""
    return f"{quantity_text(ask.resource, ask.free)}{_lack(ask, ask.missing)}"


def _may_spread(ask: ResourceAsk, policy: str) -> bool:
    """Tell whether no zone need have all of it: none ever could, but several have, as they may."""
    wanted = amount_of(ask.resource, ask.wanted)
    largest = max((amount_of(ask.resource, zone.allocatable) for zone in ask.zones), default=0)
    free = sum(amount_of(ask.resource, zone.free) for zone in ask.zones)
    return policy in _SPREADING and largest < wanted <= free


def _cells(ask: ResourceAsk, *, lacks: bool) -> dict[int, str]:
    """Return what each zone has, and what it *lacks* if that matters."""
    cells = {}
    for zone in ask.zones:
        lack = _lack(ask, zone.missing) if ask.aligned and lacks else ""
        free, all_ = (
            quantity_text(ask.resource, zone.free),
            quantity_text(ask.resource, zone.allocatable),
        )
        cells[zone.zone] = f"{free} of {all_}{lack}"
    return cells


def _lack(ask: ResourceAsk, missing: str) -> str:
    return f" (lacks {lack_text(ask.resource, missing)})" if missing != "0" else ""


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[Line]:
    """Yield *rows* as a table with columns of one width."""
    if not rows:
        return
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield Line(f"  {'  '.join(cells)}".rstrip(), LineRole.ROW)


def _holders(one: Candidate, *, wide: bool) -> Iterator[str]:
    by_zones: dict[tuple[int, ...], list[Holder]] = {}
    for holder in one.holders:
        by_zones.setdefault(holder.zones, []).append(holder)
    for zones, holders in by_zones.items():
        shown = holders if wide else holders[:_HOLDERS]
        listed = "; ".join(_holder(each) for each in shown)
        more = f"; and {len(holders) - len(shown)} more" if len(holders) > len(shown) else ""
        yield f"  held in {zones_text(zones) if zones else 'no zone'}: {listed}{more}"
    if not by_zones and one.data == "counts" and not one.fits:
        yield "  who holds what is not known: its report does not name pods"


def _holder(holder: Holder) -> str:
    coming = ", on its way" if holder.coming else ""
    priority = f", priority {holder.priority}" if holder.priority else ""
    return f"{holder.pod} ({held_quantities_text(holder.amounts)}{priority}{coming})"


def _names(names: Iterable[str], most: int) -> str:
    listed = list(names)
    more = f" and {len(listed) - most} more" if len(listed) > most else ""
    return f"{', '.join(listed[:most])}{more}"
