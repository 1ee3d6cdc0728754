"""Letting a group have what the group above has, although it has had a set of its own.

In version 2 an empty set means just that, but Linux (6.1 to 6.18) refuses to empty the set of a
group with processes in it or below it (ENOSPC). A set with everything that the machine has does the
same: what counts is what the group above has of it, now and later. Where a group beside this one is
a partition root with CPUs for itself, that is refused too (EINVAL), and what the group above has
now is all that can be written; it is written again when that changes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.node.cgroups.files import EVENTS
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from numakube.node.cgroups.files import Groups


def inherit(groups: Groups, group: str, file: str) -> tuple[str, str]:
    """Let *group* have what the one above has; return what was written, and why it was refused."""
    why = groups.write(group, file, "")
    if not why:
        return "", ""
    for source in ("", _above(group)):
        text = groups.read(source, f"{file}.effective")
        if text:
            why = groups.write(group, file, text)
            if not why:
                return text, ""
    return "", why


def stands_in(groups: Groups, group: str, file: str, held: int) -> bool:
    """Tell whether a group that holds this set has what the one above has, and cannot do better."""
    above = CpuSet.parse(groups.read(_above(group), f"{file}.effective") or "").bits
    return has_processes(groups, group) and not above & ~held


def has_processes(groups: Groups, group: str) -> bool:
    """Tell whether there are processes in a group or below it; version 1 does not say, so yes."""
    events = groups.read(group, EVENTS)
    return events is None or "populated 1" in events


def _above(group: str) -> str:
    return group.rpartition("/")[0]
