"""Devices of claims that are close to each other, and to those of device plugins.

A driver has devices of one kind, so devices of different drivers are paired: GPUs with network
cards. How close two are is known from the node's report if it has the PCI address that the driver
publishes, and otherwise as far as PCIe roots and NUMA nodes tell. What device plugins will give the
pod for certain is paired with the claims' devices, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.strictness import strictness_of
from numakube.dra.allocator import SearchStopped
from numakube.dra.device_ids import DeviceId
from numakube.kubelet.device_pairs import WITHIN, pairing
from numakube.kubelet.device_tree import Closeness, DeviceTree, PciPath
from numakube.scheduling.framework.status import SUCCESS, Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from numakube.api.resource_claims import AllocationResult
    from numakube.dra.pools import Candidate
    from numakube.kubelet.device_pairs import Functions
    from numakube.scheduling.plugins.dynamic_resources.cycle_claims import CycleClaims
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_TRIED_AT_MOST: Final = 2000
"""Allocations that a search looks at for closer devices before it gives up."""
_LEVELS: Final = (Closeness.PIX, Closeness.PXB, Closeness.PHB, Closeness.NODE)
_PAIR: Final = 2


def devices_of(allocations: Iterable[AllocationResult]) -> Iterator[DeviceId]:
    """Yield the devices of *allocations*."""
    for allocation in allocations:
        for one in allocation.devices.results:
            yield DeviceId(one.driver, one.pool, one.device)


class ClaimPairs:
    """How close devices are on one node.

    Args:
        known: the claims.
        node: the node.
        given: PCI functions of devices that the pod will get from device plugins.
    """

    def __init__(self, known: CycleClaims, node: NodeInfo, given: tuple[Functions, ...]) -> None:
        self._known = known
        self._node = node
        self._given = given
        self._tree = self._with_devices()

    def closeness(self, devices: Iterable[DeviceId]) -> Closeness | None:
        """Return how close the worst pair is; ``None`` if there is no pair, or no telling."""
        return pairing(self._tree, self._groups(devices))

    def closer_than(self, level: Closeness | None) -> Iterator[Closeness]:
        """Yield what would be better than *level*, the best first."""
        yield from (one for one in _LEVELS if level is not None and one < level)

    def within(self, level: Closeness) -> Callable[[Iterable[DeviceId]], bool]:
        """Return what tells whether devices are that close, so many times and no more."""
        tried = 0

        def accepts(devices: Iterable[DeviceId]) -> bool:
            nonlocal tried
            tried += 1
            if tried > _TRIED_AT_MOST:
                raise SearchStopped
            found = self.closeness(devices)
            return found is not None and found <= level

        return accepts

    def verdict(self, devices: Iterable[DeviceId], pod: PodInfo) -> Status:
        """Refuse the node if *devices* are farther apart than *pod* allows."""
        asked = strictness_of(pod.pod.metadata.annotations).closeness
        if asked is None:
            return SUCCESS
        groups = self._groups(devices)
        if len(groups) < _PAIR:
            return SUCCESS
        level = pairing(self._tree, groups)
        if level is None:
            return unschedulable(f"devices of claims not close enough ({asked}: not known)")
        if level <= WITHIN[asked]:
            return SUCCESS
        return unschedulable(f"devices of claims not close enough ({asked}: {level.name} at best)")

    def _groups(self, devices: Iterable[DeviceId]) -> list[Functions]:
        groups: dict[str, list[str]] = {}
        for device in devices:
            groups.setdefault(device.driver, []).append(str(device))
        return [*map(tuple, groups.values()), *self._given]

    def _with_devices(self) -> DeviceTree:
        """Return the tree of the node's report with the devices of claims in it."""
        topology = self._node.numa.topology if self._node.numa is not None else None
        report = topology.report if topology is not None else None
        known = dict(report.tree.paths) if report is not None else {}
        allocator = self._known.allocator
        for candidate, _ in allocator.devices(self._node.node) if allocator is not None else ():
            path = self._path(candidate, known)
            if path is not None:
                known[path.address] = path
        return DeviceTree(known)

    def _path(self, candidate: Candidate, known: dict[str, PciPath]) -> PciPath | None:
        name, driver = str(candidate.id), candidate.id.driver
        # A PCI address means something on the machine of the device alone.
        is_local = self._node.name in (candidate.slice.spec.node_name, candidate.device.node_name)
        address = self._known.places.pci_address(candidate.device, driver) if is_local else None
        real = known.get(address or "")
        if real is not None:
            return PciPath(name, real.root, real.bridges, real.numa_node)
        numa = self._known.numa_node(candidate, self._node)
        root = self._known.pcie_root(candidate)
        if root is None and numa is None:
            return None
        # Without a path it is below its root, or else somewhere on its NUMA node.
        return PciPath(name, root or f"of {name}", (), numa)
