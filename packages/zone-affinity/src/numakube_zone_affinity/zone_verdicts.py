"""Whether what a pod wishes about others within a node will hold, given where it will be. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from numakube.api.zone_relations import AFFINITY, ANTI_AFFINITY, SPREAD, ZoneLevel
from numakube.values.display import counted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numakube.api.zone_relations import ZoneRelation
    from numakube.kubelet.held_zones import ForeseenZones

WOULD_GET: Final = "it would be put in"
WOULD_TAKE: Final = "its kubelet would take"
IS_IN: Final = "it is in"
MOST_SKEW: Final = 1
"""How many more of its pods a zone may have than another that is spread over."""
_NOUNS: Final = {
    ZoneLevel.NUMA: "a NUMA node",
    ZoneLevel.PCI_ROOT: "a PCI root",
    ZoneLevel.ISLAND: "an island of linked devices",
}


class Outlook(Enum):
    """What becomes of a relation."""

    HOLDS = "holds"
    LUCK = "luck"
    """Which zone the pod gets is not certain, and it holds in some of them only."""
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class ZoneVerdict:
    """What becomes of the relations of a pod on a node; the worst of them.

    Attributes:
        reason: in a sentence; empty if they hold.
        lasts: whether nothing that comes or goes on the node changes it.
        is_required: whether the relation has to hold.
    """

    outlook: Outlook
    reason: str = ""
    lasts: bool = False
    is_required: bool = False

    @property
    def holds(self) -> bool:
        """Whether all relations hold for certain."""
        return self.outlook is Outlook.HOLDS


HOLDS: Final = ZoneVerdict(Outlook.HOLDS)


@dataclass(frozen=True, slots=True)
class Others:
    """The pods that a relation selects on a node.

    Attributes:
        zones: where each of them has something, by its name.
        unknown: those of which that is not known.
        counts_itself: whether the relation selects the pod whose relation it is, too.
    """

    zones: Mapping[str, frozenset[str]]
    unknown: Sequence[str] = ()
    counts_itself: bool = False


def verdict(
    relation: ZoneRelation,
    others: Others,
    foreseen: ForeseenZones,
    offered: frozenset[str],
    *,
    takes: str = WOULD_TAKE,
) -> ZoneVerdict:
    """Return what becomes of *relation* for a pod that will be where it is *foreseen*.

    Args:
        relation: of the pod to others.
        others: the pods that it selects.
        foreseen: where the pod will be, not empty.
        offered: the zones that it could be in on an idle node.
        takes: what the zones are to it, in words.
    """
    if others.unknown:
        who = others.unknown[0]
        return ZoneVerdict(Outlook.UNKNOWN, f"where {who} is, is not known")
    judge = {SPREAD: _spread, AFFINITY: _affinity, ANTI_AFFINITY: _anti_affinity}[relation.key]
    return judge(others, foreseen, offered, takes)


def luck() -> ZoneVerdict:
    """Return the verdict on a node whose kubelet takes any zone."""
    text = "which zone the kubelet takes is luck; use claims or a policy"
    return ZoneVerdict(Outlook.LUCK, text)


def nowhere(level: ZoneLevel) -> ZoneVerdict:
    """Return the verdict on a pod that will be in no zone."""
    text = f"the pod gets nothing for itself that is in {_NOUNS[level]}"
    return ZoneVerdict(Outlook.UNKNOWN, text, lasts=True)


def unreported() -> ZoneVerdict:
    """Return the verdict on a node that does not say enough."""
    text = "where its kubelet puts pods is not known, for want of exact data"
    return ZoneVerdict(Outlook.UNKNOWN, text, lasts=True)


def not_seen() -> ZoneVerdict:
    """Return the verdict on a pod that runs, of which its node does not tell where."""
    return ZoneVerdict(Outlook.UNKNOWN, "where the pod is, is not known")


def _anti_affinity(
    others: Others, foreseen: ForeseenZones, offered: frozenset[str], takes: str
) -> ZoneVerdict:
    del offered
    taken = Counter(zone for zones in others.zones.values() for zone in zones)
    met = foreseen.certain & taken.keys()
    if met:
        zone = min(met)
        where = f"{takes} {zone}, where {_of_them(taken[zone])}"
        return ZoneVerdict(Outlook.BROKEN, where)
    maybe = foreseen.possible - foreseen.certain
    if not maybe & taken.keys():
        return HOLDS
    return luck()


def _affinity(
    others: Others, foreseen: ForeseenZones, offered: frozenset[str], takes: str
) -> ZoneVerdict:
    del offered
    there = frozenset(zone for zones in others.zones.values() for zone in zones)
    if not there or foreseen.certain & there:
        return HOLDS
    if foreseen.possible & there:
        return luck()
    where = f"{takes} {_listed(foreseen.possible)}; they are in {_listed(there)}"
    return ZoneVerdict(Outlook.BROKEN, where)


def _spread(
    others: Others, foreseen: ForeseenZones, offered: frozenset[str], takes: str
) -> ZoneVerdict:
    counts = Counter(zone for zones in others.zones.values() for zone in zones)
    certain = foreseen.certain
    ways = [certain | {zone} for zone in foreseen.possible - certain] or [certain]
    skews = [_skew(counts, way, offered, adds=others.counts_itself) for way in ways]
    if max(skews) <= MOST_SKEW:
        return HOLDS
    if min(skews) <= MOST_SKEW:
        return luck()
    fullest = max(sorted(foreseen.possible), key=lambda zone: counts[zone])
    emptiest = min(sorted(offered | foreseen.possible), key=lambda zone: counts[zone])
    where = f"{takes} {fullest}, where {_of_them(counts[fullest])}"
    beside = f"{emptiest} has {counts[emptiest] or 'none'}"
    return ZoneVerdict(Outlook.BROKEN, f"{where}; {beside}")


def _skew(
    counts: Counter[str], zones: frozenset[str], offered: frozenset[str], *, adds: bool
) -> int:
    """Return how many more pods one of *zones* would have than the emptiest that is offered."""
    after = {zone: counts[zone] + (adds and zone in zones) for zone in offered | zones}
    return max(after[zone] for zone in zones) - min(after.values())


def _of_them(count: int) -> str:
    return "one of them is" if count == 1 else f"{count} of them are"


def _listed(zones: frozenset[str]) -> str:
    named = sorted(zones)
    if len(named) > 3:
        return f"one of {counted(len(named), 'zone')}"
    return " or ".join(named)
