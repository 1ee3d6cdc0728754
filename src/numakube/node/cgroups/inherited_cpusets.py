"""Letting a group have what the group above has, although it has had a set of its own.

In version 2 an empty set means just that, but Linux (6.1 to 6.18) refuses to empty the set of a
group with processes in it or below it (ENOSPC). A set with everything that the machine has does the
same: what counts is what the group above has of it, now and later. CPUs of partition roots are left
out, since a set that overlaps with one's is refused (6.1) or ends the partition (6.12); it is
written again when the group above gets them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.node.cgroups.group_files import EVENTS
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from numakube.node.cgroups.group_files import Groups


def inherit(groups: Groups, group: str, file: str) -> tuple[str, str]:
    """Let *group* have what the one above has; return what was written, and why it was refused."""
    why = groups.write(group, file, "")
    if not why:
        return "", ""
    # The root has nothing of partitions, and inside of one the group above is not in the root's.
    everything = _effective(groups, "", file) | _effective(groups, _above(group), file)
    text = str(CpuSet(everything))
    return text, groups.write(group, file, text)


def stands_in(groups: Groups, group: str, file: str, held: int) -> bool:
    """Tell whether a group that holds this set has what the one above has, and cannot do better."""
    return has_processes(groups, group) and not _effective(groups, _above(group), file) & ~held


def has_processes(groups: Groups, group: str) -> bool:
    """Tell whether there are processes in a group or below it; version 1 does not say, so yes."""
    events = groups.read(group, EVENTS)
    return events is None or "populated 1" in events


def _effective(groups: Groups, group: str, file: str) -> int:
    return CpuSet.parse(groups.read(group, f"{file}.effective") or "").bits


def _above(group: str) -> str:
    return group.rpartition("/")[0]
