"""What has become of domains: which are whole, which are broken and by whom, what is out of reach.

For one kind of pods a domain is *whole* if its nodes take as many as they would without any pods
but those of DaemonSets and of nodes themselves; *claimed* if all that is missing is held by gangs
that ask for levels; *full* if it takes none; and otherwise *broken*. Free devices that no gang of
the size in question can have in one domain are *unreachable*.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numakube.scheduling.arrays import IntArray
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube_levels.aligned_counts import AlignedCounts, Deciding
    from numakube_levels.domain_tree import Domains

WHOLE: Final = "whole"
CLAIMED: Final = "claimed"
FULL: Final = "full"
BROKEN: Final = "broken"
STATES: Final = (WHOLE, CLAIMED, FULL, BROKEN)
_MOST: Final = 256
_NAMES: Final = 3


@dataclass(frozen=True, slots=True)
class GangShape:
    """What gangs are made of.

    Attributes:
        pod: one like their pods.
        size: how many of them belong in one domain, spare nodes included.
        name: for people: what a pod requests, and the size.
    """

    pod: PodInfo
    size: int

    @property
    def device(self) -> str:
        """The resource of which the shape has most to lose: a device, if it asks for one."""
        names = sorted(name for name, amount in self.pod.requests.items() if amount > 0)
        return next((name for name in names if "/" in name), CPU)

    @property
    def name(self) -> str:
        """What they are called: ``4 nvidia.com/gpu x 16``."""
        amount = self.pod.requests.get(self.device, 0)
        told = f"{amount}" if self.device != CPU else f"{amount / 1000:g}"
        return f"{told} {self.device} x {self.size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainState:
    """One domain, as gangs of one shape see it.

    Attributes:
        takes: pods that it takes now.
        could_take: pods that it would take without any others.
        state: one of `STATES`.
        broken_by: pods that hold what is missing, some of them.
        idle: free devices.
        unreachable: those of them that no gang can have in this domain.
    """

    name: str
    nodes: int
    takes: int
    could_take: int
    state: str
    broken_by: tuple[str, ...]
    idle: int
    unreachable: int


def states_of(
    domains: Domains,
    level: int,
    shape: GangShape,
    counted: tuple[Deciding, AlignedCounts],
    asks_for_levels: Callable[[PodInfo], bool],
) -> list[DomainState]:
    """Return the domains of a level by name, as gangs of *shape* see them."""
    deciding, counting = counted
    takes = counting.kept(deciding, shape.pod).takes
    emptied = counting.emptied(deciding, shape.pod, is_of_node)
    found = [
        _state(domains, level, number, shape, (deciding, takes, emptied), asks_for_levels)
        for number in range(domains.counts[level])
    ]
    return sorted(found, key=lambda one: one.name)


def _state(
    domains: Domains,
    level: int,
    number: int,
    shape: GangShape,
    counted: tuple[Deciding, IntArray, IntArray],
    asks_for_levels: Callable[[PodInfo], bool],
) -> DomainState:
    deciding, takes, emptied = counted
    rows = domains.rows_of(level, number)
    now, most = int(takes[rows].sum()), int(emptied[rows].sum())
    nodes = [node for row in rows.tolist() if (node := deciding.cluster.by_row[row]) is not None]
    holders = [
        pod
        for node, row in zip(nodes, rows.tolist(), strict=True)
        if takes[row] < emptied[row]
        for pod in node.pods.values()
        if not is_of_node(pod)
    ]
    others = [pod for pod in holders if not asks_for_levels(pod)]
    idle = sum(idle_devices(node, shape.device) for node in nodes)
    reachable = now // shape.size * shape.size * shape.pod.requests.get(shape.device, 0)
    return DomainState(
        name=domains.name(level, number),
        nodes=len(nodes),
        takes=now,
        could_take=most,
        state=_word(now, most, others),
        broken_by=tuple(sorted(pod.key for pod in others)[:_NAMES]) if now < most else (),
        idle=idle,
        unreachable=max(idle - reachable, 0),
    )


def _word(takes: int, most: int, others: Sequence[PodInfo]) -> str:
    if takes == most and most:
        return WHOLE
    if not others and most:
        return CLAIMED
    return BROKEN if takes else FULL


def idle_devices(node: NodeInfo, device: str) -> int:
    """Return how much of a resource is free on *node*."""
    return max(node.allocatable.get(device, 0) - node.requested.get(device, 0), 0)


def is_of_node(pod: PodInfo) -> bool:
    """Tell whether *pod* belongs to its node: of a DaemonSet, or the node itself."""
    kinds = {owner.kind for owner in pod.pod.metadata.owner_references}
    return bool(kinds & {"DaemonSet", "Node"})


@dataclass(frozen=True, slots=True)
class LevelSummary:
    """All domains of a level.

    Attributes:
        by_state: how many domains there are in each state.
        largest: the most pods that one domain takes.
        idle: free devices, and those that are unreachable.
    """

    by_state: dict[str, int]
    largest: int
    idle: int
    unreachable: int


def summary_of(states: Sequence[DomainState]) -> LevelSummary:
    """Return *states* added up."""
    counts = Counter(one.state for one in states)
    return LevelSummary(
        {state: counts[state] for state in STATES},
        max((one.takes for one in states), default=0),
        sum(one.idle for one in states),
        sum(one.unreachable for one in states),
    )


def damages(domain_takes: IntArray, ids: IntArray, losses: IntArray, size: int) -> IntArray:
    """Return by how many places in whole gangs each node's domain would lose, given its *losses*.

    Args:
        domain_takes: what each domain takes now.
        ids: the domain of each node; -1 for none.
        losses: how many pods fewer each node would take.
        size: of a gang.
    """
    inside = ids >= 0
    now = np.where(inside, domain_takes[np.maximum(ids, 0)], 0)
    damage: IntArray = (now // size - (now - losses) // size) * size
    return np.where(inside, damage, 0)
