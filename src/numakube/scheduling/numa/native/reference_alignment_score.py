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
from typing import TYPE_CHECKING, Final, NamedTuple

from numakube.kubelet.pod_demand import Role
from numakube.scheduling.framework.plugins import MAX_NODE_SCORE
from numakube.scheduling.numa.native.node_counts import LOCAL_DISTANCE
from numakube.scheduling.numa.native.zone_fragments import kept_whole
from numakube.scheduling.snapshot.zone_table import UNKNOWN_DISTANCE
from numakube.values.resources import CPU, MEMORY, add_amounts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.scheduling.numa.native.alignment_stages import PodChecks, Stage
    from numakube.scheduling.numa.native.native_options import NativeOptions
    from numakube.scheduling.numa.native.node_counts import Distances, NodeCounts
    from numakube.scheduling.numa.native.reference_alignment import Fit, Places
    from numakube.scheduling.numa.native.zone_fragments import TypicalPods
    from numakube.values.resources import Amounts

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
        share = weights[0] * self.alignment + weights[1] * self.packing + weights[2] * self.balance
        share /= sum(weights)
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
        packing=sum([packing for packing, _ in ratings]) / len(ratings),
        balance=sum([balance for _, balance in ratings]) / len(ratings),
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
    used: dict[Places, dict[str, int]] = {}
    for stage, where in zip(stages, places, strict=True):
        wanted = dict(stage.want.parts)
        free = _less(_together(node.free, where), used.get(where))
        zone = ZoneState(_together(node.allocatable, where), free, node.rules.devices)
        if typical is None:
            packed = packing(zone, wanted)
        else:
            packed = kept_whole(zone.free, wanted, typical, node.rules.reported)
        yield packed, balance(zone, wanted)
        if one_each:
            used[where] = add_amounts(used.get(where, {}), wanted)


def _less(free: Amounts, used: Amounts | None) -> Amounts:
    if not used:
        return free
    return {**free, **{name: free.get(name, 0) - amount for name, amount in used.items()}}


def _together(zones: Sequence[Amounts], places: Places) -> Amounts:
    """Return what the zones at *places* have together."""
    if len(places) == 1:
        return zones[places[0]]
    names = {name for place in places for name in zones[place]}
    return {name: sum([zones[place].get(name, 0) for place in places]) for name in names}


class ZoneState(NamedTuple):
    """A zone, or a set of zones taken as one, before a placement."""

    caps: Amounts
    free: Amounts
    devices: tuple[str, ...]

    def left(self, name: str, wanted: Mapping[str, int]) -> float:
        """Return the part of a resource that is left after *wanted*."""
        # Times the inverse, as the vectorised path has it: the same to the last bit.
        left = self.free.get(name, 0) - wanted.get(name, 0)
        return left * (1 / self.caps[name]) if left > 0 else 0.0

    def parts_left(self, names: Iterable[str], wanted: Mapping[str, int]) -> list[float]:
        """Return the parts that are left of those resources that it has."""
        return [self.left(name, wanted) for name in names if self.caps.get(name)]

    def own(self, wanted: Mapping[str, int]) -> float:
        """Return the part of its CPUs or memory that is wanted, whichever is more."""
        parts = [wanted.get(n, 0) * (1 / self.caps[n]) for n in PLAIN if self.caps.get(n)]
        return max(parts, default=0.0)


def packing(zone: ZoneState, wanted: Mapping[str, int]) -> float:
    """Rate what the placement leaves for large pods."""
    before = min(zone.parts_left(PLAIN, {}), default=1.0)
    after = min(zone.parts_left(PLAIN, wanted), default=1.0)
    loss = placeable(before) - placeable(after)
    kept = min(1.0, max(0.0, (1 + zone.own(wanted) - loss) / 2))
    stranded = sum(
        [_stranded(zone, name, wanted.get(name, 0), before, after) for name in zone.devices]
    )
    return kept * (1 - min(1.0, stranded))


def placeable(fraction: float) -> float:
    """Return how much room for shapes there is in a zone of which *fraction* is free, up to 1."""
    return PLACEABLE[min(4, floor(4 * fraction + ROUNDING))]


def _stranded(zone: ZoneState, name: str, taken: int, before: float, after: float) -> float:
    """Return the part of the devices that loses the CPUs and memory beside them."""
    cap, free = zone.caps.get(name, 0), zone.free.get(name, 0)
    if not cap:
        return 0.0
    usable_before = floor(min(free, before * cap) + ROUNDING)
    usable_after = floor(min(free - taken, after * cap) + ROUNDING)
    return max(0, usable_before - usable_after - taken) * (1 / cap)


def balance(zone: ZoneState, wanted: Mapping[str, int]) -> float:
    """Rate how evenly the zone is used after the placement."""
    asked = [name for name in wanted if name in zone.devices]
    left = zone.parts_left((*PLAIN, *asked), wanted)
    return 1 - (max(left) - min(left)) if left else 1.0
