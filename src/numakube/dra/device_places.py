"""Where devices are: their NUMA nodes and PCIe roots, by the attributes that drivers publish.

``resource.kubernetes.io/numaNode`` is the standard attribute since Kubernetes 1.37 (KEP-6072). A
list in it has the NUMA nodes that are equally local to the device, in no order: a card on a machine
with several NUMA nodes a socket is as near to one of them as to another.
Drivers have names of their own besides; a table has those that are known, and a configuration can
have others by driver. A driver that publishes only the PCI address of a device leaves the rest to
the node's report, which says where each address is (`numakube.topology.pci_places`).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from numakube.api.codec import Wire
from numakube.kubelet.machine import address_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.resource_slices import Device, DeviceAttribute
    from numakube.topology.pci_places import PciPlaces

NUMA_ATTRIBUTES: Final = (
    "resource.kubernetes.io/numaNode",
    "dra.net/numaNode",
    "dra.cpu/numaNodeID",
    "dra.memory/numaNode",
    "gpu.amd.com/numaNode",
    "gpu.nvidia.com/numa",
)
PCI_ATTRIBUTES: Final = (
    "resource.kubernetes.io/pciBusID",
    "dra.net/pciAddress",
    "gpu.amd.com/pciAddr",
    "gpu.intel.com/pciAddress",
    "gpu.nvidia.com/pcieBusID",
    "sriovnetwork.k8snetworkplumbingwg.io/pciAddress",
)
ROOT_ATTRIBUTES: Final = ("resource.kubernetes.io/pcieRoot",)


class DriverAttributes(Wire, frozen=True):
    """The attributes of one driver that say where its devices are.

    What is not set is looked for under the names that are known; an empty name turns it off.
    """

    numa_node: str | None = None
    pci_address: str | None = None
    pcie_root: str | None = None


_AS_KNOWN: Final = DriverAttributes()


class DevicePlaces:
    """Finds the places of devices."""

    def __init__(self, by_driver: Mapping[str, DriverAttributes] = MappingProxyType({})) -> None:
        self._by_driver = by_driver

    def numa_nodes(
        self, device: Device, driver: str, pci: PciPlaces | None = None
    ) -> frozenset[int]:
        """Return the NUMA nodes that *device* is local to; none if that is not known.

        *pci* is what the report of the device's node tells of PCI addresses.
        """
        own = self._by_driver.get(driver, _AS_KNOWN)
        for attribute in _found(device, driver, own.numa_node, NUMA_ATTRIBUTES):
            numbers = (*(attribute.integers or ()), attribute.integer)
            local = frozenset(number for number in numbers if number is not None and number >= 0)
            if local:
                return local
        if pci is None:
            return frozenset()
        addresses = _found(device, driver, own.pci_address, PCI_ATTRIBUTES)
        at = next((pci.numa_node(address.string) for address in addresses if address.string), None)
        return frozenset() if at is None else frozenset({at})

    def pci_address(self, device: Device, driver: str) -> str | None:
        """Return the PCI address of *device* as the kernel writes it; None if it is not known."""
        own = self._by_driver.get(driver, _AS_KNOWN)
        addresses = _found(device, driver, own.pci_address, PCI_ATTRIBUTES)
        text = next((address.string for address in addresses if address.string), "")
        return address_of(text) or None

    def pcie_root(self, device: Device, driver: str) -> str | None:
        """Return the PCIe root complex of *device*; None if its driver does not tell it."""
        own = self._by_driver.get(driver, _AS_KNOWN)
        roots = _found(device, driver, own.pcie_root, ROOT_ATTRIBUTES)
        return next((root.string for root in roots if root.string), None)


KNOWN_PLACES: Final = DevicePlaces()
"""By the names that are known, without any configuration."""


def _found(
    device: Device, driver: str, own: str | None, known: tuple[str, ...]
) -> Iterator[DeviceAttribute]:
    """Yield the attributes of *device* with the *own* name of its driver, or else *known* names."""
    for name in known if own is None else (own,):
        attribute = _attribute(device, driver, name)
        if attribute is not None:
            yield attribute


def _attribute(device: Device, driver: str, name: str) -> DeviceAttribute | None:
    """Return an attribute; names of the device's own driver may lack the domain, here and there."""
    domain, _, short = name.rpartition("/")
    found = device.attributes.get(name)
    if found is None and domain in ("", driver):
        return device.attributes.get(short if domain else f"{driver}/{name}")
    return found
