"""Where devices are: their NUMA nodes and PCIe roots, by the attributes that drivers publish.

``resource.kubernetes.io/numaNode`` is the standard one since Kubernetes 1.37 (KEP-6072). Drivers
had names of their own before; those are known here, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from numakube.api.resource_slices import Device, DeviceAttribute

NUMA_ATTRIBUTES: Final = (
    "resource.kubernetes.io/numaNode",
    "dra.net/numaNode",
    "dra.cpu/numaNodeID",
    "gpu.nvidia.com/numa",
)
PCIE_ROOT: Final = "resource.kubernetes.io/pcieRoot"


def numa_node_of(device: Device, driver: str) -> int | None:
    """Return the NUMA node of *device*; None if its driver does not tell it."""
    for name in NUMA_ATTRIBUTES:
        attribute = _attribute(device, driver, name)
        if attribute is None:
            continue
        # In a list the device's own node comes first, then others by distance.
        number = attribute.integers[0] if attribute.integers else attribute.integer
        if number is not None and number >= 0:
            return number
    return None


def pcie_root_of(device: Device, driver: str) -> str | None:
    """Return the PCIe root complex of *device*; None if its driver does not tell it."""
    attribute = _attribute(device, driver, PCIE_ROOT)
    return attribute.string if attribute is not None else None


def _attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Return an attribute by its full name; that of the device's own driver may lack the domain."""
    domain, _, short = name.partition("/")
    found = device.attributes.get(name)
    return device.attributes.get(short) if found is None and domain == driver else found
