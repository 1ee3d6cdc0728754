"""How good a placement is: well aligned, then well packed, then balanced.

Three measures between 0 and 1, in order of importance; `ScoreParts` keeps them apart so that a
score can be explained.

* Alignment: 1 on a single zone; on *n* zones at most 1/n, a fifth of it for zones that are close.
* Packing: what room for large pods the placement costs. A zone is asked how many shapes of a whole,
  a half and a quarter zone it can still take. Losing fewer than the pod itself amounts to is good,
  losing more is bad: a small pod in an empty zone costs a whole-zone shape. Devices that lose the
  CPUs and memory they need beside them are stranded and count against it.
  With the strategy LeastFragmentation, packing is what the placement does to typical pods instead
  (`fragments`).
* Balance: CPUs, memory and devices of the zone are used to the same degree.

Nodes without data have 0, all others at least 1. Nothing is known about where the policy ``none``
puts a pod on several zones, so that it gets no more than that 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.kubelet.pod_demand import ContainerRole
from numakube.scheduling.numa.native.node_counts import LOCAL_DISTANCE
from numakube.scheduling.snapshot.zone_table import UNKNOWN_DISTANCE
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, ResourceKind, add_amounts, kind_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from numakube.scheduling.numa.native.native_options import NativeOptions
    from numakube.scheduling.numa.native.node_counts import Distances, NodeCounts
    from numakube.scheduling.numa.native.pod_wants import PodChecks, Stage
    from numakube.scheduling.numa.native.reference_alignment import AlignmentFit, Places
    from numakube.values.resources import Amounts


# ------------------------------------------------------------------------------------------------
# What typical pods cannot use of a zone: fragmentation gradient descent (FGD), by zone.
#
# Free devices are of use to a pod only if the zone also has the CPUs and the memory that it asks
# for. For each typical pod the free devices of a zone count as fragments if the pod asks for none
# of them or does not fit into the zone; `fragments` is the mean over the typical pods by how often
# they come. A placement is rated by what it does to that: the fewer fragments it makes, the
# better.
#
# If no typical pod asks for a device, CPUs are counted instead of devices.
#
# The measure is that of Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads
# with Fragmentation Gradient Descent" (USENIX ATC 2023), which looks at whole nodes. A kubelet
# that aligns makes the zone the place where a device and its CPUs have to meet.

Shares: TypeAlias = npt.NDArray[np.float64]

_UNITS: Final = {CPU: MILLI_PER_CPU}
"""Fragments are counted in whole devices or whole CPUs."""


@dataclass(frozen=True)
class TypicalPods:
    """What pods usually ask for.

    Attributes:
        pods: the amounts of each, and its part of all pods; the parts add up to 1.
    """

    pods: tuple[tuple[tuple[tuple[str, int], ...], float], ...]

    @classmethod
    def weighted(cls, pods: Sequence[tuple[Mapping[str, int], int]]) -> TypicalPods:
        """Return pods that come as often as their weights say."""
        total = sum(weight for _, weight in pods)
        return cls(tuple((tuple(sorted(one.items())), weight / total) for one, weight in pods))

    @cached_property
    def names(self) -> frozenset[str]:
        """All resources that any of them asks for."""
        return frozenset(name for parts, _ in self.pods for name, _ in parts)

    @cached_property
    def counted(self) -> tuple[str, ...]:
        """The resources whose free amounts are fragments or not."""
        devices = sorted(name for name in self.names if kind_of(name) is ResourceKind.EXTENDED)
        return tuple(devices) or (CPU,)

    def fits(
        self, reported: Collection[str]
    ) -> Iterator[tuple[tuple[tuple[str, int], ...], float]]:
        """Yield what each needs of a zone, with its part of all pods.

        CPUs, memory and hugepages that nodes do not report by zone are of no account there.
        """
        for parts, share in self.pods:
            needed = tuple(
                (name, amount)
                for name, amount in parts
                if name in reported or kind_of(name) is ResourceKind.EXTENDED
            )
            yield needed, share


def kept_whole(
    free: Mapping[str, int],
    wanted: Mapping[str, int],
    typical: TypicalPods,
    reported: Collection[str],
) -> float:
    """Rate what taking *wanted* from a zone does to its fragments: 1 is best, 0.5 is nothing."""
    left = {name: max(0, amount - wanted.get(name, 0)) for name, amount in free.items()}
    gained = fragments(free, typical, reported) - fragments(left, typical, reported)
    return (1 + gained / (1 + abs(gained))) / 2


def fragments(free: Mapping[str, int], typical: TypicalPods, reported: Collection[str]) -> float:
    """Return how many devices (or CPUs) of a zone are of no use to typical pods, on average."""
    lost = 0.0
    for needed, share in typical.fits(reported):
        hosts = all(free.get(name, 0) >= amount for name, amount in needed)
        asked = {name for name, _ in needed}
        for name in typical.counted:
            if not (hosts and name in asked):
                lost += share * (free.get(name, 0) / _UNITS.get(name, 1))
    return lost


def kept_whole_all(
    free: Mapping[str, Shares],
    wants: Sequence[Mapping[str, int]],
    typical: TypicalPods,
    reported: Collection[str],
) -> Shares:
    """Rate each placement as `kept_whole` does; arrays are ``(stages, nodes)``."""
    left = {}
    for name, amounts in free.items():
        wanted = np.array([[float(want.get(name, 0))] for want in wants])
        left[name] = (amounts - wanted).clip(0.0, np.inf)
    gained = _fragments_all(free, typical, reported) - _fragments_all(left, typical, reported)
    rating: Shares = (1 + gained / (1 + np.abs(gained))) / 2
    return rating


def _fragments_all(
    free: Mapping[str, Shares], typical: TypicalPods, reported: Collection[str]
) -> Shares:
    lost = np.zeros(next(iter(free.values())).shape)
    for needed, share in typical.fits(reported):
        hosts = np.ones(lost.shape, dtype=np.bool_)
        for name, amount in needed:
            hosts &= free[name] >= amount
        asked = {name for name, _ in needed}
        for name in typical.counted:
            parts = share * (free[name] / _UNITS.get(name, 1))
            lost += np.where(hosts, 0.0, parts) if name in asked else parts
    return lost


# ------------------------------------------------------------------------------------------------
# How good a placement is: well aligned, then well packed, then balanced.

PLAIN: Final = (CPU, MEMORY)
"""What every pod needs; shapes are made of it."""
CLOSENESS_PART: Final = 0.2
"""What distances count for beside the number of zones."""
ROUNDING: Final = 1e-9
"""Makes a quotient that should be whole, whole."""
WHOLE: Final = 5040
"""What is free or wanted of a zone is a fraction of what pods may use of it, in 5040ths. Most
numbers of devices divide that; what does not is rounded once, down if free and up if wanted."""
MORE_THAN_WHOLE: Final = WHOLE + 0.5
"""Zones may have more free than pods may use, which is of no account."""
QUARTER: Final = WHOLE // 4
WHOLE_ROOM: Final = 12
"""Room for shapes in an empty zone: 4 for one of a whole zone, 4 for two halves, 4 for quarters."""


@dataclass(frozen=True, slots=True)
class ScoreParts:
    """A score, taken apart."""

    alignment: float = 0.0
    packing: float = 0.0
    balance: float = 0.0

    def total(self, options: NativeOptions) -> int:
        """Return the score of a node with data, from 1 to `MAX_NODE_SCORE`."""
        by_alignment, by_packing, by_balance = options.points
        points = self.packing * by_packing + self.balance * by_balance
        return 1 + floor(points + (self.alignment * by_alignment + ROUNDING))


def score_node(
    checks: PodChecks, node: NodeCounts, fit: AlignmentFit, typical: TypicalPods | None = None
) -> ScoreParts:
    """Rate where *fit* puts the pod; *typical* pods are those to keep room for."""
    if not fit.places:
        return ScoreParts()
    chosen = lasting(checks.stages)
    stages = [checks.stages[index] for index in chosen]
    places = [fit.places[index] for index in chosen]
    one_each = all(len(place) == 1 for place in fit.places)
    ratings = list(_ratings(node, stages, places, typical, one_each=one_each))
    each = len(ratings) * WHOLE
    return ScoreParts(
        alignment=1.0 if one_each else min(alignment(place, node.distances) for place in places),
        packing=sum([packing for packing, _ in ratings]) / each,
        balance=sum([balance for _, balance in ratings]) / each,
    )


def lasting(stages: Sequence[Stage]) -> list[int]:
    """Return the stages that stay: all but init containers, unless there are only those."""
    chosen = [index for index, stage in enumerate(stages) if stage.role is not ContainerRole.INIT]
    return chosen or list(range(len(stages)))


def alignment(places: Places, distances: Distances) -> float:
    """Rate a set of zones: fewest first, then closest."""
    count = len(places)
    if count <= 1:
        return float(count)
    close = 0.0
    for place in places:
        for other in places:
            if place != other and distances:
                close += closeness(distances[place][other])
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
) -> Iterable[tuple[int, int]]:
    """Yield packing and balance of each stage; single zones see what stages before took."""
    used: dict[Places, dict[str, int]] = {}
    for stage, where in zip(stages, places, strict=True):
        wanted = dict(stage.want.parts)
        free = _less(_together(node.free, where), used.get(where))
        caps = _together(node.allocatable, where)
        zone = ZoneState.of(caps, free, node.rules.devices, wanted)
        if typical is None:
            packed = packing(zone)
        else:
            kept = kept_whole(free, wanted, typical, node.rules.reported)
            packed = floor(kept * WHOLE + ROUNDING)
        yield packed, balance(zone)
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
    """A zone, or a set of zones taken as one, around a placement: fractions by resource.

    Attributes:
        before: what is free; all of it if there is none of the resource.
        left: what is free after the placement.
        wanted: what the placement takes.
        counts: how many devices there are, by resource.
        compared: the resources of which it has any and that count for the balance.
    """

    before: dict[str, int]
    left: dict[str, int]
    wanted: dict[str, int]
    counts: dict[str, int]
    compared: list[str]

    @classmethod
    def of(
        cls, caps: Amounts, free: Amounts, devices: Sequence[str], wanted: Mapping[str, int]
    ) -> ZoneState:
        """Return a zone with such amounts."""
        zone = cls({}, {}, {}, {}, [])
        for name in (*PLAIN, *devices):
            cap = caps.get(name)
            if cap:
                # Times the inverse, as the vectorised path has it: the same to the last bit.
                scale = 1 / cap * WHOLE
                share, asked = free.get(name, 0) * scale, wanted.get(name, 0) * scale
                share = (share if share < MORE_THAN_WHOLE else WHOLE) + ROUNDING
                before, left = max(0, int(share)), max(0, int(share - asked))
                takes = min(WHOLE, ceil(asked - ROUNDING))
                if name in PLAIN or name in wanted:
                    zone.compared.append(name)
                if name not in PLAIN:
                    zone.counts[name] = cap
            else:
                before, left, takes = WHOLE, WHOLE, 0
            zone.before[name], zone.left[name], zone.wanted[name] = before, left, takes
        return zone


def packing(zone: ZoneState) -> int:
    """Rate what the placement leaves for large pods, from 0 to `WHOLE`."""
    before = min(zone.before[CPU], zone.before[MEMORY])
    after = min(zone.left[CPU], zone.left[MEMORY])
    lost = (room(before) - room(after)) * (WHOLE // (2 * WHOLE_ROOM))
    kept = (WHOLE + max(zone.wanted[CPU], zone.wanted[MEMORY])) // 2 - lost
    stranded = 0
    for name, count in zone.counts.items():
        usable = min(zone.before[name], whole_devices(before, count))
        stranded += max(0, usable - whole_devices(after, count) - zone.wanted[name])
    return kept * max(0, WHOLE - stranded) // WHOLE


def room(free: int) -> int:
    """Return how much room for shapes there is in a zone of which the fraction *free* is free."""
    quarters = free // QUARTER
    return quarters + quarters // 2 * 2 + quarters // 4 * 4


def whole_devices(fraction: int, count: int) -> int:
    """Return the part of *fraction* that makes whole ones of *count* devices."""
    if count >= WHOLE:
        return fraction
    # Fractions are rounded down, so that a little less than a device is enough for it.
    return (fraction * count + count - 1) // WHOLE * WHOLE // count


def balance(zone: ZoneState) -> int:
    """Rate how evenly the zone is used after the placement, from 0 to `WHOLE`."""
    left = [zone.left[name] for name in zone.compared]
    return WHOLE - (max(left) - min(left)) if left else WHOLE
