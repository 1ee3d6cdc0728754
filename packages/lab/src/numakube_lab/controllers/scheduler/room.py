"""What room nodes have: their allocatable resources less what their pods ask for.

Kept up to date with every change, so that looking for a node costs a few comparisons a node.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.api.pods import effective_requests
from numakube.values.resources import amounts_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.core import Pod
    from numakube.api.nodes import Node

PODS: Final = "pods"
CPU: Final = "cpu"
MEMORY: Final = "memory"

DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
"""What a pod without requests counts as when nodes are compared; kube-scheduler's figures."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What a pod needs of a node: amounts of resources, one of them its place among the pods.

    Attributes:
        cpu_milli: what it counts as when nodes are compared; never nothing.
        memory_bytes: likewise.
    """

    amounts: Mapping[str, int]
    cpu_milli: int = DEFAULT_MILLI_CPU
    memory_bytes: int = DEFAULT_MEMORY

    @classmethod
    def of(cls, pod: Pod) -> Demand:
        """Return the demand of *pod*."""
        requests = effective_requests(pod, from_status=True)
        amounts = {
            name: each.milli_value() if name == CPU else each.value()
            for name, each in requests.items()
        }
        return cls(
            {PODS: 1, **{name: amount for name, amount in amounts.items() if amount > 0}},
            amounts.get(CPU) or DEFAULT_MILLI_CPU,
            amounts.get(MEMORY) or DEFAULT_MEMORY,
        )


@dataclass(slots=True)
class Room:
    """A node's resources.

    Attributes:
        free: what is left of each; negative if too much was promised.
        weight: the CPU and memory that its pods count as when nodes are compared.
    """

    node: Node
    allocatable: Mapping[str, int]
    free: dict[str, int]
    weight: list[int]

    def shortages(self, demand: Demand) -> tuple[str, ...]:
        """Return the resources of which there is too little; none if the pod fits."""
        free = self.free
        return tuple(name for name, amount in demand.amounts.items() if amount > free.get(name, 0))

    def fits(self, demand: Demand) -> bool:
        """Tell whether the pod fits."""
        free = self.free
        for name, amount in demand.amounts.items():  # noqa: SIM110 - twice as fast as all()
            if amount > free.get(name, 0):
                return False
        return True

    def score(self, demand: Demand) -> float:
        """Return how good the node is for the pod: more free, and evenly, is better."""
        cpu = self._share_left(CPU, self.weight[0] + demand.cpu_milli)
        memory = self._share_left(MEMORY, self.weight[1] + demand.memory_bytes)
        return (cpu + memory) / 2 + 1 - abs(cpu - memory) / 2

    def _share_left(self, name: str, amount: int) -> float:
        total = self.allocatable.get(name, 0)
        if total <= 0:
            return 0.0
        return max(0.0, (total - amount) / total)


@dataclass
class Rooms:
    """The room of all nodes.

    Attributes:
        version: changes whenever there may be room where there was none.
        shape_version: changes whenever a node comes, goes or is changed.
    """

    version: int = 0
    shape_version: int = 0
    _rooms: dict[str, Room] = field(default_factory=dict)
    _placed: dict[str, tuple[str, Demand]] = field(default_factory=dict)
    _used: dict[str, dict[str, int]] = field(default_factory=dict)
    _weights: dict[str, list[int]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self._rooms)

    def get(self, node: str) -> Room | None:
        """Return the room of a node."""
        return self._rooms.get(node)

    def node_of(self, uid: str) -> str:
        """Return the node that a pod is on, or is about to be; empty if none is known."""
        known = self._placed.get(uid)
        return known[0] if known else ""

    def all(self) -> Iterable[Room]:
        """Return the room of every node."""
        return self._rooms.values()

    def put_node(self, node: Node) -> None:
        """Take note of a node, or of a change of it."""
        name = node.metadata.name
        current = self._rooms.get(name)
        if current is not None and _is_same(current.node, node):
            return
        allocatable = amounts_of(node.status.allocatable)
        used = self._used.get(name, {})
        free = {each: amount - used.get(each, 0) for each, amount in allocatable.items()}
        weight = self._weights.setdefault(name, [0, 0])
        self._rooms[name] = Room(node, allocatable, free, weight)
        self.version += 1
        self.shape_version += 1

    def drop_node(self, name: str) -> None:
        """Forget a node."""
        if self._rooms.pop(name, None) is not None:
            self.shape_version += 1

    def place(self, uid: str, node: str, demand: Demand) -> None:
        """Take note that a pod is on a node; nothing happens if that is known."""
        known = self._placed.get(uid)
        if known is not None and known == (node, demand):
            return
        if known is not None:
            self.release(uid)
        self._placed[uid] = (node, demand)
        self._book(node, demand, 1)

    def release(self, uid: str) -> None:
        """Take note that a pod needs nothing any more."""
        known = self._placed.pop(uid, None)
        if known is not None:
            self._book(*known, -1)
            self.version += 1

    def _book(self, node: str, demand: Demand, sign: int) -> None:
        used = self._used.setdefault(node, {})
        room = self._rooms.get(node)
        weight = self._weights.setdefault(node, [0, 0])
        weight[0] += sign * demand.cpu_milli
        weight[1] += sign * demand.memory_bytes
        for name, amount in demand.amounts.items():
            used[name] = used.get(name, 0) + sign * amount
            if room is not None and name in room.free:
                room.free[name] -= sign * amount


def _is_same(old: Node, new: Node) -> bool:
    """Tell whether a change of a node makes no difference to any pod: a heartbeat."""
    return (
        old.status.allocatable == new.status.allocatable
        and old.spec == new.spec
        and old.metadata.labels == new.metadata.labels
    )
