"""The SR-IOV device plugin: offers PCI functions with their NUMA nodes to the kubelet.

A scan (`discovery`) of sysfs is shared out among pools (`share_out`) by their `device_selectors`,
each pool's devices are followed from scan to scan (`health`) and offered to the kubelet (`endpoint`
with `plugin`), which learns what containers need (`describing`, `answers`). Behaviour follows the
SR-IOV network device plugin v3.11; where it does not, docs/reference/sriov.md says why.
"""
