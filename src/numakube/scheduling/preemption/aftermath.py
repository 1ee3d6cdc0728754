"""Victims that are gone, but whose zones still look occupied.

A victim may be deleted before anybody saw it end. Its zone is believed to be free only when a
report is without it, and a pod that is tried in between must not evict others for the room that it
has already got. It waits, but not for long: an exporter that is dead never reports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.scheduling.preemption.victims import KnowsPlaces

if TYPE_CHECKING:
    from numakube.scheduling.framework.plugins import Nomination
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.pods import PodInfo

_MOST_WAITS: Final = 5
"""Attempts; with the queue's backoff that is about half a minute."""
_MOST_KEPT: Final = 4096


@dataclass(slots=True)
class _Eviction:
    """Whom a pod has had evicted, where, and how often it has waited for the report since."""

    node: str
    victims: frozenset[str]
    waits: int = 0


class Aftermath:
    """Remembers for whom room has been made."""

    def __init__(self) -> None:
        self._evictions: dict[str, _Eviction] = {}

    def note(self, pod: PodInfo, nomination: Nomination) -> None:
        """Note that room is being made for *pod*."""
        victims = frozenset(one.uid for one in nomination.victims)
        self._evictions.pop(pod.uid, None)
        self._evictions[pod.uid] = _Eviction(nomination.node, victims)
        if len(self._evictions) > _MOST_KEPT:
            del self._evictions[next(iter(self._evictions))]

    def awaits_report(self, pod: PodInfo, snapshot: Snapshot) -> bool:
        """Tell whether the room made for *pod* is there, but not reported yet."""
        eviction = self._evictions.get(pod.uid)
        node = snapshot.node(eviction.node) if eviction is not None else None
        if eviction is None or node is None or eviction.waits >= _MOST_WAITS:
            return False
        belief = node.numa
        if not isinstance(belief, KnowsPlaces):
            return False
        gone = eviction.victims - node.pods.keys()
        if not any(belief.places_of(uid) for uid in gone):
            return False
        eviction.waits += 1
        return True
