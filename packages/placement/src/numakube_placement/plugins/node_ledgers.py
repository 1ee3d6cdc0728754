"""The ledgers of all nodes, and what one of them says to one wish.

Nothing is booked here. A ledger is made from the pods on its node when it is asked for, and kept
until the node changes; nodes that are alike share a number (`NodeLedgers.codes`), so that a wish is
decided once for all of them. Copies of nodes, on which preemption tries things out, have ledgers
that follow from the pods of the copy.

An `NodeAnswer` tells by which rule a node decides, what it gives or why not, and how good that is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.koordinator import keys
from numakube.scheduling.framework.status import SUCCESS, unresolvable, unschedulable
from numakube.scheduling.snapshot.pods import held_by
from numakube.values.display import amount_text
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.safe_text import quoted
from numakube.values.topology_policy import TopologyScope
from numakube_placement.koordinator.annotation_values import Arbiter
from numakube_placement.koordinator.node_facts import amplified
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_on_node import admit, rate
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why, rule_for
from numakube_placement.koordinator.read_node import facts_of

if TYPE_CHECKING:
    from collections.abc import Hashable

    import numpy.typing as npt

    from numakube.api.koordinator.devices import DeviceCr
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cycle_state import Agrees
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
    from numakube.scheduling.snapshot.node_columns import NodeColumn
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.topology.allotments import Allotment
    from numakube.topology.topology_view import NodeTopology
    from numakube.values.resources import Amounts
    from numakube_placement.koordinator.annotation_values import Strategy
    from numakube_placement.koordinator.node_facts import NodeFacts
    from numakube_placement.koordinator.placement_rule import PlacementRule
    from numakube_placement.koordinator.pod_wish import PodWish


@dataclass(frozen=True, slots=True)
class NodeQuestion:
    """A node as far as it decides.

    Attributes:
        cpu_allocatable: of the node as a whole, and what its pods ask for; both 0 where nothing
            depends on it, so that nodes which differ in it alone are alike.
    """

    ledger: NodeLedger
    cpu_allocatable: int = 0
    cpu_requested: int = 0

    @classmethod
    def of(cls, ledger: NodeLedger, node: NodeInfo) -> NodeQuestion:
        """Return the case of *node*, who holds what of which is *ledger*."""
        if ledger.capacity.ratio(CPU) <= 1:
            return cls(ledger)
        return cls(ledger, node.allocatable.get(CPU, 0), node.requested.get(CPU, 0))

    @property
    def key(self) -> Hashable:
        """What cases have in common that give equal answers to every wish."""
        facts = self.ledger.facts
        return (
            self.ledger.key, facts.kubelet_policy, facts.kubelet_scope, facts.label_policy,
            facts.label_scope, facts.bind_policy, facts.binds_all, facts.strategy,
            self.cpu_allocatable, self.cpu_requested,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeAnswer:
    """The answer.

    Attributes:
        rule: ``None`` if the wish and the node contradict each other.
        allotment: what the pod gets; ``None`` if it is refused, or if no one or the kubelet decides
            where on the node it runs.
        score: how good the allotment is, from 0 to 100.
    """

    rule: PlacementRule | None = None
    allotment: Allotment | None = None
    refusal: PlacementRefusal | None = None
    score: int = 0

    @property
    def status(self) -> Status:
        """The answer as filters give it; texts are equal for equal kinds of refusals."""
        if self.refusal is None:
            return SUCCESS
        return status_of(self.refusal)


def decide(
    case: NodeQuestion,
    wish: PodWish,
    *,
    strategy: Strategy,
    scope: TopologyScope = TopologyScope.POD,
    agrees: Agrees | None = None,
) -> NodeAnswer:
    """Return what a node says to *wish*; with *agrees*, on NUMA nodes that have devices as well."""
    ledger = case.ledger
    rule = rule_for(wish, ledger.facts, default_strategy=strategy, default_scope=scope)
    if isinstance(rule, PlacementRefusal):
        return NodeAnswer(refusal=rule)
    if rule.arbiter is not Arbiter.SCHEDULER:
        return NodeAnswer(rule=rule, refusal=_too_amplified(case, wish, 0))
    answer = admit(ledger, wish, rule, agrees)
    if isinstance(answer, PlacementRefusal):
        return NodeAnswer(rule=rule, refusal=answer)
    refusal = _too_amplified(case, wish, answer.total.cpus.bit_count() * MILLI_PER_CPU)
    if refusal is not None:
        return NodeAnswer(rule=rule, refusal=refusal)
    return NodeAnswer(rule=rule, allotment=answer, score=rate(ledger, answer, rule))


def _too_amplified(case: NodeQuestion, wish: PodWish, bound: int) -> PlacementRefusal | None:
    """Return a refusal if bound CPUs, which count amplified, leave the node too little CPU.

    A node that is amplified says that it has more CPU than it has. A pod with bound CPUs takes real
    ones, so each counts for as much as the node makes of it; the plugin that adds up plain requests
    does not know that.
    """
    ratio = case.ledger.capacity.ratio(CPU)
    if ratio <= 1 or not wish.requests.get(CPU):
        return None
    held = case.ledger.usage.cpus.bit_count() * MILLI_PER_CPU
    taken = case.cpu_requested
    if taken >= held:
        taken += amplified(held, ratio) - held
    wanted = wish.requests[CPU] - bound + amplified(bound, ratio)
    free = max(0, case.cpu_allocatable - taken)
    if wanted <= free:
        return None
    detail = f"{amount_text(CPU, wanted)} wanted of {amount_text(CPU, free)}, amplified by {ratio}"
    return PlacementRefusal(why=Why.AMPLIFIED_CPU, resource=CPU, detail=detail)


def status_of(refusal: PlacementRefusal) -> Status:
    """Return *refusal* as filters give it."""
    refuse = unresolvable if refusal.why.lasting else unschedulable
    status = refuse(reason_of(refusal), detail=refusal)
    if refusal.why is not Why.UNALIGNED:
        return status
    return replace(status, cause=quoted(refusal.detail))


def reason_of(refusal: PlacementRefusal) -> str:
    """Return the short text for events, equal on all nodes that refuse for the same reason."""
    if refusal.why is Why.UNSATISFIED and refusal.resource:
        return f"Unsatisfied NUMA {refusal.resource}"
    return refusal.why.value


_MARKS: Final = "koordinator-settings"
_LABELS: Final = (keys.NODE_POLICY, keys.NODE_BIND_POLICY)
_FIRST_CAPACITY: Final = 64
_MOST_CODES: Final = 1 << 15
"""Kinds of nodes to tell apart before all are numbered again."""


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
class _LedgerPage:
    """What is kept of one node.

    Attributes:
        empty: the ledger of the node without pods.
        generation: of the node when `ledger` was made.
    """

    basis: _Basis
    empty: NodeLedger
    ledger: NodeLedger
    generation: int


class NodeLedgers:
    """The ledgers of a cluster's nodes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pages: dict[str, _LedgerPage] = {}
        self._stamps: list[int] = []
        self._codes: npt.NDArray[np.int32] = np.zeros(_FIRST_CAPACITY, dtype=np.int32)
        self._code_of: dict[Hashable, int] = {}

    def facts(self, node: NodeInfo) -> NodeFacts:
        """Return what is known of *node*, whatever pods are on it."""
        return self._page(node).empty.facts

    def of(self, node: NodeInfo) -> NodeLedger:
        """Return who holds what of *node*, which may be a copy with other pods."""
        page = self._page(node)
        if self._cluster.node(node.name) is not node:
            return _ledger(page, node)
        if page.generation != node.generation:
            page.ledger, page.generation = _ledger(page, node), node.generation
        return page.ledger

    def case(self, node: NodeInfo) -> NodeQuestion:
        """Return *node* as far as it decides."""
        return NodeQuestion.of(self.of(node), node)

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

    def marks(self, snapshot: Snapshot) -> NodeColumn[bool]:
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

    def _page(self, node: NodeInfo) -> _LedgerPage:
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
        empty = NodeLedger.of(facts, {})
        page = self._pages[node.name] = _LedgerPage(basis, empty, empty, -1)
        return page


def _may_have_settings(node: NodeInfo) -> bool:
    """Tell, without a ledger, whether *node* may have some of those."""
    if any(node.labels.get(key) for key in _LABELS):
        return True
    return keys.NODE_AMPLIFICATION in node.node.metadata.annotations


def _ledger(page: _LedgerPage, node: NodeInfo) -> NodeLedger:
    """Return the ledger of the pods on *node*, made from the one before where that is less work."""
    held = allotments_on(node)
    before = page.ledger.allotments
    if held == before:
        return page.ledger
    added = [uid for uid in held if uid not in before]
    kept = len(held) - len(added) == len(before)
    if kept and len(added) == 1 and all(held[uid] == one for uid, one in before.items()):
        return page.ledger.with_pod(added[0], held[added[0]])
    return NodeLedger(page.empty.capacity, MappingProxyType(held))


def allotments_on(node: NodeInfo) -> dict[str, Allotment]:
    """Return what the pods on *node* hold by a scheduler's decision, by uid."""
    held: dict[str, Allotment] = {}
    for uid, pod in node.pods.items():
        allotment = held_by(pod)
        if allotment is not None:
            held[uid] = allotment
    return held
