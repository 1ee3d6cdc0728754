"""The members of every gang: who waits, who runs, and who is done."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.scheduling.framework.registry import Service
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import Gang, gang_key, gang_of

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator

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
        whole_at: the minimum at which it was seen whole last.
        is_inherited: whether members ran already when this scheduler first looked.
    """

    waiting: dict[str, PodInfo] = field(default_factory=dict)
    placed: dict[str, PodInfo] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)
    incomplete_since: float | None = None
    whole_at: int | None = None
    is_inherited: bool = False

    @property
    def running(self) -> int:
        """How many have had their turn."""
        return len(self.placed) + len(self.done)

    @property
    def known(self) -> int:
        """How many there are."""
        return self.running + len(self.waiting)

    def has_lost_some_of(self, gang: Gang) -> bool:
        """Tell whether fewer run than *gang* needs because members are gone, or never came.

        A minimum that is raised asks for more members, and takes none away from those that run.
        Of a group that was changed before this scheduler came, it is not known whether that was so:
        members that ran by then are left alone.
        """
        if self.running >= gang.min_count:
            self.whole_at = gang.min_count
        elif self.whole_at is None and self.is_inherited and gang.changed:
            self.whole_at = self.running
        needed = gang.min_count if self.whole_at is None else min(gang.min_count, self.whole_at)
        return self.running < needed

    @property
    def nodes(self) -> list[str]:
        """The nodes of those that have one."""
        return [pod.node_name for pod in self.placed.values()]


def grown_to(key: Key, count: int) -> tuple[str, str, str, int]:
    """Return what opens the gates of pods that wait until their gang has *count* members."""
    return (*key, count)


class GangMembers:
    """All gangs; the program that schedules tells it of every pod.

    Attributes:
        on_growth: is told, by `grown_to`, each time that a gang has one member more.
    """

    def __init__(self) -> None:
        self.on_growth: Callable[[Hashable], None] = lambda _: None
        self._gangs: dict[Key, Members] = {}
        self._key_of: dict[str, Key] = {}
        self._has_looked = False

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

    def waits(self, pod: PodInfo) -> None:
        """Note a pod without a node."""
        with self._member(pod) as members:
            members.waiting[pod.uid] = pod

    def placed(self, pod: PodInfo) -> None:
        """Note a pod that has a node."""
        if pod.is_being_deleted:
            self.gone(pod, deleted=True)
            return
        with self._member(pod) as members:
            members.placed[pod.uid] = pod

    def gone(self, pod: PodInfo, *, deleted: bool) -> None:
        """Note a pod that has ended, or was deleted."""
        status = pod.pod.status
        succeeded = status is not None and status.phase == "Succeeded"
        if succeeded and not deleted and not pod.is_being_deleted:
            with self._member(pod) as members:
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
        first, self._has_looked = not self._has_looked, True
        for members in self:
            members.is_inherited |= first and members.running > 0
            some = next(iter(members.placed.values()), None)
            gang = gang_of(some, objects) if some is not None else None
            if not isinstance(gang, Gang) or not members.has_lost_some_of(gang):
                members.incomplete_since = None
                continue
            if members.incomplete_since is None:
                members.incomplete_since = now
            limit = gang.timeout_seconds if gang.timeout_seconds is not None else default_seconds
            missing = gang.min_count - members.running
            is_overdue = limit and now - members.incomplete_since >= limit
            if is_overdue and sum(map(is_under_way, members.waiting)) < missing:
                yield gang, members

    @contextmanager
    def _member(self, pod: PodInfo) -> Iterator[Members]:
        """Yield the gang of *pod*, to note where it is; if it is new there, the gang has grown."""
        key = gang_key(pod)
        known = self._key_of.get(pod.uid)
        if known != key:
            self._forget(pod.uid)
        if key is None:
            yield Members()  # of nobody
            return
        self._key_of[pod.uid] = key
        members = self._gangs.setdefault(key, Members())
        _take_off(members, pod.uid)
        yield members
        if known != key:
            self.on_growth(grown_to(key, members.known))

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
