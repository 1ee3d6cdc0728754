"""In which order groups are written, so that the kernel accepts every single write.

In version 1 a group's CPUs and memory nodes must be among those of the group above, and its quota
must not exceed that of the group above. So what a group gains is written from the top down, and
what it loses from the bottom up; in between a group may have both. Version 2 accepts any order,
and the same one keeps its processes from running where neither the old nor the new state has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.node.cgroups.group_files import CPUS, MEMS, Groups, Version
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSetting:
    """What a group is set to; ``None`` where it is left alone or the file is not there.

    Attributes:
        cpus: as bits; 0 stands for whatever the group above has.
        mems: NUMA nodes as bits, likewise.
        quota: what the quota file says or is to say.
    """

    cpus: int | None = None
    mems: int | None = None
    quota: str | None = None


@dataclass(frozen=True, slots=True)
class Write:
    """A file to write."""

    group: str
    file: str
    text: str


def read_setting(groups: Groups, group: str) -> GroupSetting:
    """Return what a group is set to now."""
    return GroupSetting(
        cpus=_read_set(groups, group, CPUS),
        mems=_read_set(groups, group, MEMS),
        quota=groups.read(group, groups.version.quota),
    )


def writes_for(
    now: Mapping[str, GroupSetting], wanted: Mapping[str, GroupSetting], version: Version
) -> list[Write]:
    """Return what to write so that groups are as *wanted*, in order; what is as wanted stays.

    A group must not want more than its wanted parent does.
    """
    return [
        *_set_writes(CPUS, _pick(now, "cpus"), _pick(wanted, "cpus")),
        *_set_writes(MEMS, _pick(now, "mems"), _pick(wanted, "mems")),
        *_quota_writes(now, wanted, version),
    ]


def same_quota(now: str, wanted: str) -> bool:
    """Tell whether a quota file says what is wanted; the period follows it in version 2."""
    return now == wanted or (wanted == Version.V2.unlimited and now.split()[:1] == [wanted])


def _set_writes(file: str, now: Mapping[str, int], wanted: Mapping[str, int]) -> Iterator[Write]:
    groups = sorted(now.keys() & wanted.keys(), key=_depth)
    between = dict(now)
    for group in groups:
        held, want = now[group], wanted[group]
        if held and want & ~held:
            between[group] = held | want
            yield Write(group, file, str(CpuSet(held | want)))
    for group in reversed(groups):
        if between[group] != wanted[group]:
            yield Write(group, file, str(CpuSet(wanted[group])))


def _quota_writes(
    now: Mapping[str, GroupSetting], wanted: Mapping[str, GroupSetting], version: Version
) -> Iterator[Write]:
    groups = sorted(now.keys() & wanted.keys(), key=_depth)
    lifted: list[Write] = []
    limited: list[Write] = []
    for group in groups:
        held, want = now[group].quota, wanted[group].quota
        if held is not None and want is not None and not same_quota(held, want):
            free = want.split()[:1] == [version.unlimited]
            (lifted if free else limited).append(Write(group, version.quota, want))
    yield from lifted
    yield from reversed(limited)


def _pick(settings: Mapping[str, GroupSetting], name: str) -> dict[str, int]:
    picked = {group: getattr(setting, name) for group, setting in settings.items()}
    return {group: value for group, value in picked.items() if value is not None}


def _read_set(groups: Groups, group: str, file: str) -> int | None:
    text = groups.read(group, file)
    return None if text is None else CpuSet.parse(text).bits


def _depth(group: str) -> tuple[int, str]:
    return group.count("/"), group
