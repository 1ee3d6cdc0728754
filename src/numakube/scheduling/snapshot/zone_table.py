"""The NUMA zones of all nodes as arrays: what they have, what is free, how far apart they are.

Arrays have the shape ``(zones, nodes)``: position 0 is the zone with the lowest NUMA id of its
node, and a node with fewer zones than the widest one has nothing at the later positions. Each
resource has arrays of its own, so that a resource seen for the first time moves nothing. Room for
nodes grows by doubling, room for zones when a wider node appears.

A node update rewrites one column, and of that only what differs: beliefs never change, so the last
one written is remembered and compared.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.scheduling.snapshot.node_columns import RowChanges

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.scheduling.arrays import IntArray, Mask
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.topology.topology_view import NodeTopology, ZoneView
    from numakube.values.resources import Amounts

Small: TypeAlias = npt.NDArray[np.int16]
Choice: TypeAlias = npt.NDArray[np.int8]

UNKNOWN_DISTANCE: Final = 255
"""What firmware (ACPI SLIT) and upstream write for an unknown distance."""
LARGEST_AMOUNT: Final = 2**56
"""Larger amounts are stored as this one, so that sums over 64 zones fit an int64."""

_FIRST_CAPACITY: Final = 64
_FIRST_WIDTH: Final = 2
_SMALLEST, _LARGEST = np.iinfo(np.int16).min, np.iinfo(np.int16).max


class ToldPolicy(IntEnum):
    """What a report says about a manager of the kubelet: whether its policy is static."""

    UNKNOWN = 0
    NO = 1
    YES = 2


@dataclass(frozen=True, slots=True)
class ZoneShape:
    """Which zones a node has and how far they are apart; nodes of one kind share one.

    Attributes:
        ids: NUMA ids, ascending.
        distances: from each zone to each, in the order of ``ids``.
    """

    ids: tuple[int, ...] = ()
    distances: tuple[tuple[int, ...], ...] = ()


class _Written(NamedTuple):
    """What a row was last written from, and the names of all resources in it."""

    topology: NodeTopology | None
    available: tuple[Amounts, ...]
    names: frozenset[str]


_NO_SHAPE: Final = ZoneShape()
_NOTHING: Final = _Written(None, (), frozenset())


@lru_cache(maxsize=256)
def _bounded(distances: tuple[tuple[int, ...], ...]) -> npt.NDArray[np.int16]:
    """Return *distances* as they are stored; most nodes have those of another."""
    return np.clip(distances, _SMALLEST, _LARGEST).astype(np.int16)


class _Array:
    """An array that only the table writes, and the view of it that readers get.

    Attributes:
        cells: the same numbers one after the other; three times as fast to write one by one.
    """

    __slots__ = ("cells", "data", "view")

    def __init__(self, shape: tuple[int, ...], dtype: npt.DTypeLike) -> None:
        self._use(np.zeros(shape, dtype=dtype))

    def grow(self, shape: tuple[int, ...]) -> None:
        """Make the array larger; new places hold zero."""
        larger = np.zeros(shape, dtype=self.data.dtype)
        larger[tuple(slice(size) for size in self.data.shape)] = self.data
        self._use(larger)

    def _use(self, data: npt.NDArray[Any]) -> None:
        self.data = data
        self.cells: Any = data.reshape(-1).data
        self.view = data.view()
        self.view.flags.writeable = False


class ZoneTable:
    """What is known of the NUMA zones of each node; indexed by `NodeInfo.row`."""

    def __init__(self) -> None:
        self.width = _FIRST_WIDTH
        self.room = _FIRST_CAPACITY
        self._nodes: dict[str, _Array] = {
            name: _Array((self.room,), dtype)
            for name, dtype in {
                "policy": np.int8, "scope": np.int8, "cpu_static": np.int8,
                "memory_static": np.int8, "count": np.int16, "max_zones": np.int16,
                "blocked": np.bool_, "exact": np.bool_, "shape": np.int32, "revision": np.int64,
            }.items()
        }  # fmt: skip
        self._zones: dict[str, _Array] = {
            "present": self._by_zone(np.bool_),
            "zone_id": self._by_zone(np.int16),
        }
        self._distance = _Array((self.width, self.width, self.room), np.int16)
        self._available: dict[str, _Array] = {}
        self._allocatable: dict[str, _Array] = {}
        self._capacity: dict[str, _Array] = {}
        self._reports: dict[str, _Array] = {}
        self._no_amount = self._by_zone(np.int64)
        self._no_report = self._by_zone(np.bool_)
        self._written = [_NOTHING] * self.room
        self._shapes: list[ZoneShape] = [_NO_SHAPE]
        self._shape_ids: dict[ZoneShape, int] = {_NO_SHAPE: 0}
        self._revision = 0
        self.changes = RowChanges(self.room)
        """Change with reports and with reservations."""

    @property
    def policy(self) -> Choice:
        """`TopologyPolicy.code` of each node; ``NO_DATA`` without a usable report."""
        return self._nodes["policy"].view

    @property
    def scope(self) -> Choice:
        """`TopologyScope.code` of each node."""
        return self._nodes["scope"].view

    @property
    def cpu_static(self) -> Choice:
        """Whether (`ToldPolicy`) the CPU Manager of each node gives out whole CPUs."""
        return self._nodes["cpu_static"].view

    @property
    def memory_static(self) -> Choice:
        """Whether (`ToldPolicy`) the Memory Manager of each node places memory."""
        return self._nodes["memory_static"].view

    @property
    def count(self) -> Small:
        """How many zones each node has."""
        return self._nodes["count"].view

    @property
    def max_zones(self) -> Small:
        """How many zones the Topology Manager of each node accepts."""
        return self._nodes["max_zones"].view

    @property
    def blocked(self) -> Mask:
        """Nodes that must not be used for now; `NumaBelief.blocked` says why."""
        return self._nodes["blocked"].view

    @property
    def exact(self) -> Mask:
        """Nodes of which is known which CPUs, devices and memory are free."""
        return self._nodes["exact"].view

    @property
    def shape(self) -> npt.NDArray[np.int32]:
        """Number of each node's `ZoneShape`, for `shape_at`; numbers may change with a write."""
        return self._nodes["shape"].view

    @property
    def revision(self) -> IntArray:
        """Number of each node's report, 0 without one: changes with reports, not reservations."""
        return self._nodes["revision"].view

    @property
    def revisions(self) -> int:
        """How often a report was written, or the arrays grew: as long as this lasts, all do."""
        return self._revision

    @property
    def present(self) -> Mask:
        """``(zones, nodes)``: whether there is a zone at this position."""
        return self._zones["present"].view

    @property
    def zone_id(self) -> Small:
        """``(zones, nodes)``: NUMA id of the zone, ascending; 0 where there is none."""
        return self._zones["zone_id"].view

    @property
    def distance(self) -> Small:
        """``(from, to, nodes)``: distance between zones; `UNKNOWN_DISTANCE` if not told."""
        return self._distance.view

    def available(self, resource: str) -> IntArray:
        """Return ``(zones, nodes)``: what is believed to be free, reservations taken off."""
        return self._available.get(resource, self._no_amount).view

    def allocatable(self, resource: str) -> IntArray:
        """Return ``(zones, nodes)``: what each zone may give to pods."""
        return self._allocatable.get(resource, self._no_amount).view

    def capacity(self, resource: str) -> IntArray:
        """Return ``(zones, nodes)``: what each zone has."""
        return self._capacity.get(resource, self._no_amount).view

    def reports(self, resource: str) -> Mask:
        """Return ``(zones, nodes)``: whether the report of the zone names *resource* at all."""
        return self._reports.get(resource, self._no_report).view

    def resources(self) -> Sequence[str]:
        """Return the resources that any zone has ever named."""
        return tuple(self._reports)

    def shape_at(self, number: int) -> ZoneShape:
        """Return the shape with that number in `shape`."""
        return self._shapes[number]

    def reserve(self, rows: int) -> None:
        """Make room for nodes at rows below *rows*."""
        if rows <= self.room:
            return
        while self.room < rows:
            self.room *= 2
        self._written.extend([_NOTHING] * (self.room - len(self._written)))
        self._grow()

    def write(self, row: int, belief: NumaBelief) -> None:
        """Write what is believed of the node at *row*."""
        topology, available = belief.topology, belief.available
        if topology is None:
            self._forget_report(row)
            self._number_report(row)
        else:
            before = self._written[row]
            names = before.names
            if topology is not before.topology:
                names = self._write_report(row, topology, before)
                changed = True
            else:
                changed = available != before.available
            if changed:
                every = names if names is before.names else names | before.names
                self._write_amounts(self._available, row, available, every)
            self._written[row] = _Written(topology, available, names)
        self._nodes["blocked"].cells[row] = bool(belief.blocked)
        self.changes.note(row)

    def clear(self, row: int) -> None:
        """Forget the node that was at *row*."""
        self._forget_report(row)
        self._nodes["blocked"].cells[row] = False
        self.changes.note(row)

    def _forget_report(self, row: int) -> None:
        self._revision += 1
        before = self._written[row]
        self._written[row] = _NOTHING
        for name, column in self._nodes.items():
            if name != "blocked":
                column.cells[row] = 0
        if before.topology is not None:
            self._write_zones(row, (), before)
            self._write_amounts(self._available, row, (), before.names)

    def _write_report(self, row: int, topology: NodeTopology, before: _Written) -> frozenset[str]:
        """Write everything but what is available; return the names of all resources."""
        nodes = self._nodes
        nodes["policy"].cells[row] = topology.policy.code
        nodes["scope"].cells[row] = topology.scope.code
        nodes["max_zones"].cells[row] = topology.max_numa_nodes
        nodes["cpu_static"].cells[row] = _told(topology.cpu_manager_policy)
        nodes["memory_static"].cells[row] = _told(topology.memory_manager_policy)
        nodes["exact"].cells[row] = topology.report is not None
        self._number_report(row)
        if len(topology.zones) > self.width:
            self.width = len(topology.zones)
            self._grow()
        return self._write_zones(row, topology.zones, before)

    def _number_report(self, row: int) -> None:
        self._revision += 1
        self._nodes["revision"].cells[row] = self._revision

    def _write_zones(self, row: int, zones: Sequence[ZoneView], before: _Written) -> frozenset[str]:
        """Write what reports rarely change; return the names of all resources."""
        old = before.topology.zones if before.topology else ()
        if [(z.id, z.costs) for z in zones] != [(z.id, z.costs) for z in old]:
            self._write_shape(row, _shape_of(zones))
        names = before.names
        allocatable = [zone.allocatable for zone in zones]
        if allocatable != [zone.allocatable for zone in old]:
            names = frozenset().union(*allocatable)
            self._write_amounts(self._allocatable, row, allocatable, names | before.names)
            self._write_names(row, allocatable, names | before.names)
        capacity = [zone.capacity for zone in zones]
        if capacity != [zone.capacity for zone in old]:
            self._write_amounts(self._capacity, row, capacity, names | before.names)
        return names

    def _write_names(self, row: int, zones: Sequence[Amounts], names: Iterable[str]) -> None:
        """Write which zones name each resource."""
        for name in names:
            column = self._reports.get(name) or self._add(self._reports, name, np.bool_)
            column.data[:, row] = False
            column.data[: len(zones), row] = [name in zone for zone in zones]

    def _write_amounts(
        self, arrays: dict[str, _Array], row: int, zones: Sequence[Amounts], names: Iterable[str]
    ) -> None:
        """Write the columns of all resources in *names*."""
        nothing = [0] * (self.width - len(zones))
        room = self.room
        for name in names:
            try:
                amounts = [zone[name] for zone in zones]
            except KeyError:
                amounts = [zone.get(name, 0) for zone in zones]
            amounts += nothing
            if max(amounts) > LARGEST_AMOUNT:
                amounts = [min(amount, LARGEST_AMOUNT) for amount in amounts]
            cells = (arrays.get(name) or self._add(arrays, name, np.int64)).cells
            cells[row::room] = array(cells.format, amounts)

    def _write_shape(self, row: int, shape: ZoneShape) -> None:
        size = len(shape.ids)
        self._nodes["count"].cells[row] = size
        present, zone_id = self._zones["present"].data, self._zones["zone_id"].data
        present[:, row] = False
        present[:size, row] = True
        zone_id[:, row] = 0
        distance = self._distance.data
        distance[:, :, row] = 0
        if size:
            zone_id[:size, row] = shape.ids
            distance[:size, :size, row] = _bounded(shape.distances)
        self._nodes["shape"].cells[row] = self._number_of(shape)

    def _number_of(self, shape: ZoneShape) -> int:
        number = self._shape_ids.get(shape)
        if number is None:
            if len(self._shapes) > 2 * self.room:
                self._renumber_shapes()
            number = self._shape_ids[shape] = len(self._shapes)
            self._shapes.append(shape)
        return number

    def _renumber_shapes(self) -> None:
        """Drop shapes that no node has any more."""
        numbers = self._nodes["shape"].data
        used, numbers[:] = np.unique(numbers, return_inverse=True)
        self._shapes = [self._shapes[number] for number in used]
        self._shape_ids = {shape: number for number, shape in enumerate(self._shapes)}

    def _add(self, arrays: dict[str, _Array], name: str, dtype: npt.DTypeLike) -> _Array:
        arrays[name] = self._by_zone(dtype)
        return arrays[name]

    def _by_zone(self, dtype: npt.DTypeLike) -> _Array:
        return _Array((self.width, self.room), dtype)

    def _grow(self) -> None:
        self.changes.grow(self.room)
        self._revision += 1
        for column in self._nodes.values():
            column.grow((self.room,))
        resources = (self._available, self._allocatable, self._capacity, self._reports)
        for arrays in (self._zones, *resources):
            for column in arrays.values():
                column.grow((self.width, self.room))
        for column in (self._no_amount, self._no_report):
            column.grow((self.width, self.room))
        self._distance.grow((self.width, self.width, self.room))


def _told(policy: str | None) -> ToldPolicy:
    if policy is None:
        return ToldPolicy.UNKNOWN
    return ToldPolicy.YES if policy.lower() == "static" else ToldPolicy.NO


def _ids(zones: Sequence[ZoneView]) -> tuple[int, ...]:
    return tuple(zone.id for zone in zones)


def _shape_of(zones: Sequence[ZoneView]) -> ZoneShape:
    ids = _ids(zones)
    return ZoneShape(
        ids, tuple(tuple(z.costs.get(to, UNKNOWN_DISTANCE) for to in ids) for z in zones)
    )
