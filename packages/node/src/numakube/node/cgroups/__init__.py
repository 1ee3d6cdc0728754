"""Control groups of pods and containers, versions 1 and 2, below a given root.

Groups are named by their path below the controllers' mount, such as
``kubepods.slice/kubepods-pod1_2.slice``; `group_names` knows how kubelets and runtimes name
them, `group_scan` finds those that exist, `group_files` reads and writes them, and `write_order`
puts writes into an order that the kernel accepts. `fake_groups` makes a tree of plain files for the
lab, and `strict_fake_groups` refuses what a kernel refuses.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.node.cgroups.cpuset_controller import (
        hand_down_cpuset,
        has_processes,
        inherit,
        stands_in,
    )
    from numakube.node.cgroups.fake_groups import MOUNT, FakeCgroups
    from numakube.node.cgroups.group_files import CPUS, MEMS, CgroupFiles, Groups, Version, detect
    from numakube.node.cgroups.group_names import (
        bare_id,
        container_group,
        container_id_of,
        pod_group,
        uid_of,
    )
    from numakube.node.cgroups.group_scan import (
        GroupWatch,
        PodGroups,
        container_groups,
        find_parent,
        folders,
        scan,
    )
    from numakube.node.cgroups.write_order import (
        GroupSetting,
        Write,
        read_setting,
        same_quota,
        writes_for,
    )

__all__ = [
    "CPUS",
    "MEMS",
    "MOUNT",
    "CgroupFiles",
    "FakeCgroups",
    "GroupSetting",
    "GroupWatch",
    "Groups",
    "PodGroups",
    "Version",
    "Write",
    "bare_id",
    "container_group",
    "container_groups",
    "container_id_of",
    "detect",
    "find_parent",
    "folders",
    "hand_down_cpuset",
    "has_processes",
    "inherit",
    "pod_group",
    "read_setting",
    "same_quota",
    "scan",
    "stands_in",
    "uid_of",
    "writes_for",
]

__getattr__ = lazy_names(
    __name__,
    {
        "fake_groups": "FakeCgroups MOUNT",
        "group_files": "CPUS Version CgroupFiles Groups MEMS detect",
        "group_names": "container_group pod_group bare_id container_id_of uid_of",
        "group_scan": "scan GroupWatch PodGroups container_groups find_parent folders",
        "cpuset_controller": "hand_down_cpuset has_processes inherit stands_in",
        "write_order": "GroupSetting Write read_setting same_quota writes_for",
    },
)
