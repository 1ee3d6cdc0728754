"""Groups get cpuset files, and sets as the group above has them.

In version 2 a group has the files of a controller only if every group above it hands that
controller down. Kubelets and runtimes see to that; a reload of systemd may undo it.

An empty set means that the one of the group above holds, but Linux (6.1 to 6.18) refuses to empty
the set of a group with processes in it or below it (ENOSPC). A set with everything that the machine
has does the same: what counts is what the group above has of it, now and later. CPUs of partition
roots are left out, since a set that overlaps with one of theirs is refused (6.1) or ends the
partition (6.12); it is written again when the group above gets them back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.node.cgroups.group_files import CPUS, EVENTS, SUBTREE_CONTROL, Version
from numakube.values.cpuset import CpuSet

if TYPE_CHECKING:
    from numakube.node.cgroups.group_files import Groups


_CPUSET: Final = "cpuset"


def hand_down_cpuset(groups: Groups, group: str) -> str:
    """Let *group* have cpuset files; return why it cannot, or the empty text."""
    if groups.version is Version.V1 or groups.read(group, CPUS) is not None:
        return ""
    for above in _above(group):
        handed = groups.read(above, SUBTREE_CONTROL)
        if handed is None or _CPUSET in handed.split():
            continue
        refused = groups.write(above, SUBTREE_CONTROL, f"+{_CPUSET}")
        if refused:
            where = above or "the root group"
            return f"the cpuset controller cannot be enabled in {where}: {refused}"
    return ""


def _above(group: str) -> list[str]:
    """Return the groups above *group*, from the root down."""
    names = group.split("/")
    return ["/".join(names[:depth]) for depth in range(len(names))]


def inherit(groups: Groups, group: str, file: str) -> tuple[str, str]:
    """Let *group* have what the one above has; return what was written, and why it was refused."""
    why = groups.write(group, file, "")
    if not why:
        return "", ""
    # The root has nothing of partitions, and inside of one the group above is not in the root's.
    everything = _effective(groups, "", file) | _effective(groups, _parent(group), file)
    text = str(CpuSet(everything))
    return text, groups.write(group, file, text)


def stands_in(groups: Groups, group: str, file: str, held: int) -> bool:
    """Tell whether a group that holds this set has what the one above has, and cannot do better."""
    return has_processes(groups, group) and not _effective(groups, _parent(group), file) & ~held


def has_processes(groups: Groups, group: str) -> bool:
    """Tell whether there are processes in a group or below it; version 1 does not say, so yes."""
    events = groups.read(group, EVENTS)
    return events is None or "populated 1" in events


def _effective(groups: Groups, group: str, file: str) -> int:
    return CpuSet.parse(groups.read(group, f"{file}.effective") or "").bits


def _parent(group: str) -> str:
    return group.rpartition("/")[0]
