"""Room that is kept for pods that are still to come, until a time.

`numakube.apps.debugging.fit_endpoint` finds the room. It is kept as that of nominated pods is: pods
of the same or a lower priority stay off it. A pod whose annotation `HOLD` says so takes a place
over as soon as it is seen, and may still go elsewhere. Holds are not stored: the program that asked
for one asks again from time to time, and after a restart the pods that have come by then are
counted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.api.fit_question import HOLD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.apps.scheduler.preemption_actions import Preemptions
    from numakube.kube.clock import Clock
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.snapshot.pods import PodInfo

_LOOK_SECONDS: Final = 1.0


@dataclass(slots=True)
class _Hold:
    """The room under one name.

    Attributes:
        until: when it is given back, by the monotonic clock.
        places: stand-ins for pods that are still to come, by uid.
        takers: pods that have come, with the node where room is kept for each.
    """

    until: float = 0.0
    places: dict[str, PodInfo] = field(default_factory=dict)
    takers: dict[str, tuple[PodInfo, str]] = field(default_factory=dict)


class Holds:
    """All holds of one scheduler."""

    def __init__(self, engine: Engine, preemptions: Preemptions, clock: Clock) -> None:
        self._cluster = engine.cluster
        self._nominations = engine.nominations
        self._preemptions = preemptions
        self._clock = clock
        self._holds: dict[str, _Hold] = {}
        self._pods: dict[str, set[str]] = {}

    def __len__(self) -> int:
        return sum(len(hold.places) for hold in self._holds.values())

    async def run(self) -> None:
        """Give room back when its time is over; until cancelled."""
        while True:
            await self._clock.sleep(_LOOK_SECONDS)
            now = self._clock.monotonic()
            for name in [name for name, hold in self._holds.items() if hold.until <= now]:
                self.release(name)

    def missing(self, name: str, pods: Iterable[PodInfo]) -> list[PodInfo]:
        """Return those of *pods* that have not come yet and for which no room is kept."""
        hold = self._holds.get(name, _Hold())
        nodes, node_of = self._cluster.row_of, self._nominations.node_of
        kept = (one for one in hold.places.values() if node_of(one.uid) in nodes)
        there = Counter(_value(one) for one in kept)
        there.update({value: len(pods) for value, pods in self._pods.items()})
        found = []
        for pod in pods:
            there[_value(pod)] -= 1
            if there[_value(pod)] < 0:
                found.append(pod)
        return found

    def keep(self, name: str, seconds: float, places: Iterable[tuple[PodInfo, str]]) -> None:
        """Keep *places* besides those that are kept under that name, all of them for *seconds*."""
        hold = self._holds.setdefault(name, _Hold())
        hold.until = self._clock.monotonic() + seconds
        for pod, node in places:
            hold.places[pod.uid] = pod
            self._nominations.nominate(pod, node)

    def release(self, name: str) -> None:
        """Give back what is kept under that name."""
        hold = self._holds.pop(name, _Hold())
        for place in hold.places.values():
            self._preemptions.forget(place)
        for pod, node in hold.takers.values():
            if self._nominations.node_of(pod.uid) == node:
                self._preemptions.give_up(pod)

    def seen(self, pod: PodInfo) -> None:
        """Give a pod that has come the place that is kept for it."""
        if HOLD not in pod.pod.metadata.annotations:
            return
        known = self._pods.setdefault(_value(pod), set())
        if pod.uid in known:
            return
        known.add(pod.uid)
        for hold in self._holds.values():
            alike = (one for one in hold.places.values() if _value(one) == _value(pod))
            place = next(alike, None)
            if place is not None:
                self._hand_over(hold, place, pod)
                return

    def gone(self, pod: PodInfo) -> None:
        """Forget a pod."""
        if HOLD in pod.pod.metadata.annotations:
            known = self._pods.get(_value(pod), set())
            known.discard(pod.uid)
            if not known:
                self._pods.pop(_value(pod), None)

    def _hand_over(self, hold: _Hold, place: PodInfo, pod: PodInfo) -> None:
        del hold.places[place.uid]
        if pod.node_name:
            self._preemptions.forget(place)
            return
        node = self._nominations.drop(place.uid)
        if node is not None and self._nominations.node_of(pod.uid) is None:
            hold.takers[pod.uid] = pod, node
            self._preemptions.hold(pod, node)


def _value(pod: PodInfo) -> str:
    return pod.pod.metadata.annotations.get(HOLD, "")
