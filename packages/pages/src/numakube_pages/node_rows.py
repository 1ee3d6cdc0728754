"""One node among many: how full its zones are, and what is wrong with it."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from numakube.api.nrt import attribute_value
from numakube.insight.dra_devices import amounts_outside, counted_again, zones_with_devices
from numakube.insight.usage.zone_usage import NO_LABEL
from numakube.topology import NodeTopology, nrt_names
from numakube.topology.kubelet_attributes import kubelet_config
from numakube.topology.numa_zones import Unusable, numa_zones
from numakube.topology.topology_view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.insight.dra_devices import DraDevice
    from numakube.topology.numa_zones import ZoneView


NOT_READY: Final = 1
CORDONED: Final = 2
NO_REPORT: Final = 4
UNUSABLE: Final = 8
STALE: Final = 16
ODD: Final = 32
ORPHANED: Final = 64


@dataclass(frozen=True, slots=True)
class TroubleKind:
    """A kind of trouble: the word that it is filtered by, and what is said of nodes in it."""

    flag: int
    word: str
    text: str


KINDS: Final = (
    TroubleKind(NOT_READY, "not-ready", "not ready"),
    TroubleKind(NO_REPORT, "no-report", "without a report"),
    TroubleKind(UNUSABLE, "unusable", "with a report that cannot be used"),
    TroubleKind(ORPHANED, "no-exporter", "whose exporter is gone"),
    TroubleKind(STALE, "stale", "with a stale report"),
    TroubleKind(ODD, "odd", "with an odd report"),
    TroubleKind(CORDONED, "cordoned", "cordoned"),
)
"""The worst first."""

_PERCENT: Final = 100
_NUMBERS: Final = re.compile(r"(\d+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class ResourceUse:
    """One resource on one node.

    Attributes:
        allocatable: what each zone may give to pods.
        free: what each zone has left.
        total: what all zones may give, together, and devices that are in none of them.
        total_free: what is left of it.
        largest: what the zone with most has left: the largest request that one zone can hold.
    """

    allocatable: tuple[int, ...]
    free: tuple[int, ...]
    total: int
    total_free: int
    largest: int

    @classmethod
    def of(
        cls,
        allocatable: tuple[int, ...],
        free: tuple[int, ...],
        *,
        again: tuple[int, int] = (0, 0),
        outside: tuple[int, int] = (0, 0),
    ) -> ResourceUse:
        """Return the use of a resource by zone.

        *again* is how many zones count that others count too, and *outside* how many no zone
        counts; and how many of these are free.
        """
        return cls(
            allocatable=allocatable,
            free=free,
            total=sum(allocatable) - again[0] + outside[0],
            total_free=sum(free) - again[1] + outside[1],
            largest=max(free, default=0),
        )

    @property
    def used_percent(self) -> int:
        """How much of it is taken, for people: 100 only if all is, 0 only if nothing is."""
        return used_percent(self.total, self.total_free)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """What is shown of one node among many.

    Attributes:
        flags: what is wrong with it, as bits.
        trouble: the same in words, the worst first.
        zones: NUMA ids.
        labels: those of the node.
        version: the book's version when the row was made.
    """

    name: str
    flags: int
    trouble: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    zones: tuple[int, ...] = ()
    policy: str = ""
    scope: str = ""
    uses: Mapping[str, ResourceUse]
    version: int = 0


def row_of(
    node: Node,
    report: NodeResourceTopology | None,
    *,
    version: int = 0,
    view: NodeTopology | None = None,
    devices: Sequence[DraDevice] = (),
) -> NodeRow:
    """Return the row of a node.

    Args:
        node: which one.
        report: its report, if it has one.
        version: of the book that the row is for.
        view: the report as read, which saves reading it again.
        devices: of DRA drivers on the node; those in its zones are counted.
    """
    flags, trouble = _state_of(node)
    read = _zones_of(report) if view is None else _Read.of(view)
    flags |= read.flags
    trouble.extend(read.trouble)
    return NodeRow(
        name=node.metadata.name,
        flags=flags,
        trouble=tuple(trouble),
        labels=node.metadata.labels,
        zones=tuple(zone.id for zone in read.zones),
        policy=read.policy,
        scope=read.scope,
        uses=_uses(zones_with_devices(read.zones, devices), devices),
        version=version,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    """What a row needs of a report."""

    flags: int = 0
    trouble: tuple[str, ...] = ()
    zones: tuple[ZoneView, ...] = ()
    policy: str = ""
    scope: str = ""

    @classmethod
    def of(cls, view: NodeTopology) -> _Read:
        flags, trouble = _flaws(view.stale_reason, view.problems)
        orphaned = (view.orphaned,) if view.orphaned else ()
        return cls(
            flags=flags | (ORPHANED if orphaned else 0),
            trouble=(*orphaned, *trouble),
            zones=view.zones,
            policy=view.known_policy,
            scope=view.scope,
        )


def _zones_of(report: NodeResourceTopology | None) -> _Read:
    """Read the zones of a report, and not what costs most: its exact part."""
    if report is None:
        return _Read(flags=NO_REPORT, trouble=("no report",))
    problems: list[str] = []
    zones = numa_zones(report.zones, problems)
    if isinstance(zones, Unusable):
        return _Read(flags=UNUSABLE, trouble=(f"report cannot be used: {zones.reason}",))
    config = kubelet_config(report, problems)
    flags, trouble = _flaws(attribute_value(report.attributes, nrt_names.STALE), problems)
    is_unknown = attribute_value(report.attributes, nrt_names.POLICY_UNKNOWN) is not None
    policy = UNKNOWN if is_unknown else config.policy
    return _Read(flags=flags, trouble=trouble, zones=zones, policy=policy, scope=config.scope)


def _flaws(stale: str | None, problems: Sequence[str]) -> tuple[int, tuple[str, ...]]:
    flags, trouble = 0, []
    if stale is not None:
        flags |= STALE
        trouble.append(f"report is stale: {stale}")
    if problems:
        flags |= ODD
        trouble.append(f"report is odd: {problems[0]}")
    return flags, tuple(trouble)


def used_percent(whole: int, free: int) -> int:
    """Return how much is taken: rounded, but 0 only if nothing is and 100 only if all is."""
    if whole <= 0:
        return 0
    used = min(max(whole - free, 0), whole)
    if used in (0, whole):
        return _PERCENT if used else 0
    return min(max(round(used * _PERCENT / whole), 1), _PERCENT - 1)


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts ``node-2`` before ``node-10``."""
    parts = _NUMBERS.split(name)
    return [(int(part) if odd else -1, part) for odd, part in _alternating(parts)]


def _alternating(parts: list[str]) -> list[tuple[int, str]]:
    return [(index % 2, part) for index, part in enumerate(parts)]


def is_ready(node: Node) -> bool:
    """Tell whether the kubelet of a node says that it works."""
    return any(
        condition.type == "Ready" and condition.status == "True"
        for condition in node.status.conditions
    )


def _state_of(node: Node) -> tuple[int, list[str]]:
    flags, trouble = 0, []
    if not is_ready(node):
        flags |= NOT_READY
        trouble.append("node is not ready")
    if node.spec.unschedulable:
        flags |= CORDONED
        trouble.append("node is cordoned")
    return flags, trouble


def _uses(zones: tuple[ZoneView, ...], devices: Sequence[DraDevice]) -> dict[str, ResourceUse]:
    if not zones:
        return {}
    known = {zone.id for zone in zones}
    again, again_free = counted_again(devices, known)
    outside, outside_free = amounts_outside(devices, known)
    resources = dict.fromkeys(
        name for amounts in (*(zone.allocatable for zone in zones), outside) for name in amounts
    )
    return {
        name: ResourceUse.of(
            tuple(zone.allocatable.get(name, 0) for zone in zones),
            tuple(zone.available.get(name, 0) for zone in zones),
            again=(again.get(name, 0), again_free.get(name, 0)),
            outside=(outside.get(name, 0), outside_free.get(name, 0)),
        )
        for name in resources
    }


# Nodes by name, label and trouble: what a reader may filter and group them by.
#
# A filter is words, all of which must hold: ``gpu`` (part of the name), ``pool=a100``,
# ``pool!=a100``, ``is:cordoned``, ``is:trouble``. The map does the same in the browser, for labels
# with few values, of which it gets a byte a node.


MOST_VALUES: Final = 64
"""Labels with more values than these tell nodes apart rather than together."""
_NAMES: Final = frozenset({"kubernetes.io/hostname"})
_BETWEEN: Final = re.compile(r"[\s,]+")
_IS: Final = "is:"
_FLAGS: Final = {kind.word: kind.flag for kind in KINDS} | {
    "trouble": sum(kind.flag for kind in KINDS)
}


def wanted(text: str) -> Callable[[NodeRow], bool]:
    """Return a test of nodes for the words of *text*."""
    tests = [_test(word) for word in _BETWEEN.split(text) if word]
    return lambda row: all(test(row) for test in tests)


def _test(word: str) -> Callable[[NodeRow], bool]:
    if word.startswith(_IS):
        flags = _FLAGS.get(word.removeprefix(_IS), 0)
        return lambda row: bool(row.flags & flags)
    key, equals, value = word.partition("=")
    if not equals:
        return lambda row: word in row.name
    if key.endswith("!"):
        return lambda row: row.labels.get(key[:-1], "") != value
    return lambda row: row.labels.get(key, "") == value.removeprefix("=")


def grouping_labels(rows: Iterable[NodeRow]) -> dict[str, list[str]]:
    """Return the labels that put nodes together, with their values."""
    found: dict[str, set[str]] = {}
    for row in rows:
        for key, value in row.labels.items():
            values = found.setdefault(key, set())
            if value and len(values) <= MOST_VALUES:
                values.add(value)
    return {
        key: sorted(found[key])
        for key in sorted(found)
        if key not in _NAMES and 0 < len(found[key]) <= MOST_VALUES
    }


def label_table(rows: Sequence[NodeRow]) -> dict[str, Any]:
    """Return the values of each such label, and a byte a node: which of them it has, from 1."""
    table = {}
    for key, values in grouping_labels(rows).items():
        numbers = {value: number for number, value in enumerate(values, 1)}
        own = bytes(numbers.get(row.labels.get(key, ""), 0) for row in rows)
        table[key] = {"values": values, "of": b64encode(own).decode()}
    return table


def grouped(rows: Iterable[NodeRow], label: str) -> dict[str, list[NodeRow]]:
    """Return nodes by the value of a label; those without it come last."""
    groups: dict[str, list[NodeRow]] = {}
    for row in rows:
        groups.setdefault(row.labels.get(label, "") or NO_LABEL, []).append(row)
    return {
        value: groups[value]
        for value in sorted(groups, key=lambda group: (group == NO_LABEL, group))
    }
