"""Which nodes are of one kind: their devices differ in the names of their pools alone.

The same devices are taken on nodes of one kind, so claims get equal devices there. Kinds are
numbers, kept up to date one pool at a time, so that a decision about thousands of nodes is one
about a few kinds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.dra.allocator import only_on
from numakube.dra.device_ids import AllocationError, PoolId

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numakube.api.nodes import Node
    from numakube.api.resource_claims import AllocationResult
    from numakube.dra.allocated_state import AllocatedState
    from numakube.dra.pools import DeviceInventory, DevicePool

OWN: Final = -1
"""The kind of a node that is like no other: it reaches devices that are not its own."""


_MOST_KINDS: Final = 50_000
_MOST_CHANGES: Final = 100_000


class NodeKinds:
    """The kinds of the nodes of a cluster.

    Attributes:
        changed: names of nodes whose kind may have changed, oldest first.
    """

    def __init__(self, inventory: DeviceInventory, state: AllocatedState) -> None:
        self.changed: list[str] = []
        self._inventory = inventory
        self._state = state
        self._numbers: dict[Hashable, int] = {}
        self._known: dict[str, tuple[Node, int]] = {}
        self._users: dict[PoolId, set[str]] = {}

    @property
    def is_worn(self) -> bool:
        """Whether so much was noted that it is better to begin again."""
        return len(self._numbers) > _MOST_KINDS or len(self.changed) > _MOST_CHANGES

    def of(self, node: Node) -> int:
        """Return the kind of *node*."""
        name = node.metadata.name
        known = self._known.get(name)
        if known is None or known[0] is not node:
            known = self._known[name] = node, self._kind(node)
        return known[1]

    def pool_changed(self, pool: PoolId) -> None:
        """Note that a device of *pool* was allocated or released."""
        for name in self._users.get(pool, ()):
            if self._known.pop(name, None) is not None:
                self.changed.append(name)

    def _kind(self, node: Node) -> int:
        try:
            offered = self._inventory.kind_of(node)
        except AllocationError:
            return OWN
        if offered is None:
            return OWN
        kind = offered, self._taken(node), node.status.declared_features
        return self._numbers.setdefault(kind, len(self._numbers))

    def _taken(self, node: Node) -> tuple[tuple[Hashable, ...], ...]:
        """Return the positions of devices that are taken, and what claims have of shared ones."""
        state = self._state
        taken: list[tuple[Hashable, ...]] = []
        for place, pool in enumerate(self._inventory.pools_for(node)):
            self._users.setdefault(pool.id, set()).add(node.metadata.name)
            for number, one in enumerate(pool.candidates if state.pools[pool.id] else ()):
                if state.is_shared(one.id):
                    consumed = state.capacity.get(one.id, {})
                    amounts = frozenset((name, str(used)) for name, used in consumed.items())
                    taken.append((place, number, one.id in state.devices, amounts))
                elif one.id in state.devices:
                    taken.append((place, number))
        return tuple(taken)


def has_shares(allocations: Iterable[AllocationResult]) -> bool:
    """Tell whether a device is shared: every share has an id of its own."""
    return any(
        result.share_id is not None for each in allocations for result in each.devices.results
    )


def moved(
    allocations: Iterable[AllocationResult],
    before: Sequence[DevicePool],
    pools: Sequence[DevicePool],
    node: str,
) -> tuple[AllocationResult, ...]:
    """Return what *allocations* from the pools *before* are on a *node* of the same kind.

    Its *pools* have the same devices in the same order, under names of their own.
    """
    names = {one.id: other.id.pool for one, other in zip(before, pools, strict=True)}
    return tuple(_moved(allocation, names, node) for allocation in allocations)


def _moved(allocation: AllocationResult, names: dict[PoolId, str], node: str) -> AllocationResult:
    results = tuple(
        replace(result, pool=names[PoolId(result.driver, result.pool)])
        for result in allocation.devices.results
    )
    return replace(
        allocation,
        devices=replace(allocation.devices, results=results),
        node_selector=only_on(node) if allocation.node_selector is not None else None,
    )
