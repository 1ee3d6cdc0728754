"""Room that is being made by preemption, until it is there.

kube-scheduler may see that the last victim is gone before we do. It tries the pod on the nominated
node then, we still refuse it, and it would look for other victims at once. So whoever has room
coming on its nominated node gets no further victims for a while; it is woken when the room is
there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.apps.extender.judging import Judge
    from numakube.apps.extender.protocol import MetaVictims
    from numakube.scheduling.snapshot.pods import PodInfo

PATIENCE_SECONDS: Final = 30.0
"""Longer than any report takes that shows victims gone."""


@dataclass(frozen=True, slots=True)
class _Room:
    """Whom we agreed to evict for a pod, by node."""

    victims: dict[str, frozenset[str]]
    until: float


class Rooms:
    """The preemptions of the last while, by pod."""

    def __init__(self) -> None:
        self._by_uid: dict[str, _Room] = {}

    def note(self, pod: PodInfo, answer: Mapping[str, MetaVictims], now: float) -> None:
        """Remember what kube-scheduler was told about *pod*."""
        if answer:
            victims = {
                name: frozenset(one.uid for one in told.pods or ()) for name, told in answer.items()
            }
            self._by_uid[pod.uid] = _Room(victims, now + PATIENCE_SECONDS)

    def is_made_for(self, pod: PodInfo, judge: Judge, now: float) -> bool:
        """Tell whether *pod* will fit its nominated node as soon as its victims are gone."""
        room, name = self._by_uid.get(pod.uid), pod.nominated_node_name
        if room is None or room.until < now or name not in room.victims:
            return False
        node = judge.cluster.node(name)
        if node is None:
            return False
        copy = node.clone()
        if copy.numa is not None:
            copy.numa = copy.numa.without(room.victims[name])
        return judge.admits(pod, copy).ok

    def forget(self, uid: str) -> None:
        """Forget a pod that has a node, or is gone."""
        self._by_uid.pop(uid, None)
