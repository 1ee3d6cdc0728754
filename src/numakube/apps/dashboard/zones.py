"""How full every NUMA zone of the cluster is, in a form that a browser draws at once.

A report is read when somebody looks and has changed since: a cluster of thousands of nodes is read
in slices, between which the process goes on with its work. The map of one resource is a byte a
zone; whoever has it is told afterwards only of the rows that changed.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import TYPE_CHECKING, Any, Final

from numakube.apps.dashboard.rows import natural, row_of
from numakube.kube.objects import ObjectKey

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.apps.dashboard.rows import NodeRow
    from numakube.kube.store import Store
    from numakube.topology.view import NodeTopology

_SLICE: Final = 16
"""Reports that are read before others get their turn: a few milliseconds."""
_PLAIN: Final = tuple(range(64))
"""NUMA ids without holes; only others need to be told."""


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
    ) -> None:
        """Make an empty book.

        Args:
            nodes: all nodes.
            topologies: their reports.
            read: returns a report that somebody has read already, which saves reading it again.
        """
        self._nodes = nodes
        self._topologies = topologies
        self._read_already = read
        self._rows: dict[str, NodeRow] = {}
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

    async def heat(self, resource: str) -> dict[str, Any]:
        """Return the map of one resource, whole."""
        rows = await self.rows()
        width = _width(rows)
        return {
            "version": self.version,
            "layout": self.layout,
            "resource": resource,
            "zones": width,
            "nodes": [row.name for row in rows],
            "cells": b64encode(b"".join(row.cells(resource, width) for row in rows)).decode(),
            "flags": b64encode(bytes(row.flags for row in rows)).decode(),
            "ids": {
                index: row.zones
                for index, row in enumerate(rows)
                if row.zones != _PLAIN[: len(row.zones)]
            },
        }

    async def heat_since(self, resource: str, *, layout: int, version: int) -> dict[str, Any]:
        """Return the rows that changed; without ``rows`` if the whole map has to be read anew."""
        rows = await self.rows()
        if layout != self.layout:
            return {"layout": self.layout, "version": self.version}
        width = _width(rows)
        changed = [
            [index, row.flags, b64encode(row.cells(resource, width)).decode()]
            for index, row in enumerate(rows)
            if row.version > version
        ]
        return {"layout": self.layout, "version": self.version, "zones": width, "rows": changed}

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
            return
        before = self._rows.get(name)
        report = self._topologies.get(key)
        row = row_of(node, report, version=self.version, view=self._view_of(report))
        self._rows[name] = row
        if before is not None and len(before.zones) != len(row.zones):
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


def _width(rows: list[NodeRow]) -> int:
    return max((len(row.zones) for row in rows), default=0) or 1
