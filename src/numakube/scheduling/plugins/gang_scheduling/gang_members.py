"""The members of every gang: who waits, who runs, and who is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.scheduling.framework.registry import Service
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import Gang, gang_key, gang_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.scheduling.snapshot.objects import ClusterObjects
    from numakube.scheduling.snapshot.pods import PodInfo

Key: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class Members:
    """The members of one gang.

    Attributes:
        waiting: pods without a node, by uid.
        placed: pods on a node that have not ended.
        done: uids of pods that have succeeded: they have had their turn.
        incomplete_since: when fewer than the gang needs were seen to run first.
    """

    waiting: dict[str, PodInfo] = field(default_factory=dict)
    placed: dict[str, PodInfo] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    incomplete_since: float | None = None

    @property
    def running(self) -> int:
        """How many have had their turn."""
        return len(self.placed) + len(self.done)

    @property
    def known(self) -> int:
        """How many there are."""
        return self.running + len(self.waiting)


class GangMembers:
    """All gangs; the program that schedules tells it of every pod."""

    def __init__(self) -> None:
        self._gangs: dict[Key, Members] = {}

    def __len__(self) -> int:
        return len(self._gangs)

    def of(self, pod: PodInfo) -> Members:
        """Return the members of the gang that *pod* belongs to."""
        key = gang_key(pod)
        return self._gangs.get(key, Members()) if key is not None else Members()

    def waits(self, pod: PodInfo) -> bool:
        """Note a pod without a node; tell whether it belongs to a group and is new."""
        members = self._taken_off(pod)
        if members is None:
            return False
        new = pod.uid not in members.waiting
        members.waiting[pod.uid] = pod
        return new

    def placed(self, pod: PodInfo) -> None:
        """Note a pod that has a node."""
        members = self._taken_off(pod)
        if members is not None:
            members.waiting.pop(pod.uid, None)
            members.placed[pod.uid] = pod

    def gone(self, pod: PodInfo) -> None:
        """Note a pod that has ended or was deleted."""
        members = self._taken_off(pod)
        key = gang_key(pod)
        if members is None or key is None:
            return
        members.waiting.pop(pod.uid, None)
        status = pod.pod.status
        if status is not None and status.phase == "Succeeded" and not pod.is_being_deleted:
            members.done.add(pod.uid)
        if not members.known:
            del self._gangs[key]

    def incomplete(
        self, objects: ClusterObjects, now: float, default_seconds: float
    ) -> Iterator[tuple[Gang, Members]]:
        """Yield the gangs of which too few have been running for longer than they may."""
        for members in list(self._gangs.values()):
            some = next(iter((*members.placed.values(),)), None)
            gang = gang_of(some, objects) if some is not None else None
            if not isinstance(gang, Gang) or members.running >= gang.min_count:
                members.incomplete_since = None
                continue
            since = members.incomplete_since = members.incomplete_since or now
            limit = gang.timeout_seconds if gang.timeout_seconds is not None else default_seconds
            if limit and now - since >= limit:
                yield gang, members

    def _taken_off(self, pod: PodInfo) -> Members | None:
        key = gang_key(pod)
        if key is None:
            return None
        members = self._gangs.setdefault(key, Members())
        members.placed.pop(pod.uid, None)
        members.done.discard(pod.uid)
        return members


GANG_MEMBERS: Final = Service[GangMembers]("gang-members")
