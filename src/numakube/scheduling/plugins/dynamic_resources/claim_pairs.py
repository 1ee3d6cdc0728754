"""Devices of claims that are close to each other, and to those of device plugins.

A driver has devices of one kind, so devices of different drivers are paired: GPUs with network
cards. How close two are is known from the node's report if it has the PCI address that the driver
publishes, and otherwise as far as PCIe roots and NUMA nodes tell. What device plugins will give the
pod for certain is paired with the claims' devices, too.
"""

from __future__ import annotations

from collections import Counter
from itertools import combinations, count, product
from typing import TYPE_CHECKING, Final

from numakube.api.strictness import strictness_of
from numakube.dra.device_ids import DeviceId, SearchStopped
from numakube.kubelet.device_pairs import WITHIN, pairing
from numakube.kubelet.machine import NO_TREE, Closeness, DeviceTree, PciPath
from numakube.scheduling.framework.status import SUCCESS, Status, unschedulable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from numakube.api.resource_claims import AllocationResult
    from numakube.dra.pools import CandidateDevice, DevicePool
    from numakube.kubelet.device_pairs import Functions
    from numakube.scheduling.plugins.dynamic_resources.claim_tracker import CycleClaims
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.pci_places import PciPlaces
    from numakube.topology.topology_view import NodeTopology

_TRIED_AT_MOST: Final = 2000
"""Allocations that a search looks at for closer devices before it gives up."""
_LEVELS: Final = (Closeness.PIX, Closeness.PXB, Closeness.PHB, Closeness.NODE)
_PAIR: Final = 2
_KEPT_TREES: Final = 10_000


def devices_of(allocations: Iterable[AllocationResult]) -> Iterator[DeviceId]:
    """Yield the devices of *allocations*."""
    for allocation in allocations:
        for result in allocation.devices.results:
            yield DeviceId(result.driver, result.pool, result.device)


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
        self._tree, self._best = known.trees.of(known, node)

    def closeness(self, devices: Iterable[DeviceId]) -> Closeness | None:
        """Return how close the worst pair is; ``None`` if there is no pair, or no telling."""
        return pairing(self._tree, self._groups(devices))

    def closer_than(self, level: Closeness | None) -> Iterator[Closeness]:
        """Yield what would be better than *level* and some devices are, the best first."""
        best = Closeness.SELF if self._given or self._best is None else self._best
        yield from (other for other in _LEVELS if level is not None and best <= other < level)

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

    def are_linked(self, devices: Iterable[DeviceId]) -> bool | None:
        """Tell whether devices of one driver are pairwise linked; ``None`` if no links are known.

        Those are NVLink, xGMI and HCCS, as the node's report has them.
        """
        groups: dict[str, list[str]] = {}
        for device in devices:
            groups.setdefault(device.driver, []).append(str(device))
        pairs = [pair for group in groups.values() for pair in combinations(group, 2)]
        if pairs and not self._tree.links:
            return None
        return all(self._is_within(Closeness.LINK, *pair) for pair in pairs)

    def linked(self) -> Callable[[Iterable[DeviceId]], bool]:
        """Return what tells whether devices are linked, so many times and no more."""
        tried = 0

        def accepts(devices: Iterable[DeviceId]) -> bool:
            nonlocal tried
            tried += 1
            if tried > _TRIED_AT_MOST:
                raise SearchStopped
            return bool(self.are_linked(devices))

        return accepts

    def lonely(
        self, level: Closeness, wanted: Iterable[DeviceId], free: Iterable[DeviceId]
    ) -> frozenset[DeviceId]:
        """Return those of *free* that need not be tried to have devices within *level*.

        They have no partner that close, and are of a driver that no more are *wanted* of than of
        the other: each of its devices needs one.
        """
        counts = Counter(one.driver for one in wanted)
        offers = {driver: [one for one in free if one.driver == driver] for driver in counts}
        groups = [(offers[driver], counts[driver]) for driver in counts]
        others = [*groups, *((given, len(given)) for given in self._given)]
        return frozenset(
            one
            for some, count in groups
            for partners, partner_count in others
            if partners is not some and count <= partner_count
            for one in some
            if not any(self._is_within(level, str(one), str(other)) for other in partners)
        )

    def _is_within(self, level: Closeness, one: str, other: str) -> bool:
        connection = self._tree.between(one, other)
        return connection is not None and connection.closeness <= level

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


class PairTrees:
    """How the devices of nodes are connected, kept while reports and slices tell the same."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[list[DevicePool], object, DeviceTree, Closeness | None]] = {}
        self._told: dict[Hashable, int] = {}
        self._told_by: dict[str, tuple[NodeTopology | None, int]] = {}
        self._numbers = count()

    def told_by(self, node: NodeInfo) -> int:
        """Return a number for nodes whose reports tell the same of PCI functions."""
        topology = node.numa.topology if node.numa is not None else None
        known = self._told_by.get(node.name)
        if known is None or known[0] is not topology:
            tree, pci = _told(topology)
            if len(self._told_by) >= _KEPT_TREES:
                self._told.clear()
                self._told_by.clear()
            told = frozenset(tree.paths.items()), frozenset(tree.links.items()), pci
            number = self._told.setdefault(told, next(self._numbers))
            known = self._told_by[node.name] = topology, number
        return known[1]

    def of(self, known: CycleClaims, node: NodeInfo) -> tuple[DeviceTree, Closeness | None]:
        """Return the tree of *node*, and how close any devices of different drivers are in it."""
        told = reported, _ = _told(node.numa.topology if node.numa is not None else None)
        pools = known.inventory.pools_for(node.node) if known.inventory is not None else []
        found = self._known.get(node.name)
        if found is None or found[0] is not pools or found[1] != told:
            candidates = [
                candidate for pool in pools if pool.usable for candidate in pool.candidates
            ]
            tree = _with_devices(reported, candidates, known, node)
            if len(self._known) >= _KEPT_TREES:
                self._known.clear()
            found = self._known[node.name] = pools, told, tree, _closest(tree, candidates)
        return found[2], found[3]


def _told(topology: NodeTopology | None) -> tuple[DeviceTree, PciPlaces | None]:
    """Return how PCI functions are connected, and where, as far as a report tells."""
    if topology is None:
        return NO_TREE, None
    return topology.report.tree if topology.report is not None else NO_TREE, topology.pci


def _closest(tree: DeviceTree, candidates: Iterable[CandidateDevice]) -> Closeness | None:
    drivers: dict[str, list[str]] = {}
    for candidate in candidates:
        drivers.setdefault(candidate.id.driver, []).append(str(candidate.id))
    levels = (
        tree.between(one, other)
        for some, others in combinations(drivers.values(), 2)
        for one, other in product(some, others)
    )
    return min((level.closeness for level in levels if level is not None), default=None)


def _with_devices(
    reported: DeviceTree,
    candidates: Iterable[CandidateDevice],
    known: CycleClaims,
    node: NodeInfo,
) -> DeviceTree:
    """Return the tree of the node's report with the devices of claims in it, and their links."""
    every = dict(reported.paths)
    at: dict[str, list[str]] = {}
    for candidate in candidates:
        path = _path(candidate, every, known, node)
        if path is not None:
            every[path.address] = path
            address = known.places.pci_address(candidate.device, candidate.id.driver)
            at.setdefault(address or "", []).append(path.address)
    links = dict(reported.links) | {
        (min(pair), max(pair)): count
        for (one, other), count in reported.links.items()
        for pair in product(at.get(one, ()), at.get(other, ()))
    }
    return DeviceTree(every, links)


def _path(
    candidate: CandidateDevice, paths: Mapping[str, PciPath], known: CycleClaims, node: NodeInfo
) -> PciPath | None:
    name, driver = str(candidate.id), candidate.id.driver
    # A PCI address means something on the machine of the device alone.
    is_local = node.name in (candidate.slice.spec.node_name, candidate.device.node_name)
    address = known.places.pci_address(candidate.device, driver) if is_local else None
    real = paths.get(address or "")
    local = known.numa_nodes(candidate, node)
    if real is not None:
        return PciPath(name, real.root, real.bridges, real.numa_node, local)
    root = known.pcie_root(candidate)
    if root is None and not local:
        return None
    # Without a path it is below its root, or else somewhere on its NUMA nodes.
    return PciPath(name, root or f"of {name}", (), min(local, default=None), local)
