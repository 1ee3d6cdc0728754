"""How full every NUMA zone of the cluster is, in a form that a browser draws at once.

A report is read when a page is opened and it has changed since: a cluster of thousands of nodes is
read in slices, between which the process goes on with its work. The map of one resource is a byte a
zone; afterwards a page receives only the rows that changed.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from numakube.insight.dra_devices import with_dra_devices
from numakube.insight.usage.zone_usage import zone_usages
from numakube.kube import ObjectKey
from numakube.topology import NodeTopology, view_of
from numakube.values.resources import CPU, MEMORY, MILLI_PER_CPU, is_memory
from numakube_pages.node_rows import KINDS, label_table, natural, row_of, used_percent

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.insight.dra_devices import DraDevice
    from numakube.insight.usage.zone_usage import ZoneUsage
    from numakube.kube import Store
    from numakube_pages.node_rows import NodeRow


# What colours on the map mean: one byte a zone, which is a percentage of what the zone has.
#
# Used and free are read off a row. Stranded and largest need the whole report (which cores are
# free, see `numakube.insight.usage.largest_pod`), so they are computed for readers who choose them.


USED: Final = "used"
FREE: Final = "free"
STRANDED: Final = "stranded"
LARGEST: Final = "largest"
MEASURES: Final = {
    USED: "used",
    FREE: "free",
    STRANDED: "stranded",
    LARGEST: "largest free",
}

NO_ZONE: Final = 255
"""The node has fewer zones than others, or no usable report."""
NO_RESOURCE: Final = 254
"""The zone has nothing of the resource to give."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """What is stranded in each zone, and the largest that each zone can still give to one pod."""

    stranded: Mapping[str, tuple[int, ...]]
    largest: Mapping[str, tuple[int, ...]]


NO_SHAPES: Final = Shapes({}, {})


def shapes_of(view: NodeTopology) -> Shapes:
    """Return both by resource."""
    zones = zone_usages(view)
    resources = dict.fromkeys(name for zone in zones for name in zone.allocatable)
    return Shapes(
        stranded={name: _by_zone(zones, name, _stranded) for name in resources},
        largest={name: _by_zone(zones, name, _largest) for name in resources},
    )


def cells_of(row: NodeRow, resource: str, width: int, measure: str, shapes: Shapes) -> bytes:
    """Return the bytes of one node on the map, filled or cut to *width*."""
    use = row.uses.get(resource)
    if use is None:
        cells = bytes((NO_RESOURCE,)) * len(row.zones)
    elif measure == USED:
        cells = _percents(use.allocatable, use.free)
    else:
        amounts = {FREE: use.free, STRANDED: shapes.stranded.get(resource)}.get(
            measure, shapes.largest.get(resource)
        )
        cells = _shares(use.allocatable, amounts or (0,) * len(row.zones))
    return cells[:width] + bytes((NO_ZONE,)) * (width - len(cells))


@lru_cache(maxsize=65536)
def _percents(allocatable: tuple[int, ...], free: tuple[int, ...]) -> bytes:
    """Return percent used by zone; nodes in the same state share it."""
    return bytes(
        used_percent(whole, left) if whole > 0 else NO_RESOURCE
        for whole, left in zip(allocatable, free, strict=True)
    )


def _shares(allocatable: tuple[int, ...], amounts: tuple[int, ...]) -> bytes:
    return _percents(
        allocatable,
        tuple(whole - amount for whole, amount in zip(allocatable, amounts, strict=True)),
    )


def _by_zone(
    zones: Sequence[ZoneUsage], resource: str, amount: Callable[[ZoneUsage, str], int]
) -> tuple[int, ...]:
    return tuple(amount(zone, resource) for zone in zones)


def _stranded(zone: ZoneUsage, resource: str) -> int:
    return zone.stranded.get(resource, 0)


def _largest(zone: ZoneUsage, resource: str) -> int:
    if resource == CPU:
        return zone.largest.cpus * MILLI_PER_CPU
    if resource == MEMORY:
        return zone.largest.memory_bytes
    if is_memory(resource):
        return zone.free.get(resource, 0)
    shape = zone.with_devices.get(resource)
    return shape.devices[resource] if shape is not None else 0


_SLICE: Final = 16
"""Reports that are read before others get their turn: a few milliseconds."""
_MANY: Final = 16
"""Zones of one node that are drawn whatever they have."""
_PLAIN: Final = tuple(range(64))
"""NUMA ids without holes; only others need to be sent."""


def _without_devices(_: Node) -> Sequence[DraDevice]:
    return ()


def _unread(_: str) -> NodeTopology | None:
    return None


class ZoneBook:
    """The rows of all nodes, kept up to date on demand."""

    def __init__(
        self,
        nodes: Store[Node],
        topologies: Store[NodeResourceTopology],
        *,
        read: Callable[[str], NodeTopology | None] = _unread,
        devices: Callable[[Node], Sequence[DraDevice]] = _without_devices,
    ) -> None:
        """Make an empty book.

        Args:
            nodes: all nodes.
            topologies: their reports.
            read: returns a report that was read already, which saves reading it again.
            devices: returns the devices of DRA drivers on a node.
        """
        self._nodes = nodes
        self._topologies = topologies
        self._read_already = read
        self._devices_on = devices
        self._rows: dict[str, NodeRow] = {}
        self._shapes: dict[str, tuple[int, Shapes]] = {}
        self._dirty: set[str] = set()
        self._order: list[str] | None = None
        self._reading = asyncio.Lock()
        self.layout = 0
        self.version = 0

    def note(self, name: str, *, layout: bool = False) -> None:
        """Remember that a node or its report changed; *layout*: it came or went."""
        self._dirty.add(name)
        if layout:
            self._order = None

    async def rows(self) -> list[NodeRow]:
        """Return the rows of all nodes in their natural order."""
        await self._read()
        return [self._rows[name] for name in self._ordered() if name in self._rows]

    async def row(self, name: str) -> NodeRow | None:
        """Return the row of one node."""
        if name in self._dirty or name not in self._rows:
            self._renew(name)
        return self._rows.get(name)

    async def heat(self, resource: str, measure: str = USED) -> dict[str, Any]:
        """Return the map of one resource, whole."""
        rows = await self.rows()
        width = _width(rows, resource)
        cells = await self._cells(rows, resource, measure, width)
        return {
            "version": self.version,
            "layout": self.layout,
            "resource": resource,
            "zones": width,
            "most": _most(rows),
            "nodes": [row.name for row in rows],
            "measure": measure,
            "cells": b64encode(b"".join(cells)).decode(),
            "flags": b64encode(bytes(row.flags for row in rows)).decode(),
            "ids": {
                index: row.zones
                for index, row in enumerate(rows)
                if row.zones != _PLAIN[: len(row.zones)]
            },
            "labels": label_table(rows),
            "kinds": [[kind.flag, kind.word, kind.text] for kind in KINDS],
        }

    async def heat_since(
        self, resource: str, *, layout: int, version: int, measure: str = USED
    ) -> dict[str, Any]:
        """Return the rows that changed; without ``rows`` if the whole map has to be read again."""
        rows = await self.rows()
        if layout != self.layout:
            return {"layout": self.layout, "version": self.version}
        width = _width(rows, resource)
        changed = [(index, row) for index, row in enumerate(rows) if row.version > version]
        cells = await self._cells([row for _, row in changed], resource, measure, width)
        told = [
            [index, row.flags, b64encode(own).decode()]
            for (index, row), own in zip(changed, cells, strict=True)
        ]
        return {"layout": self.layout, "version": self.version, "zones": width, "rows": told}

    async def _cells(
        self, rows: list[NodeRow], resource: str, measure: str, width: int
    ) -> list[bytes]:
        if measure not in (STRANDED, LARGEST):
            return [cells_of(row, resource, width, measure, NO_SHAPES) for row in rows]
        found = []
        for number, row in enumerate(rows):
            found.append(cells_of(row, resource, width, measure, self._shapes_of(row)))
            if number % _SLICE == 0:
                await asyncio.sleep(0)
        return found

    def _shapes_of(self, row: NodeRow) -> Shapes:
        """Return what is stranded and largest on a node, as of its row."""
        version, shapes = self._shapes.get(row.name, (-1, NO_SHAPES))
        if version != row.version:
            report = self._topologies.get(ObjectKey("", row.name))
            view = self._view_of(report) or (None if report is None else view_of(report))
            same = isinstance(view, NodeTopology) and len(view.zones) == len(row.zones)
            shapes = NO_SHAPES
            if same and isinstance(view, NodeTopology):
                node = self._nodes.get(ObjectKey("", row.name))
                shapes = shapes_of(with_dra_devices(view, self._devices_on(node) if node else ()))
            self._shapes[row.name] = row.version, shapes
        return shapes

    async def _read(self) -> None:
        async with self._reading:
            while self._dirty:
                for _ in range(min(_SLICE, len(self._dirty))):
                    self._renew(self._dirty.pop())
                await asyncio.sleep(0)

    def _renew(self, name: str) -> None:
        self._dirty.discard(name)
        key = ObjectKey("", name)
        node = self._nodes.get(key)
        self.version += 1
        if node is None:
            self._rows.pop(name, None)
            self._shapes.pop(name, None)
            return
        before = self._rows.get(name)
        report = self._topologies.get(key)
        row = row_of(
            node,
            report,
            version=self.version,
            view=self._view_of(report),
            devices=self._devices_on(node),
        )
        self._rows[name] = row
        if before is not None and _laid_out(before) != _laid_out(row):
            self.layout += 1

    def _view_of(self, report: NodeResourceTopology | None) -> NodeTopology | None:
        view = None if report is None else self._read_already(report.metadata.name)
        same = (
            view is not None
            and report is not None
            and view.resource_version == report.metadata.resource_version
        )
        return view if same else None

    def _ordered(self) -> list[str]:
        if self._order is None:
            found = (key.name for key in self._nodes.keys())  # noqa: SIM118 - no dict
            self._order = sorted(found, key=natural)
            self.layout += 1
        return self._order


def _laid_out(row: NodeRow) -> object:
    """Return what the whole map has to be read again for."""
    return len(row.zones), row.labels


def _most(rows: list[NodeRow]) -> int:
    return max((len(row.zones) for row in rows), default=0) or 1


def _width(rows: list[NodeRow], resource: str) -> int:
    """Return how many zones the map has for each node.

    A GPU server has dozens of zones with memory only, which come last: where nodes have many,
    zones after the last that has anything of the resource are left out.
    """
    most = _most(rows)
    if most <= _MANY:
        return most
    return max((_last(row, resource) for row in rows), default=0) or most


def _last(row: NodeRow, resource: str) -> int:
    """Return the number of zones up to the last that has anything of a resource."""
    use = row.uses.get(resource)
    found = [place for place, amount in enumerate(use.allocatable, 1) if amount] if use else []
    return found[-1] if found else 0
