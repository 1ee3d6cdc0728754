"""What a node offers to programs on it: sysfs, PCI, PodResources, device plugins, cgroups.

sysfs (`sysfs_machine`, `pci`), the kubelet's sockets (`podresources_client`, `device_plugin`),
control groups (`cgroups`), the container runtime (`nri`) and changes of files (`file_watch`).

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.node.bounded_files import read_regular_file
    from numakube.node.file_watch import Inotify
    from numakube.node.podresources_client import (
        AllocatableResources,
        ClaimedDevice,
        ContainerResources,
        Devices,
        DynamicResource,
        Memory,
        PodResources,
    )
    from numakube.node.podresources_server import PodResourcesServer, PodResourcesSource
    from numakube.node.sysfs_machine import online_cpus, read_machine, write_tree

__all__ = [
    "AllocatableResources",
    "ClaimedDevice",
    "ContainerResources",
    "Devices",
    "DynamicResource",
    "Inotify",
    "Memory",
    "PodResources",
    "PodResourcesServer",
    "PodResourcesSource",
    "online_cpus",
    "read_machine",
    "read_regular_file",
    "write_tree",
]

__getattr__ = lazy_names(
    __name__,
    {
        "file_watch": "Inotify",
        "podresources_client": (
            "AllocatableResources ClaimedDevice ContainerResources Devices "
            "DynamicResource Memory PodResources"
        ),
        "podresources_server": "PodResourcesServer PodResourcesSource",
        "sysfs_machine": "write_tree read_machine online_cpus",
        "bounded_files": "read_regular_file",
    },
)
