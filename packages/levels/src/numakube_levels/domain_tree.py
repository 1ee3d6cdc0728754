"""Which nodes are in which domain, as numbers by row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from numakube.scheduling.plugins.gang_scheduling import Domain

if TYPE_CHECKING:
    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube_levels.level_sources import LevelTree


@dataclass(frozen=True)
class Domains:
    """The domains of a tree.

    Attributes:
        rows: the rows of all nodes, ascending.
        ids: for each level, the domain of each of *rows*; -1 for none.
        paths: for each level, the values of each domain from the coarsest level down to its own.
    """

    tree: LevelTree
    rows: Rows
    ids: tuple[IntArray, ...]
    paths: tuple[tuple[tuple[str, ...], ...], ...]

    def name(self, level: int, number: int) -> str:
        """Return what a domain is called: its path, without levels at which it has no value."""
        return "/".join(filter(None, self.paths[level][number]))

    def domain(self, level: int, number: int) -> Domain | None:
        """Return a domain as labels; nothing where they are none."""
        levels = self.tree.levels[: level + 1]
        if any(one.is_prefix or one.members is not None for one in levels):
            return None
        return Domain(tuple(one.label for one in levels), self.paths[level][number])

    def rows_of(self, level: int, number: int) -> Rows:
        """Return the rows of the nodes of a domain."""
        chosen: Rows = self.rows[self.ids[level] == number]
        return chosen

    @cached_property
    def counts(self) -> tuple[int, ...]:
        """How many domains each level has."""
        return tuple(map(len, self.paths))


def domains_in(snapshot: Snapshot, tree: LevelTree) -> Domains:
    """Return the domains of *tree*, worked out once until nodes change."""
    return snapshot.derived(("numakube-domains", tree), lambda seen: _domains(seen, tree))


def _domains(snapshot: Snapshot, tree: LevelTree) -> Domains:
    rows = snapshot.rows
    ids: list[IntArray] = []
    paths: list[tuple[tuple[str, ...], ...]] = []
    above = np.zeros(len(rows), dtype=np.int64)
    before: list[tuple[str, ...]] = [()]
    for level in tree.levels:
        column = snapshot.column(level.key, level.value_of())
        codes = column.codes[rows].astype(np.int64)
        # A node without a value is in no domain here, but it may be in one of a finer level.
        keys = above * (len(column.values) + 1) + (codes + 1)
        unique, numbers = np.unique(keys, return_inverse=True)
        found: list[tuple[str, ...]] = []
        for key in unique.tolist():
            parent, code = divmod(key, len(column.values) + 1)
            found.append((*before[parent], column.values[code - 1] if code else ""))
        own = np.array([bool(path[-1]) for path in found], dtype=np.bool_)
        renumbered = np.cumsum(own) - 1
        ids.append(np.where(own[numbers], renumbered[numbers], -1))
        paths.append(tuple(path for path in found if path[-1]))
        above, before = numbers.astype(np.int64), found
    return Domains(tree, rows, tuple(ids), tuple(paths))
