"""Devices that are parts of the node itself: its CPUs, memory and hugepages, offered to claims.

Such a device is shared: claims take amounts of one of its capacities. The kubelet counts the same
amounts as resources of the node. Drivers of this kind say what a device is by an attribute;
dra-driver-cpu has CPUs alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.values.resources import CPU, MEMORY

if TYPE_CHECKING:
    from numakube.api.resource_slices import Device

_KIND: Final = "numakube.dev/kind"
_PAGE: Final = "numakube.dev/pageSize"
_CPU_DRIVER: Final = "dra.cpu"
_HUGEPAGES: Final = "hugepages"


def resource_of(device: Device, driver: str) -> str:
    """Return the resource of the node that *device* is a part of; empty if it is none."""
    attribute = device.attributes.get(_KIND)
    kind = attribute.string if attribute is not None else None
    if driver == _CPU_DRIVER:
        return CPU
    if kind == _HUGEPAGES:
        page = device.attributes.get(_PAGE)
        size = page.string if page is not None else None
        return f"hugepages-{size[:-1]}{size[-1].upper()}i" if size else ""
    return {CPU: CPU, MEMORY: MEMORY}.get(kind or "", "")
