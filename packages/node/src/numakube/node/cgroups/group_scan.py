"""Finds the groups of pods and containers that exist, and notices when they change.

inotify reports when a runtime creates a group and when any program writes one of its files. Where
there is no inotify nothing is noticed, so callers also scan from time to time.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

from numakube.node.cgroups.group_names import (
    PARENTS,
    QOS_LEVELS,
    container_id_of,
    qos_group,
    uid_of,
)
from numakube.node.file_watch import Inotify

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from numakube.node.cgroups.group_files import Groups


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGroups:
    """The group of a pod, and those in it.

    Attributes:
        containers: groups by container id; that of the sandbox is among them.
        others: groups that are no container's, such as that of a runtime's monitor.
        nested: groups inside these, by the group that they are in; only with version 1, where they
            have sets of their own.
    """

    group: str
    containers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    others: tuple[str, ...] = ()
    nested: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def members(self) -> tuple[str, ...]:
        """Every group right below the pod's."""
        return (*self.containers.values(), *self.others)


def find_parent(groups: Groups, wanted: str = "") -> str | None:
    """Return the group of all pods: *wanted*, or one of the usual places; ``None`` if none is.

    A kubelet whose cgroup driver was changed leaves the old place behind, without pods.
    """
    places = (wanted.strip("/"),) if wanted else PARENTS
    found = [place for place in places if groups.identity(place)]
    with_pods = (place for place in found if any(_pods(groups, place)))
    return next(with_pods, found[0] if found else None)


def scan(groups: Groups, parent: str, *, nested: bool) -> dict[str, PodGroups]:
    """Return the groups of every pod below *parent*, by uid; *nested* ones on demand."""
    return {uid: _members(groups, group, nested=nested) for uid, group in _pods(groups, parent)}


def folders(parent: str, pods: Mapping[str, PodGroups]) -> list[str]:
    """Return the groups in which something changes when pods or containers come and go."""
    levels = [parent, *(qos_group(parent, qos) for qos in QOS_LEVELS)]
    return levels + [group for pod in pods.values() for group in (pod.group, *pod.members)]


def container_groups(pods: Mapping[str, PodGroups]) -> dict[str, str]:
    """Return the groups of all containers, by id."""
    return {identity: group for pod in pods.values() for identity, group in pod.containers.items()}


def _pods(groups: Groups, parent: str) -> Iterator[tuple[str, str]]:
    for above in (parent, *(qos_group(parent, qos) for qos in QOS_LEVELS)):
        for group in groups.children(above):
            uid = uid_of(group.rpartition("/")[2])
            if uid is not None:
                yield uid, group


def _members(groups: Groups, pod: str, *, nested: bool) -> PodGroups:
    containers: dict[str, str] = {}
    others: list[str] = []
    members = groups.children(pod)
    for group in members:
        identity = container_id_of(group.rpartition("/")[2])
        if identity is None:
            others.append(group)
        else:
            containers[identity] = group
    below = {group: tuple(_below(groups, group)) for group in members} if nested else {}
    return PodGroups(
        group=pod,
        containers=containers,
        others=tuple(others),
        nested={group: inside for group, inside in below.items() if inside},
    )


def _below(groups: Groups, group: str) -> Iterator[str]:
    for child in groups.children(group):
        yield child
        yield from _below(groups, child)


class GroupWatch:
    """Watches the folders of groups, which may go at any time."""

    def __init__(self, changed: Callable[[], None], *, inotify: bool = True) -> None:
        """Prepare a watch; call `open` inside an event loop, and `close` at the end."""
        self._changed = changed
        self._inotify = Inotify.open() if inotify else None
        self._watched: frozenset[Path] = frozenset()

    def open(self) -> None:
        """Begin to listen."""
        if self._inotify is not None:
            asyncio.get_running_loop().add_reader(self._inotify.fileno(), self._told)

    def watch(self, folders: Iterable[Path]) -> None:
        """Watch *folders*, again if one of that name was watched before and has gone since.

        What happened in a new one before it was watched counts as a change.
        """
        if self._inotify is None:
            return
        watched = frozenset(folder for folder in folders if self._inotify.watch(folder))
        if not watched <= self._watched:
            self._changed()
        self._watched = watched

    def close(self) -> None:
        """Stop listening."""
        if self._inotify is not None:
            asyncio.get_running_loop().remove_reader(self._inotify.fileno())
            self._inotify.close()
            self._inotify = None

    def _told(self) -> None:
        if self._inotify is not None and any(True for _ in self._inotify.changes()):
            self._changed()
