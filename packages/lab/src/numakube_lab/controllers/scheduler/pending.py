"""The pods that wait for a node, in the order in which they get their turn.

Higher priority goes first, then who waits longest. A pod for which there is no node waits until
something changes in the cluster, and then for a moment that grows with each attempt (1 to 10 s,
kube-scheduler's figures), so that a crowd of hopeless pods does not keep the others waiting.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube.kube.objects import ObjectKey

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 10.0


@dataclass(slots=True)
class _Waiting:
    """A pod that no node could take.

    Attributes:
        version: the state of the cluster in which that was so.
        since: when that was found.
    """

    version: int
    since: float


@dataclass
class Pending:
    """The queue."""

    _ready: list[tuple[int, str, int, ObjectKey]] = field(default_factory=list)
    _members: dict[ObjectKey, tuple[int, str]] = field(default_factory=dict)
    _waiting: dict[ObjectKey, _Waiting] = field(default_factory=dict)
    _attempts: dict[ObjectKey, int] = field(default_factory=dict)
    _sequence: itertools.count[int] = field(default_factory=itertools.count)

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, key: ObjectKey) -> bool:
        return key in self._members

    def add(self, key: ObjectKey, *, priority: int, created: str) -> None:
        """Take in a pod; one that is here already keeps its place."""
        if key not in self._members:
            self._members[key] = (-priority, created)
            self._push(key)

    def retry(self, key: ObjectKey) -> None:
        """Give a pod that waits another turn, because it was changed itself."""
        if self._waiting.pop(key, None) is not None:
            self._push(key)

    def remove(self, key: ObjectKey) -> None:
        """Drop a pod."""
        self._members.pop(key, None)
        self._waiting.pop(key, None)
        self._attempts.pop(key, None)

    def take(self) -> ObjectKey | None:
        """Return whose turn it is; None if nobody is ready."""
        while self._ready:
            *_, key = heapq.heappop(self._ready)
            if key in self._members and key not in self._waiting:
                return key
        return None

    def put_off(self, key: ObjectKey, *, version: int, now: float) -> None:
        """Let a pod wait for a change of the cluster."""
        if key in self._members:
            self._waiting[key] = _Waiting(version, now)
            self._attempts[key] = self._attempts.get(key, 0) + 1

    def wake(self, *, version: int, now: float) -> float | None:
        """Ready the pods for which the cluster has changed since and whose pause is over.

        Returns:
            In how many seconds the next pause of such a pod is over; None if there is none.
        """
        soonest: float | None = None
        for key, waiting in list(self._waiting.items()):
            if waiting.version == version:
                continue
            left = waiting.since + self._pause(key) - now
            if left <= 0:
                del self._waiting[key]
                self._push(key)
            elif soonest is None or left < soonest:
                soonest = left
        return soonest

    def _pause(self, key: ObjectKey) -> float:
        return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** (self._attempts.get(key, 1) - 1))

    def _push(self, key: ObjectKey) -> None:
        priority, created = self._members[key]
        heapq.heappush(self._ready, (priority, created, next(self._sequence), key))
