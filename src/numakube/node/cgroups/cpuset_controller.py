"""Making sure that groups have cpuset files at all.

In version 2 a group has the files of a controller only if every group above it hands that
controller down. Kubelets and runtimes see to that; a reload of systemd may undo it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.node.cgroups.group_files import CPUS, SUBTREE_CONTROL, Version

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
