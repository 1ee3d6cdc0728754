"""The ledgers of all nodes, each made from the pods on its node when it is asked for.

Nothing is booked here. A ledger is kept until its node changes, and nodes that are alike share a
number (`NodeLedgers.codes`), so that a wish is decided once for all of them. Copies of nodes, on
which preemption tries things out, have ledgers that follow from the pods of the copy.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.koordinator import keys
from numakube.koordinator.ledger.allotment_annotations import allotment_of
from numakube.koordinator.ledger.node_ledger import Ledger
from numakube.koordinator.node.read_node import facts_of
from numakube.scheduling.koordinator.node_outcome import Case
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy.typing as npt

    from numakube.api.koordinator.devices import DeviceCr
    from numakube.api.pod import Pod
    from numakube.koordinator.ledger.holdings import Allotment
    from numakube.koordinator.node.node_facts import NodeFacts
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
    from numakube.scheduling.snapshot.node_columns import Column
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts

_MEMO: Final = "allotment"
_MARKS: Final = "koordinator-settings"
_LABELS: Final = (keys.NODE_POLICY, keys.NODE_BIND_POLICY)
_FIRST_CAPACITY: Final = 64
_MOST_CODES: Final = 1 << 15
"""Kinds of nodes to tell apart before all are numbered again."""


def held_by(pod: PodInfo) -> Allotment | None:
    """Return what *pod* holds by a scheduler's decision; ``None`` if its annotations tell none."""
    return pod.memo(_MEMO, _read) if pod.pod.metadata.annotations else None


def _read(pod: Pod) -> Allotment | None:
    try:
        return allotment_of(pod, [])
    except Exception:
        # It would be raised for every pod that may go to the same node.
        return None


@dataclass(frozen=True, slots=True)
class _Basis:
    """What the facts of a node were read from, each the same object until it changes."""

    allocatable: Amounts
    topology: NodeTopology | None
    device: DeviceCr | None

    def is_still(self, other: _Basis) -> bool:
        return (
            self.allocatable is other.allocatable
            and self.topology is other.topology
            and self.device is other.device
        )


@dataclass(slots=True)
class _Page:
    """What is kept of one node.

    Attributes:
        empty: the ledger of the node without pods.
        generation: of the node when `ledger` was made.
    """

    basis: _Basis
    empty: Ledger
    ledger: Ledger
    generation: int


class NodeLedgers:
    """The ledgers of a cluster's nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pages: dict[str, _Page] = {}
        self._stamps: list[int] = []
        self._codes: npt.NDArray[np.int32] = np.zeros(_FIRST_CAPACITY, dtype=np.int32)
        self._code_of: dict[Hashable, int] = {}

    def facts(self, node: NodeInfo) -> NodeFacts:
        """Return what is known of *node*, whatever pods are on it."""
        return self._page(node).empty.facts

    def of(self, node: NodeInfo) -> Ledger:
        """Return who holds what of *node*, which may be a copy with other pods."""
        page = self._page(node)
        if self._cluster.node(node.name) is not node:
            return _ledger(page, node)
        if page.generation != node.generation:
            page.ledger, page.generation = _ledger(page, node), node.generation
        return page.ledger

    def case(self, node: NodeInfo) -> Case:
        """Return *node* as far as it decides."""
        return Case.of(self.of(node), node)

    def codes(self, snapshot: Snapshot, rows: Rows) -> npt.NDArray[np.int32]:
        """Return a number for each of *rows*, equal for nodes with equal keys."""
        by_row = snapshot.by_row
        self._reserve(len(by_row))
        stamps = self._stamps
        for row in rows.tolist():
            node = by_row[row]
            if node is not None and stamps[row] != node.generation:
                self._codes[row] = self._code(self.case(node).key)
                stamps[row] = node.generation
        return self._codes[rows]

    def marks(self, snapshot: Snapshot) -> Column[bool]:
        """Return which nodes have settings that make ordinary pods special; most have none."""
        return snapshot.column(_MARKS, self._mark)

    def forget_others(self) -> None:
        """Forget nodes that are gone."""
        known = self._cluster.row_of
        self._pages = {name: page for name, page in self._pages.items() if name in known}

    def _mark(self, node: NodeInfo) -> bool | None:
        if not _may_have_settings(node):
            return None
        ledger = self.of(node)
        facts, amplified = ledger.facts, ledger.capacity.ratio(CPU) > 1
        return True if facts.label_policy.aligns or facts.binds_all or amplified else None

    def _code(self, key: Hashable) -> int:
        code = self._code_of.get(key)
        if code is None:
            code = self._code_of[key] = len(self._code_of)
        return code

    def _reserve(self, size: int) -> None:
        if len(self._code_of) > _MOST_CODES:
            self._code_of.clear()
            self._stamps = []
        if len(self._stamps) < size:
            self._stamps += [-1] * (size - len(self._stamps))
            if len(self._pages) > 2 * size:
                self.forget_others()
        if len(self._codes) < size:
            grown = np.zeros(max(size, 2 * len(self._codes)), dtype=np.int32)
            grown[: len(self._codes)] = self._codes
            self._codes = grown

    def _page(self, node: NodeInfo) -> _Page:
        topology = None if node.numa is None else node.numa.topology
        device = self._cluster.objects.devices.get(node.name)
        basis = _Basis(node.allocatable, topology, device)
        page = self._pages.get(node.name)
        if page is not None and page.basis.is_still(basis):
            return page
        nrt = None if node.numa is None else node.numa.nrt
        facts = facts_of(node.node, nrt, topology, device)
        if page is not None and page.empty.facts == facts:
            # Reports come with every pod and say the same of the machine each time.
            page.basis = basis
            return page
        empty = Ledger.of(facts, {})
        page = self._pages[node.name] = _Page(basis, empty, empty, -1)
        return page


def _may_have_settings(node: NodeInfo) -> bool:
    """Tell, without a ledger, whether *node* may have some of those."""
    if any(node.labels.get(key) for key in _LABELS):
        return True
    return keys.NODE_AMPLIFICATION in node.node.metadata.annotations


def _ledger(page: _Page, node: NodeInfo) -> Ledger:
    """Return the ledger of the pods on *node*, made from the one before where that is less work."""
    held = allotments_on(node)
    before = page.ledger.allotments
    if held == before:
        return page.ledger
    added = [uid for uid in held if uid not in before]
    kept = len(held) - len(added) == len(before)
    if kept and len(added) == 1 and all(held[uid] == one for uid, one in before.items()):
        return page.ledger.with_pod(added[0], held[added[0]])
    return Ledger(page.empty.capacity, MappingProxyType(held))


def allotments_on(node: NodeInfo) -> dict[str, Allotment]:
    """Return what the pods on *node* hold by a scheduler's decision, by uid."""
    held: dict[str, Allotment] = {}
    for uid, pod in node.pods.items():
        allotment = held_by(pod)
        if allotment is not None:
            held[uid] = allotment
    return held
