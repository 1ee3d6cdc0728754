"""PCI functions and what belongs to them, as the kernel tells in sysfs, by netlink and in /dev.

What `__all__` names is public; it is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from numakube.values.lazy_names import lazy_names

if TYPE_CHECKING:
    from numakube.node.pci.device_links import UNKNOWN, Connected, connected_devices
    from numakube.node.pci.fake_pci import write_cards

__all__ = [
    "UNKNOWN",
    "Connected",
    "connected_devices",
    "write_cards",
]

__getattr__ = lazy_names(
    __name__,
    {
        "device_links": "Connected UNKNOWN connected_devices",
        "fake_pci": "write_cards",
    },
)
