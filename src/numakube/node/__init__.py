"""What a node offers to programs on it: sysfs, PCI, PodResources, device plugins, cgroups.

sysfs (`sysfs_machine`, `pci`), the kubelet's sockets (`podresources_client`, `device_plugin`),
control groups (`cgroups`), the container runtime (`nri`) and changes of files (`file_watch`,
`inotify`).
"""
