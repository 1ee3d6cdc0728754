"""The SR-IOV device plugin: offers PCI functions with their NUMA nodes to the kubelet.

A scan (`host_scan`) finds devices in sysfs (`pci_discovery`), shares them out to pools by their
selectors (`device_pools`), and follows them from scan to scan. Each pool is offered to the kubelet
(`pool_registration`, `pool_plugin`), which learns what containers need (`device_files`). Behaviour
follows the SR-IOV network device plugin v3.11; where it does not, docs/reference/sriov.md says why.

`annex` says what of this joins numakube: the program, its `manifest`, and the `node_groups` of the
operator's objects.
"""
