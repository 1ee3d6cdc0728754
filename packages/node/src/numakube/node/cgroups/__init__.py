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
    from numakube.node.cgroups.fake_groups import MOUNT, FakeCgroups
    from numakube.node.cgroups.group_files import CPUS, Version
    from numakube.node.cgroups.group_names import container_group, pod_group
    from numakube.node.cgroups.group_scan import scan

__all__ = [
    "CPUS",
    "MOUNT",
    "FakeCgroups",
    "Version",
    "container_group",
    "pod_group",
    "scan",
]

__getattr__ = lazy_names(
    __name__,
    {
        "fake_groups": "FakeCgroups MOUNT",
        "group_files": "CPUS Version",
        "group_names": "container_group pod_group",
        "group_scan": "scan",
    },
)
