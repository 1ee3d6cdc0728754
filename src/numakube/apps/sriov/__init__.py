"""The SR-IOV device plugin: offers PCI functions with their NUMA nodes to the kubelet.

A scan of sysfs (`host_scan`, `pci_discovery`) finds devices, which are assigned to pools
(`pool_assignment`) by their `device_selectors`. Each pool's devices are followed from scan to scan
(`device_health`) and offered to the kubelet (`pool_registration`, `pool_plugin`), which learns what
containers need (`device_needs`). Behaviour follows the SR-IOV network device
plugin v3.11; where it does not, docs/reference/sriov.md says why.
"""
