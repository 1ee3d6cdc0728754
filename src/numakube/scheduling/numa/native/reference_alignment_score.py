"""How good a placement is: well aligned, then well packed, then balanced.

Three measures between 0 and 1, in order of importance; `ScoreParts` keeps them apart so that a
score can be explained.

* Alignment: 1 on a single zone; on *n* zones at most 1/n, a fifth of it for zones that are close.
* Packing: what room for large pods the placement costs. A zone is asked how many shapes of a whole,
  a half and a quarter zone it can still take. Losing fewer than the pod itself amounts to is good,
  losing more is bad: a small pod in an empty zone costs a whole-zone shape. Devices that lose the
  CPUs and memory they need beside them are stranded and count against it.
  With the strategy LeastFragmentation, packing is what the placement does to typical pods instead
  (`zone_fragments`).
* Balance: CPUs, memory and devices of the zone are used to the same degree.

Nodes without data have 0, all others at least 1. Nothing is known about where the policy ``none``
puts a pod on several zones, so that it gets no more than that 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import TYPE_CHECKING, Final

from numakube.kubelet.pod_demand import Role
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.numa.native.node_counts import LOCAL_DISTANCE
from numakube.scheduling.numa.native.zone_fragments import kept_whole
from numakube.scheduling.snapshot.zone_table import UNKNOWN_DISTANCE
from numakube.values.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.scheduling.numa.native.alignment_stages import PodChecks, Stage
    from numakube.scheduling.numa.native.native_options import NativeOptions
    from numakube.scheduling.numa.native.node_counts import Distances, NodeCounts
    from numakube.scheduling.numa.native.reference_alignment import Fit, Places
    from numakube.scheduling.numa.native.zone_fragments import TypicalPods

PLAIN: Final = (CPU, MEMORY)
"""What every pod needs; shapes are made of it."""
PLACEABLE: Final = tuple((free // 4 + free // 2 / 2 + free / 4) / 3 for free in range(5))
"""Room for shapes of one, half and a quarter of a zone, by how many quarters of it are free."""
CLOSENESS_PART: Final = 0.2
"""What distances count for beside the number of zones."""
ROUNDING: Final = 1e-9
"""Makes a quotient that should be whole, whole."""


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """A score, taken apart."""

    alignment: float = 0.0
    packing: float = 0.0
    balance: float = 0.0

    def total(self, options: NativeOptions) -> int:
        """Return the score of a node with data, from 1 to `MAX_NODE_SCORE`."""
        weights = options.alignment_weight, options.packing_weight, options.balance_weight
        parts = self.alignment, self.packing, self.balance
        share = sum(w * part for w, part in zip(weights, parts, strict=True)) / sum(weights)
        score = 1 + floor((MAX_NODE_SCORE - 1) * share + ROUNDING)
        # Where zones have more free than pods may use, shares are above 1.
        return max(1, min(score, MAX_NODE_SCORE))


def score_node(
    checks: PodChecks, node: NodeCounts, fit: Fit, typical: TypicalPods | None = None
) -> ScoreParts:
    """Rate where *fit* puts the pod; *typical* pods are those to keep room for."""
    if not fit.places:
        return ScoreParts()
    chosen = lasting(checks.stages)
    stages = [checks.stages[index] for index in chosen]
    places = [fit.places[index] for index in chosen]
    one_each = all(len(one) == 1 for one in fit.places)
    ratings = list(_ratings(node, stages, places, typical, one_each=one_each))
    return ScoreParts(
        alignment=1.0 if one_each else min(alignment(one, node.distances) for one in places),
        packing=sum(packing for packing, _ in ratings) / len(ratings),
        balance=sum(balance for _, balance in ratings) / len(ratings),
    )


def lasting(stages: Sequence[Stage]) -> list[int]:
    """Return the stages that stay: all but init containers, unless there are only those."""
    chosen = [index for index, stage in enumerate(stages) if stage.role is not Role.INIT]
    return chosen or list(range(len(stages)))


def alignment(places: Places, distances: Distances) -> float:
    """Rate a set of zones: fewest first, then closest."""
    count = len(places)
    if count <= 1:
        return float(count)
    close = 0.0
    for one in places:
        for other in places:
            if one != other and distances:
                close += closeness(distances[one][other])
    close /= count * (count - 1)
    return (1 - CLOSENESS_PART + CLOSENESS_PART * close) / count


def closeness(distance: int) -> float:
    """Rate the distance of two zones: 1 is local, 0 is unknown."""
    if distance >= UNKNOWN_DISTANCE:
        return 0.0
    return LOCAL_DISTANCE / max(LOCAL_DISTANCE, distance)


def _ratings(
    node: NodeCounts,
    stages: Sequence[Stage],
    places: Sequence[Places],
    typical: TypicalPods | None,
    *,
    one_each: bool,
) -> Iterable[tuple[float, float]]:
    """Yield packing and balance of each stage; single zones see what stages before took."""
    used: dict[tuple[Places, str], int] = {}
    for stage, where in zip(stages, places, strict=True):
        wanted = dict(stage.want.parts)
        names = _names(node, wanted) | (typical.names if typical else set())
        zone = ZoneState(
            caps={name: _sum(node.allocatable, where, name) for name in names},
            free={
                name: _sum(node.free, where, name) - used.get((where, name), 0) for name in names
            },
            devices=node.rules.devices,
        )
        if typical is None:
            packed = packing(zone, wanted)
        else:
            packed = kept_whole(zone.free, wanted, typical, node.rules.reported)
        yield packed, balance(zone, wanted)
        for name, amount in wanted.items() if one_each else ():
            used[where, name] = used.get((where, name), 0) + amount


def _names(node: NodeCounts, wanted: Mapping[str, int]) -> set[str]:
    return {*PLAIN, *node.rules.devices, *wanted}


def _sum(zones: Sequence[Mapping[str, int]], places: Places, name: str) -> int:
    return sum(zones[place].get(name, 0) for place in places)


@dataclass(frozen=True, slots=True)
class ZoneState:
    """A zone, or a set of zones taken as one, before a placement."""

    caps: Mapping[str, int]
    free: Mapping[str, int]
    devices: tuple[str, ...]

    def left(self, name: str, wanted: Mapping[str, int]) -> float:
        """Return the part of a resource that is left after *wanted*."""
        # Times the inverse, as the vectorised path has it: the same to the last bit.
        return max(0, self.free[name] - wanted.get(name, 0)) * (1 / self.caps[name])

    def fraction(self, wanted: Mapping[str, int]) -> float:
        """Return the part of its CPUs and memory that is left after *wanted*, whichever is less."""
        parts = [self.left(name, wanted) for name in PLAIN if self.caps[name]]
        return min(parts, default=1.0)

    def own(self, wanted: Mapping[str, int]) -> float:
        """Return the part of its CPUs or memory that is wanted, whichever is more."""
        parts = [wanted.get(n, 0) * (1 / self.caps[n]) for n in PLAIN if self.caps[n]]
        return max(parts, default=0.0)


def packing(zone: ZoneState, wanted: Mapping[str, int]) -> float:
    """Rate what the placement leaves for large pods."""
    before, after = zone.fraction({}), zone.fraction(wanted)
    loss = placeable(before) - placeable(after)
    kept = min(1.0, max(0.0, (1 + zone.own(wanted) - loss) / 2))
    stranded = sum(
        _stranded(zone, name, wanted.get(name, 0), before, after) for name in zone.devices
    )
    return kept * (1 - min(1.0, stranded))


def placeable(fraction: float) -> float:
    """Return how much room for shapes there is in a zone of which *fraction* is free, up to 1."""
    return PLACEABLE[min(4, floor(4 * fraction + ROUNDING))]


def _stranded(zone: ZoneState, name: str, taken: int, before: float, after: float) -> float:
    """Return the part of the devices that loses the CPUs and memory beside them."""
    cap, free = zone.caps[name], zone.free[name]
    if not cap:
        return 0.0
    usable_before = floor(min(free, before * cap) + ROUNDING)
    usable_after = floor(min(free - taken, after * cap) + ROUNDING)
    return max(0, usable_before - usable_after - taken) * (1 / cap)


def balance(zone: ZoneState, wanted: Mapping[str, int]) -> float:
    """Rate how evenly the zone is used after the placement."""
    asked = [name for name in wanted if name in zone.devices]
    left = [zone.left(name, wanted) for name in (*PLAIN, *asked) if zone.caps[name]]
    return 1 - (max(left) - min(left)) if left else 1.0
