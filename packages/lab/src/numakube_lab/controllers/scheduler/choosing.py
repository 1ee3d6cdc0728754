"""Choose the node for a pod, or say why there is none.

What does not depend on room (selectors, taints) is worked out once for all pods that ask for the
same, and again only when nodes change. As kube-scheduler does, the search ends when enough nodes
are found, and starts where the last one ended.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import msgspec

from numakube_lab.controllers.common.placement import (
    UNSCHEDULABLE,
    is_wanted_node,
    named_nodes,
    untolerated,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from random import Random

    from numakube.api.core import PodSpec
    from numakube.api.nodes import Node
    from numakube_lab.controllers.scheduler.room import Demand, Room, Rooms

ENOUGH: Final = 100
"""How many nodes with room are compared; kube-scheduler compares at least so many."""

NOT_WANTED: Final = "node(s) didn't match Pod's node affinity/selector"
TAINTED: Final = "node(s) had untolerated taint(s)"
CORDONED: Final = "node(s) were unschedulable"
_NOTHING: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node can take the pod."""

    message: str


@dataclass(slots=True)
class _Eligible:
    """The nodes that could take pods of one sort if they had the room, and why others cannot."""

    shape_version: int
    names: list[str]
    reasons: Counter[str]


class Chooser:
    """Chooses nodes."""

    def __init__(self, rooms: Rooms, rng: Random) -> None:
        self._rooms = rooms
        self._rng = rng
        self._eligible: dict[bytes, _Eligible] = {}
        self._next = 0

    def choose(
        self, spec: PodSpec, demand: Demand, barred: Mapping[str, str] = _NOTHING
    ) -> str | Unschedulable:
        """Return the name of the best node for a pod.

        Args:
            spec: of the pod.
            demand: what it needs.
            barred: nodes that are not for it for other reasons, and these.
        """
        if not len(self._rooms):
            return Unschedulable("no nodes available to schedule pods")
        eligible = self._eligible_for(spec)
        names = [name for name in eligible.names if name not in barred] if barred else None
        found = self._with_room(eligible.names if names is None else names, demand)
        if not found:
            return Unschedulable(self._message(eligible, demand, barred))
        scores = [room.score(demand) for room in found]
        best = max(scores)
        winners = [room for room, score in zip(found, scores, strict=True) if score == best]
        return self._rng.choice(winners).node.metadata.name

    def _with_room(self, names: Sequence[str], demand: Demand) -> list[Room]:
        found: list[Room] = []
        count = len(names)
        for offset in range(count):
            room = self._rooms.get(names[(self._next + offset) % count])
            if room is not None and room.fits(demand):
                found.append(room)
                if len(found) == ENOUGH:
                    self._next = (self._next + offset + 1) % count
                    break
        return found

    def _eligible_for(self, spec: PodSpec) -> _Eligible:
        named = named_nodes(spec)
        if named is not None:
            rooms = [room for name in named if (room := self._rooms.get(name))]
            others = len(self._rooms) - len(rooms)
            return self._look(spec, rooms, Counter({NOT_WANTED: others} if others else {}))
        sort = msgspec.json.encode((spec.node_selector, spec.affinity, spec.tolerations))
        known = self._eligible.get(sort)
        if known is None or known.shape_version != self._rooms.shape_version:
            if known is None and len(self._eligible) > ENOUGH:
                self._eligible.clear()
            known = self._look(spec, list(self._rooms.all()), Counter())
            self._eligible[sort] = known
        return known

    def _look(self, spec: PodSpec, rooms: Sequence[Room], reasons: Counter[str]) -> _Eligible:
        names: list[str] = []
        for room in rooms:
            reason = obstacle(spec, room.node)
            if reason is None:
                names.append(room.node.metadata.name)
            else:
                reasons[reason] += 1
        return _Eligible(self._rooms.shape_version, names, reasons)

    def _message(self, eligible: _Eligible, demand: Demand, barred: Mapping[str, str]) -> str:
        """Return kube-scheduler's summary of why no node will do."""
        reasons = Counter(eligible.reasons)
        for name in eligible.names:
            room = self._rooms.get(name)
            short = room.shortages(demand) if room else ()
            reasons.update(_shortage(each) for each in short)
            if not short and name in barred:
                reasons[barred[name]] += 1
        told = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
        return f"0/{len(self._rooms)} nodes are available: {told}."


def obstacle(spec: PodSpec, node: Node) -> str | None:
    """Return why the pod may not run on *node*, whatever its room; None if it may."""
    if node.spec.unschedulable and untolerated((UNSCHEDULABLE,), spec.tolerations):
        return CORDONED
    if untolerated(node.spec.taints, spec.tolerations):
        return TAINTED
    return None if is_wanted_node(spec, node) else NOT_WANTED


def _shortage(resource: str) -> str:
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}"
