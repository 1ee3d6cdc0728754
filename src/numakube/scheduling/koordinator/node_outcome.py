"""What one node says to one wish: by which rule, what it gives or why not, and how good that is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from numakube.koordinator.annotation_values import Arbiter
from numakube.koordinator.node.node_capacity import amplified
from numakube.koordinator.placement_on_node import admit, rate
from numakube.koordinator.placement_refusals import Refusal, Why
from numakube.koordinator.placement_rule import rule_for
from numakube.scheduling.framework.status import SUCCESS, unresolvable, unschedulable
from numakube.values.display import amount_text
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.safe_text import quoted
from numakube.values.topology_policy import TopologyScope

if TYPE_CHECKING:
    from collections.abc import Hashable

    from numakube.koordinator.annotation_values import Strategy
    from numakube.koordinator.ledger.holdings import Allotment
    from numakube.koordinator.ledger.node_ledger import Ledger
    from numakube.koordinator.placement_rule import Rule
    from numakube.koordinator.wish.pod_wish import PodWish
    from numakube.scheduling.framework.joint_allotment import Agrees
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.nodes import NodeInfo


@dataclass(frozen=True, slots=True)
class Case:
    """A node as far as it decides.

    Attributes:
        cpu_allocatable: of the node as a whole, and what its pods ask for; both 0 where nothing
            depends on it, so that nodes which differ in it alone are alike.
    """

    ledger: Ledger
    cpu_allocatable: int = 0
    cpu_requested: int = 0

    @classmethod
    def of(cls, ledger: Ledger, node: NodeInfo) -> Case:
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
class Outcome:
    """The answer.

    Attributes:
        rule: ``None`` if the wish and the node contradict each other.
        allotment: what the pod gets; ``None`` if it is refused, or if no one or the kubelet decides
            where on the node it runs.
        score: how good the allotment is, from 0 to 100.
    """

    rule: Rule | None = None
    allotment: Allotment | None = None
    refusal: Refusal | None = None
    score: int = 0

    @property
    def status(self) -> Status:
        """The answer as filters give it; texts are equal for equal kinds of refusals."""
        if self.refusal is None:
            return SUCCESS
        return status_of(self.refusal)


def decide(
    case: Case,
    wish: PodWish,
    *,
    strategy: Strategy,
    scope: TopologyScope = TopologyScope.POD,
    agrees: Agrees | None = None,
) -> Outcome:
    """Return what a node says to *wish*; with *agrees*, on NUMA nodes that have devices as well."""
    ledger = case.ledger
    rule = rule_for(wish, ledger.facts, default_strategy=strategy, default_scope=scope)
    if isinstance(rule, Refusal):
        return Outcome(refusal=rule)
    if rule.arbiter is not Arbiter.SCHEDULER:
        return Outcome(rule=rule, refusal=_too_amplified(case, wish, 0))
    answer = admit(ledger, wish, rule, agrees)
    if isinstance(answer, Refusal):
        return Outcome(rule=rule, refusal=answer)
    refusal = _too_amplified(case, wish, answer.total.cpus.bit_count() * MILLI_PER_CPU)
    if refusal is not None:
        return Outcome(rule=rule, refusal=refusal)
    return Outcome(rule=rule, allotment=answer, score=rate(ledger, answer, rule))


def _too_amplified(case: Case, wish: PodWish, bound: int) -> Refusal | None:
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
    return Refusal(why=Why.AMPLIFIED_CPU, resource=CPU, detail=detail)


def status_of(refusal: Refusal) -> Status:
    """Return *refusal* as filters give it."""
    refuse = unresolvable if refusal.why.lasting else unschedulable
    status = refuse(reason_of(refusal), detail=refusal)
    if refusal.why is not Why.UNALIGNED:
        return status
    return replace(status, cause=quoted(refusal.detail))


def reason_of(refusal: Refusal) -> str:
    """Return the short text for events, equal on all nodes that refuse for the same reason."""
    if refusal.why is Why.UNSATISFIED and refusal.resource:
        return f"Unsatisfied NUMA {refusal.resource}"
    return refusal.why.value
