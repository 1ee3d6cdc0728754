"""The decision for one node, from counts: the definition that the vectorised path is held to.

A refusal must be a proof: the kubelet rejects the pod whatever the exact state behind the counts
is. So each step only uses what is certain.

1. All zones together must have what the pod holds at the same time.
2. Each container by itself must fit: for ``single-numa-node`` into one zone, for ``restricted``
   into a set of zones as small as each of its resources allows on an idle machine; since all
   resources have to agree on one set, they must need the same number of zones.
3. Containers that fit into one zone are placed in order, each into the lowest zone that has room
   left, as the kubelet does. This stops being certain, and stops, where a container needs several
   zones, where devices are near several zones, where CPUs come from a whole socket, and where CPUs
   of init containers are partly used again.

In pod scope the whole pod is one container. ``best-effort`` and ``none`` only have rule 1, without
devices, whose total is the node's business; for ``best-effort`` the rest predicts the placement. If
not even all zones have the devices that a container wants, its kubelet takes them from wherever
they are, and nothing is predicted.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import combinations
from math import comb
from typing import TYPE_CHECKING, Final

from numakube.kubelet.pod_demand import ContainerRole
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, Kind
from numakube.scheduling.numa.native.pod_wants import checks_of
from numakube.values.resources import CPU, MILLI_PER_CPU, is_memory
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.scheduling.numa.native.node_counts import NodeCounts
    from numakube.scheduling.numa.native.pod_wants import (
        Parts,
        PodChecks,
        PodWants,
        Stage,
        ZoneWant,
    )
    from numakube.values.resources import Amounts

Places = tuple[int, ...]
"""Positions of zones, ascending."""

NOWHERE: Final[Places] = ()
"""Where a stage goes that not even all zones have room for."""
MOST_SETS: Final = 1000
"""Sets of zones of one size above which nothing is refused; eight zones have at most 70."""


_ALWAYS_HOPELESS: Final = frozenset({Kind.UNREPORTED, Kind.SIZES, Kind.WHOLE_CORES})
"""What does not depend on what runs on the node."""
_UNTOLD: Final = (
    "the report does not tell which of the kubelet's managers are on; those whose resources zones "
    "have to give out are taken to be"
)


@dataclass(frozen=True, slots=True)
class AlignmentFit:
    """The pod may fit.

    Attributes:
        places: the zones that each alignment is expected to use; empty if nothing is aligned or
            nothing can be said (policy ``none``, or zones that lack devices).
    """

    places: tuple[Places, ...] = ()


def judge(wants: PodWants, node: NodeCounts) -> AlignmentFit | AlignmentRefusal:
    """Decide whether *node* can take a pod with *wants*, and where it would go."""
    return judge_by(checks_of(wants, node.rules), node)


def judge_by(
    checks: PodChecks, node: NodeCounts, *, may_be_hopeless: bool = True
) -> AlignmentFit | AlignmentRefusal:
    """Decide the same, given what to check on nodes with its rules.

    Whether a node would refuse even when nothing ran on it need not be asked if it is known that
    it would not.
    """
    verdict = _judge(checks, node, may_be_hopeless=may_be_hopeless)
    if isinstance(verdict, AlignmentRefusal) and verdict.container:
        return replace(verdict, one_of_several=checks.has_several)
    return verdict


def _judge(
    checks: PodChecks, node: NodeCounts, *, may_be_hopeless: bool
) -> AlignmentFit | AlignmentRefusal:
    if checks.unreported:
        return _refusal(node, Kind.UNREPORTED, resource=checks.unreported)
    if checks.uneven is not None:
        return _uneven(node, checks.uneven)
    verdict = _judge_amounts(checks, node)
    if isinstance(verdict, AlignmentRefusal) and may_be_hopeless:
        return _hopeless(checks, node) or verdict
    return verdict


def _judge_amounts(checks: PodChecks, node: NodeCounts) -> AlignmentFit | AlignmentRefusal:
    alone = _alone(checks, node)
    if isinstance(alone, AlignmentRefusal):
        return alone
    if node.rules.policy is TopologyPolicy.NONE:
        return AlignmentFit(((0,),) * len(checks.stages)) if len(node.ids) == 1 else AlignmentFit()
    if NOWHERE in alone:
        return AlignmentFit()
    return _in_order(node, checks, alone)


def _alone(checks: PodChecks, node: NodeCounts) -> list[Places] | AlignmentRefusal:
    """Return where each stage would go by itself, or what is too little for one of them."""
    if refused := _node_shortage(node, checks.together):
        return refused
    alone = []
    for stage in checks.stages if node.rules.policy is not TopologyPolicy.NONE else ():
        places = place_alone(node, stage)
        if isinstance(places, AlignmentRefusal):
            return places
        alone.append(places)
    return alone


def _hopeless(checks: PodChecks, node: NodeCounts) -> AlignmentRefusal | None:
    """Return why the node refuses even when nothing runs on it; ``None`` if it may not.

    Only what holds for each container by itself: in order, a fuller node may take what an idle one
    does not, because containers then go elsewhere.
    """
    refused = _alone(checks, replace(node, free=node.allocatable))
    return replace(refused, hopeless=True) if isinstance(refused, AlignmentRefusal) else None


def _uneven(node: NodeCounts, stage: Stage) -> AlignmentRefusal:
    name, wanted = stage.want.cpu[0]
    per_core = MILLI_PER_CPU * node.rules.cpus_per_core
    return _refusal(
        node,
        Kind.WHOLE_CORES,
        stage=stage,
        resource=name,
        wanted=wanted,
        free=wanted // per_core * per_core,
    )


def _node_shortage(node: NodeCounts, parts: Parts) -> AlignmentRefusal | None:
    """Refuse what all zones together do not have."""
    for name, wanted in parts:
        free = sum([zone.get(name, 0) for zone in node.free])
        if free < wanted:
            return _refusal(
                node, Kind.NODE, resource=name, zones=node.ids, wanted=wanted, free=free
            )
    return None


def place_alone(node: NodeCounts, stage: Stage) -> Places | AlignmentRefusal:
    """Return where the stage would go on the node as it is."""
    if node.rules.policy is TopologyPolicy.SINGLE_NUMA_NODE:
        size: int | None = 1
    elif node.rules.policy is TopologyPolicy.RESTRICTED:
        sizes = _sizes(node, stage.want)
        if len(set(sizes.values())) > 1:
            return _disagreement(node, stage, sizes)
        size = next(iter(sizes.values()), None)
    else:
        size = None
    everywhere = tuple(range(len(node.ids)))
    if not node.rules.refuses_unaligned and not _holds(node, everywhere, stage.want):
        return NOWHERE
    for count in range(1, len(node.ids) + 1) if size is None else (size,):
        if comb(len(node.ids), count) > MOST_SETS:
            return everywhere
        best = _fittest(node, stage.want, count)
        if best is not None:
            return best
    return _too_tight(node, stage, size or len(node.ids))


def _fittest(node: NodeCounts, want: ZoneWant, count: int) -> Places | None:
    """Return the set of *count* zones that the kubelet takes, of those that have room."""
    sets = combinations(range(len(node.ids)), count)
    fitting = (places for places in sets if _holds(node, places, want))
    if count == 1:
        return next(fitting, None)  # zones are in the order of their ids
    return min(fitting, key=lambda places: fitness(node, places), default=None)


def fitness(node: NodeCounts, places: Places) -> tuple[int, int]:
    """Return the key whose minimum the kubelet takes among sets of one size."""
    mask = sum(1 << node.ids[place] for place in places)
    if not node.rules.closest or len(places) == 1:
        return 0, mask
    return sum(node.distances[place][other] for place in places for other in places), mask


def _sizes(node: NodeCounts, want: ZoneWant) -> dict[str, int]:
    """Return how many zones each resource needs at least on an idle machine, where it is known.

    The kinds of memory are placed together and count as one, called by the first of them.
    """
    sizes = {}
    if want.cpu and not node.rules.by_socket:
        sizes[CPU] = _smallest(node, want.cpu)
    if want.memory:
        sizes[want.memory[0][0]] = _smallest(node, want.memory)
    for name, count in want.devices:
        if name not in node.rules.shared_devices:
            sizes[name] = _smallest(node, ((name, count),))
    return {name: size for name, size in sizes.items() if size}


def _smallest(node: NodeCounts, parts: Parts) -> int:
    """Return the smallest number of zones whose totals hold *parts*; 0 if it is unknown."""
    zones = range(len(node.ids))
    for count in range(1, len(node.ids) + 1):
        if comb(len(node.ids), count) > MOST_SETS:
            return 0
        for places in combinations(zones, count):
            if all(_sum(node.totals, places, name) >= amount for name, amount in parts):
                return count
    return 0


def _holds(node: NodeCounts, places: Places, want: ZoneWant) -> bool:
    for name, amount in want.parts:  # noqa: SIM110 - half of the time that all() takes
        if _sum(node.free, places, name) < amount:
            return False
    return True


def _sum(zones: Sequence[Amounts], places: Places, name: str) -> int:
    if len(places) == 1:
        return zones[places[0]].get(name, 0)
    return sum([zones[place].get(name, 0) for place in places])


def _in_order(
    node: NodeCounts, checks: PodChecks, alone: list[Places]
) -> AlignmentFit | AlignmentRefusal:
    """Place the stages one after the other as far as that is certain."""
    certain = checks.stages[: checks.certain]
    if len(certain) <= 1 or any(len(places) > 1 for places in alone):
        return AlignmentFit(tuple(alone))
    room = ZoneLeft(node)
    room.book(alone[0][0], certain[0])
    found = alone[:1]
    for stage in certain[1:]:
        places = room.take(stage)
        if isinstance(places, AlignmentRefusal):
            if node.rules.refuses_unaligned:
                return places
            break
        found.append(places)
    return AlignmentFit((*found, *alone[len(found) :]))


@dataclass(slots=True)
class ZoneLeft:
    """What is left in each zone while containers of a pod are placed, one zone each.

    Attributes:
        spare: amounts of init containers that can be used again, by zone and resource.
    """

    node: NodeCounts
    used: dict[tuple[int, str], int] = field(default_factory=dict)
    spare: dict[tuple[int, str], int] = field(default_factory=dict)

    def take(self, stage: Stage) -> Places | AlignmentRefusal:
        """Put *stage* into the lowest zone that has room for it."""
        for place in range(len(self.node.ids)):
            if all(self.free(place, name) >= wanted for name, wanted in stage.want.parts):
                self.book(place, stage)
                return (place,)
        left = [
            {name: self.free(place, name) for name, _ in stage.want.parts}
            for place in range(len(self.node.ids))
        ]
        return _too_tight(self.node, stage, 1, left)

    def free(self, place: int, name: str) -> int:
        """Return what is left of a resource, with what can be used again.

        CPUs and devices that can be used again tie the pod to their zone: others have nothing.
        """
        key = place, name
        if (
            self.spare
            and not is_memory(name)
            and any(
                amount and other != key for other, amount in self.spare.items() if other[1] == name
            )
        ):
            return 0
        free = self.node.free[place].get(name, 0)
        return free - self.used.get(key, 0) + self.spare.get(key, 0)

    def book(self, place: int, stage: Stage) -> None:
        """Take what *stage* wants out of one zone."""
        for name, wanted in stage.want.parts:
            key = place, name
            spare = self.spare.get(key, 0)
            self.used[key] = self.used.get(key, 0) + max(0, wanted - spare)
            if stage.role is ContainerRole.INIT:
                self.spare[key] = max(spare, wanted)
            elif spare:
                self.spare[key] = max(0, spare - wanted)


def _too_tight(
    node: NodeCounts, stage: Stage, size: int, left: Sequence[Amounts] | None = None
) -> AlignmentRefusal:
    """Say which zones came closest and what they lack most."""
    zones = node.free if left is None else left
    sets = combinations(range(len(node.ids)), size)
    best = min(sets, key=lambda places: sum(_lacks(zones, places, stage.want.parts)))
    lacks = _lacks(zones, best, stage.want.parts)
    name, wanted = stage.want.parts[lacks.index(max(lacks))]
    return _refusal(
        node,
        Kind.ALIGN,
        stage=stage,
        resource=name,
        zones=tuple(node.ids[place] for place in best),
        wanted=wanted,
        free=_sum(zones, best, name),
    )


def _lacks(zones: Sequence[Amounts], places: Places, parts: Parts) -> list[float]:
    """Return which part of each wanted amount is missing."""
    return [max(0, wanted - _sum(zones, places, name)) * (1 / wanted) for name, wanted in parts]


def _disagreement(node: NodeCounts, stage: Stage, sizes: dict[str, int]) -> AlignmentRefusal:
    return _refusal(
        node,
        Kind.SIZES,
        stage=stage,
        resource=", ".join(sizes),
        reason=", ".join(_needs(sizes)),
    )


def _needs(sizes: dict[str, int]) -> Iterable[str]:
    """Say how many zones each resource needs: ``cpu needs 1 zone, memory 2``."""
    for index, (name, size) in enumerate(sizes.items()):
        yield f"{name} {size}" if index else f"{name} needs {size} zone{'s' * (size > 1)}"


def _refusal(
    node: NodeCounts,
    kind: Kind,
    *,
    stage: Stage | None = None,
    resource: str = "",
    zones: tuple[int, ...] = (),
    wanted: int = 0,
    free: int = 0,
    reason: str = "",
) -> AlignmentRefusal:
    return AlignmentRefusal(
        kind=kind,
        container=stage.container if stage else "",
        role=stage.role if stage else None,
        resource=resource,
        zones=zones,
        wanted=wanted,
        free=free,
        hopeless=kind in _ALWAYS_HOPELESS,
        detail="" if node.rules.told else _UNTOLD,
        policy=node.rules.policy.value,
        scope=node.rules.scope.value,
        reason=reason,
    )
