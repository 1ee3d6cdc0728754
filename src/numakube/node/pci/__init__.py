"""PCI functions and what belongs to them, as the kernel tells in sysfs, by netlink and in /dev."""
