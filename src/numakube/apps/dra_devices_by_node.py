"""The devices of DRA drivers by node, read again when something about the node's pools changes.

Slices are found by node and pool, claims by the pools of which they have devices, so that
looking at one node costs what the node has, whatever the size of the cluster.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.dra_mirror import CLAIMS, SLICES, TAINT_RULES
from numakube.dra.features import LATEST
from numakube.insight.dra_devices import DraDevices
from numakube.kube.store import Updated
from numakube.scheduling.snapshot.cluster_objects import ClusterObjects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from numakube.api.nodes import Node
    from numakube.api.resource_claims import ResourceClaim
    from numakube.api.resource_slices import ResourceSlice
    from numakube.insight.dra_devices import DraDevice
    from numakube.kube.store import Change, Store
    from numakube.topology.pci_places import PciPlaces

_NODE: Final = "node-of-devices"
_POOL: Final = "pool-of-devices"


def _always() -> bool:
    return True


def _no_places(_: str) -> PciPlaces | None:
    return None


class DeviceBook:
    """Devices of all nodes; `open` it first.

    Attributes:
        stores: slices, claims and taint rules, by the fields of `ClusterObjects`.
    """

    def __init__(
        self,
        stores: Mapping[str, Store[Any]],
        *,
        note: Callable[[str], None],
        is_known: Callable[[], bool] = _always,
        pci: Callable[[str], PciPlaces | None] = _no_places,
    ) -> None:
        """Make a book that is closed.

        Args:
            stores: where slices, claims and taint rules are.
            note: told of every node whose devices may have changed.
            is_known: tells whether claims have been read.
            pci: returns what the report of a node says of PCI addresses.
        """
        self.stores = stores
        self._note = note
        self._is_known = is_known
        self._pci = pci
        self._versions: Counter[str] = Counter()

    def open(self) -> tuple[Callable[[], None], ...]:
        """Listen to the stores from now on; return what ends that."""
        if SLICES not in self.stores or CLAIMS not in self.stores:
            return ()
        slices, claims = self.stores[SLICES], self.stores[CLAIMS]
        # Another book may have the same stores.
        for store, name, function in (
            (slices, _NODE, _nodes_of),
            (slices, _POOL, _pool_of),
            (claims, _POOL, _pools_of),
        ):
            if not store.has_index(name):
                store.add_index(name, function)
        rules = self.stores.get(TAINT_RULES)
        ends = [slices.subscribe(self._on_slice), claims.subscribe(self._on_claim)]
        return (*ends, *((rules.subscribe(self._on_rule),) if rules is not None else ()))

    def version_of(self, node: str) -> int:
        """Return a number that grows with every change of a node's devices."""
        return self._versions[node]

    def on(self, node: Node) -> tuple[DraDevice, ...]:
        """Return the devices of *node*."""
        objects = self.objects_of(node.metadata.name)
        return DraDevices(objects, minor=LATEST, pci=self._pci).on(node)

    def objects_of(self, node: str) -> ClusterObjects:
        """Return slices, claims and taint rules, as far as they are about devices of *node*."""
        objects = ClusterObjects()
        if SLICES not in self.stores or not self._is_known():
            return objects
        slices, claims = self.stores[SLICES], self.stores[CLAIMS]
        for pool in {pool for one in slices.select(_NODE, node) for pool in _pool_of(one)}:
            for one in slices.select(_POOL, pool):
                objects.resource_slices[one.metadata.key] = one
            for claim in claims.select(_POOL, pool):
                objects.resource_claims[claim.metadata.key] = claim
        rules = self.stores.get(TAINT_RULES) or ()
        objects.device_taint_rules.update({rule.metadata.key: rule for rule in rules})
        return objects

    def _on_slice(self, change: Change[ResourceSlice]) -> None:
        before = _nodes_of(change.old) if isinstance(change, Updated) else ()
        self._changed({*before, *_nodes_of(change.object)})

    def _on_claim(self, change: Change[ResourceClaim]) -> None:
        before = _pools_of(change.old) if isinstance(change, Updated) else ()
        slices = self.stores[SLICES]
        pools = {*before, *_pools_of(change.object)}
        known = (one for pool in pools for one in slices.select(_POOL, pool))
        self._changed({node for one in known for node in _nodes_of(one)})

    def _on_rule(self, _: Change[Any]) -> None:
        self._changed({node for one in self.stores[SLICES] for node in _nodes_of(one)})

    def _changed(self, nodes: set[str]) -> None:
        for node in nodes:
            self._versions[node] += 1
            self._note(node)


def _nodes_of(one: ResourceSlice) -> Iterator[str]:
    if one.spec.node_name:
        yield one.spec.node_name
    elif one.spec.per_device_node_selection:
        yield from {device.node_name for device in one.spec.devices if device.node_name}


def _pool_of(one: ResourceSlice) -> tuple[str]:
    return (f"{one.spec.driver}/{one.spec.pool.name}",)


def _pools_of(claim: ResourceClaim) -> set[str]:
    allocation = claim.status.allocation
    results = allocation.devices.results if allocation is not None else ()
    return {f"{result.driver}/{result.pool}" for result in results}
