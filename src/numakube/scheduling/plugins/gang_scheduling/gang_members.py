"""The members of every gang: who waits, who runs, and who is done."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.scheduling.framework.registry import Service
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import Gang, gang_key, gang_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.pods import PodInfo

Key: TypeAlias = tuple[str, str, str]


@dataclass(slots=True)
class Members:
    """The members of one gang; those that are being deleted do not count any more.

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

    @property
    def nodes(self) -> list[str]:
        """The nodes of those that have one."""
        return [pod.node_name for pod in self.placed.values()]


class GangMembers:
    """All gangs; the program that schedules tells it of every pod."""

    def __init__(self) -> None:
        self._gangs: dict[Key, Members] = {}
        self._key_of: dict[str, Key] = {}

    def __len__(self) -> int:
        return len(self._gangs)

    def __iter__(self) -> Iterator[Members]:
        return iter(list(self._gangs.values()))

    def of(self, pod: PodInfo) -> Members:
        """Return the members of the gang that *pod* belongs to."""
        key = gang_key(pod)
        return Members() if key is None else self.at(key)

    def at(self, key: Key) -> Members:
        """Return the members of a gang."""
        return self._gangs.get(key, Members())

    def waits(self, pod: PodInfo) -> bool:
        """Note a pod without a node; tell whether it belongs to a group and is new there."""
        members, new = self._member(pod)
        if members is not None:
            members.waiting[pod.uid] = pod
        return new

    def placed(self, pod: PodInfo) -> bool:
        """Note a pod that has a node; tell whether it belongs to a group and is new there."""
        if pod.is_being_deleted:
            self.gone(pod, deleted=True)
            return False
        members, new = self._member(pod)
        if members is not None:
            members.placed[pod.uid] = pod
        return new

    def gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """Note a pod that has ended, or was deleted."""
        status = pod.pod.status
        succeeded = status is not None and status.phase == "Succeeded"
        if succeeded and not deleted and not pod.is_being_deleted:
            members, _ = self._member(pod)
            if members is not None:
                members.done.add(pod.uid)
        else:
            self._forget(pod.uid)

    def incomplete(
        self,
        objects: ClusterObjects,
        now: float,
        default_seconds: float,
        is_under_way: Callable[[str], bool] = lambda _: False,
    ) -> Iterator[tuple[Gang, Members]]:
        """Yield the gangs of which too few have been running for longer than they may.

        While pods that are under way to a node would make a gang whole, it is given that time.
        """
        for members in self:
            some = next(iter(members.placed.values()), None)
            gang = gang_of(some, objects) if some is not None else None
            if not isinstance(gang, Gang) or members.running >= gang.min_count:
                members.incomplete_since = None
                continue
            if members.incomplete_since is None:
                members.incomplete_since = now
            limit = gang.timeout_seconds if gang.timeout_seconds is not None else default_seconds
            missing = gang.min_count - members.running
            is_overdue = limit and now - members.incomplete_since >= limit
            if is_overdue and sum(map(is_under_way, members.waiting)) < missing:
                yield gang, members

    def _member(self, pod: PodInfo) -> tuple[Members | None, bool]:
        """Return the gang of *pod*, in which nothing is noted of it, and whether it is new."""
        key = gang_key(pod)
        known = self._key_of.get(pod.uid)
        if known != key:
            self._forget(pod.uid)
        if key is None:
            return None, False
        self._key_of[pod.uid] = key
        members = self._gangs.setdefault(key, Members())
        _take_off(members, pod.uid)
        return members, known != key

    def _forget(self, uid: str) -> None:
        key = self._key_of.pop(uid, None)
        if key is not None:
            members = self._gangs[key]
            _take_off(members, uid)
            if not members.known:
                del self._gangs[key]


def _take_off(members: Members, uid: str) -> None:
    members.waiting.pop(uid, None)
    members.placed.pop(uid, None)
    members.done.discard(uid)


GANG_MEMBERS: Final = Service[GangMembers]("gang-members")
