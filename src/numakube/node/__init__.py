"""What a node offers to the programs on it.

sysfs (`sysfs_machine`, `pci`), the kubelet's sockets (`podresources`, `device_plugin`), control
groups (`cgroups`), the container runtime (`nri`) and changes of files (`file_watch`, `inotify`).
"""
