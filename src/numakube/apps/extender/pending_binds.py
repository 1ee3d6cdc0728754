"""Pods between kube-scheduler's decision and its bind call.

kube-scheduler does not say which node it chose until it binds, in the background, while the next
pod is filtered already. A hold says where such a pod will most likely go, so that the next one is
not sent after the same zone only to be refused at the bind. Holds promise nothing: the bind
decides. They end with the bind, with the next attempt of the pod, with the pod, or after a few
seconds.

Only pods that the API server tells of are held for, as it tells of them: any client of the
extender's port could otherwise keep a zone free for invented pods. kube-scheduler may have
seen a pod that our watch has yet to tell; its hold counts from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube.scheduling.snapshot.pods import PodInfo

HOLD_SECONDS: Final = 3.0
"""An attempt goes on to its bind within milliseconds; permit plugins that wait are rare."""

_MOST_UNSEEN: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingPod:
    """One pod on its way.

    Attributes:
        certain: no other node was left to kube-scheduler.
        until: on the monotonic clock.
    """

    pod: PodInfo
    node: str
    certain: bool
    until: float


class PendingPods:
    """The pods on their way, each on one node."""

    def __init__(self, *, seconds: float = HOLD_SECONDS) -> None:
        self._seconds = seconds
        self._by_uid: dict[str, PendingPod] = {}
        self._unseen: dict[str, PendingPod] = {}

    def __len__(self) -> int:
        return len(self._by_uid)

    def put(
        self, pod: PodInfo, node: str, *, certain: bool, now: float, unseen: bool = False
    ) -> None:
        """Hold *node* for *pod*, and nothing else; for one that is *unseen* once it is seen."""
        hold = PendingPod(pod=pod, node=node, certain=certain, until=now + self._seconds)
        if not unseen:
            self._by_uid[pod.uid] = hold
        elif len(self._unseen) < _MOST_UNSEEN:
            self._unseen[pod.uid] = hold

    def seen(self, pod: PodInfo) -> None:
        """Let the hold of a pod count from now on: the API server tells of it."""
        hold = self._unseen.pop(pod.uid, None)
        if hold is not None:
            self._by_uid[pod.uid] = replace(hold, pod=pod)

    def drop(self, uid: str) -> PendingPod | None:
        """End the hold of a pod; return it if there was one that counted."""
        self._unseen.pop(uid, None)
        return self._by_uid.pop(uid, None)

    def others(self, uid: str, now: float) -> dict[str, list[PendingPod]]:
        """Return the holds of other pods that last beyond *now*, by node."""
        found: dict[str, list[PendingPod]] = {}
        for hold in self._by_uid.values():
            if hold.pod.uid != uid and hold.until > now:
                found.setdefault(hold.node, []).append(hold)
        return found

    def expired(self, now: float) -> list[PendingPod]:
        """Remove and return the expired holds."""
        self._unseen = {uid: hold for uid, hold in self._unseen.items() if hold.until > now}
        gone = [hold for hold in self._by_uid.values() if hold.until <= now]
        for hold in gone:
            del self._by_uid[hold.pod.uid]
        return gone
