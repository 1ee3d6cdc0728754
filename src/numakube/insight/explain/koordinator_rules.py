"""Who decides where on a node a pod runs, by which rule, and what the scheduler says if it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.insight.explain.container_amounts import text_of
from numakube.insight.explain.explanation_document import Holder
from numakube.koordinator.annotation_values import Arbiter
from numakube.koordinator.placement_refusals import Refusal, Why
from numakube.scheduling.koordinator.node_numa_resource import NodeNUMAResource
from numakube.values.cpuset import CpuSet
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.koordinator.ledger.node_ledger import Ledger
    from numakube.koordinator.placement_rule import Rule
    from numakube.koordinator.wish.pod_wish import PodWish
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.koordinator.node_outcome import Outcome
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.values.resources import Amounts

_MEANINGS: Final = {
    Why.BAD_WISH: "No node takes a pod whose annotations or requests contradict themselves.",
    Why.POLICY_CONFLICT: "The pod wants another NUMA policy than the label of the node.",
    Why.SCOPE_CONFLICT: "The pod wants another NUMA scope than the label of the node.",
    Why.KUBELET_POLICY: "Its kubelet aligns all pods by its own policy, whatever a pod wants.",
    Why.KUBELET_SCOPE: "Its kubelet aligns all pods by its own scope, whatever a pod wants.",
    Why.NO_ZONES: "Nothing is known of its NUMA nodes; an exporter or koordlet has to report them.",
    Why.NO_CPU_LAYOUT: "It is not known which CPUs it has, so none can be bound.",
    Why.NOT_WHOLE_CPUS: "CPUs are bound one by one; ask for a whole number of them.",
    Why.NOT_WHOLE_CORES: "Whole cores are wanted, and the CPUs do not fill their last core.",
    Why.BIND_CONFLICT: "The node binds CPUs in another way than the pod insists on.",
    Why.BAD_RATIO: "The annotation with its amplification ratio cannot be read.",
    Why.AMPLIFIED_CPU: "Bound CPUs count as many times as the node is amplified; that is too much.",
    Why.TOO_FEW_CPUS: "Too few CPUs are left that can be bound as the pod wants.",
    Why.ZONES_TOO_SMALL: "No set of NUMA nodes has enough left.",
    Why.UNSATISFIED: "Its NUMA nodes have too little of it left.",
    Why.UNALIGNED: "There is enough on the node, but not in one place.",
    Why.DEVICES: "Too few devices are left that are healthy and match.",
    Why.JOINT_DEVICES: "No place has all the devices that belong together.",
    Why.CLOSENESS: "The devices that are left are farther apart than the pod allows.",
    Why.PARTITIONS: "No set of GPUs that can be linked is free and as good as the pod wants.",
    Why.NO_PARTITIONS: "GPUs must be given as a partition, and its Device lists none.",
    Why.PARTITION_SIZE: "It has no partition of that many GPUs.",
}
_SOURCES: Final = {
    "pod": "as the pod says",
    "node label": "by the label of the node",
    "kubelet": "by its kubelet",
    "default": "by default",
    "": "by default",
}
_BY_FEASIBILITY: Final = (
    "Restricted by feasibility: as few NUMA nodes as are possible now, and the same for everything."
)
_BY_CAPACITY: Final = (
    "Restricted by capacity: no more NUMA nodes than the kubelet would need on an idle machine."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerPlacement:
    """What NodeNUMAResource says of one node.

    Attributes:
        arbiter: who decides where on the node the pod runs.
        free: what each NUMA node has left by the scheduler's ledger; empty if it does not decide.
        totals: what each of them has for pods.
        holders: who holds what by that ledger.
        words: the rule and the verdict, sentence by sentence.
    """

    arbiter: Arbiter
    policy: str = ""
    scope: str = ""
    free: Mapping[int, Amounts]
    totals: Mapping[int, Amounts]
    holders: tuple[Holder, ...]
    words: tuple[str, ...]


def refusal_in(status: Status) -> Refusal | None:
    """Return the refusal of NodeNUMAResource that *status* carries."""
    return status.detail if isinstance(status.detail, Refusal) else None


def meaning_of_refusal(refusal: Refusal) -> str:
    """Say what a refusal means, for readers who do not know the plugin."""
    return _MEANINGS[refusal.why]


def asks_scheduler(runtime: Runtime, pod: PodInfo) -> bool:
    """Tell whether *pod* asks for alignment or CPUs by annotations and labels of its own."""
    plugin = runtime.profile.plugins().get(NodeNUMAResource.name)
    if not isinstance(plugin, NodeNUMAResource):
        return False
    wish = plugin.wish_of(pod)
    return wish.policy.aligns or wish.cpus.bound


def scheduler_placement(
    runtime: Runtime, pod: PodInfo, node: NodeInfo
) -> SchedulerPlacement | None:
    """Return what is to be said of *node*; ``None`` if nothing was asked for there."""
    plugin = runtime.profile.plugins().get(NodeNUMAResource.name)
    if not isinstance(plugin, NodeNUMAResource):
        return None
    wish, ledger, outcome = plugin.wish_of(pod), plugin.ledgers.of(node), plugin.outcome(pod, node)
    rule, facts = outcome.rule, ledger.facts
    silent = rule is not None and rule.arbiter is not Arbiter.SCHEDULER and not wish.policy.aligns
    if silent and outcome.refusal is None:
        return None
    ours = rule is not None and rule.arbiter is Arbiter.SCHEDULER
    arbiter = rule.arbiter if rule is not None else _arbiter(facts.kubelet_policy)
    return SchedulerPlacement(
        arbiter=arbiter,
        policy=_policy_text(rule) if rule is not None and ours else "",
        scope=str(rule.scope) if rule is not None and ours else "",
        free=ledger.free_zones if ours else {},
        totals=ledger.capacity.totals if ours else {},
        holders=tuple(_holders(node, ledger)) if ours else (),
        words=tuple(_words(wish, ledger, outcome, arbiter)),
    )


def _holders(node: NodeInfo, ledger: Ledger) -> Iterator[Holder]:
    """Yield what each pod holds by its annotations, the largest part of CPU first."""
    found = []
    for uid, held in ledger.allotments.items():
        pod = node.pods[uid]
        bound = held.total.cpus
        for zone, amounts in sorted(held.total.zones.items()):
            found.append((zone, -amounts.get(CPU, 0), _holder(pod, zone, amounts)))
        if bound and not held.total.zones:
            for zone, cpus in ledger.capacity.cpus_of_zone.items():
                if milli := (bound & cpus).bit_count() * MILLI_PER_CPU:
                    found.append((zone, -milli, _holder(pod, zone, {CPU: milli})))
    yield from (holder for _, _, holder in sorted(found, key=lambda one: one[:2]))


def _holder(pod: PodInfo, zone: int, amounts: Amounts) -> Holder:
    texts = {name: text_of(name, amount) for name, amount in amounts.items()}
    return Holder(pod=pod.key, priority=pod.priority, zones=(zone,), amounts=texts)


def _policy_text(rule: Rule) -> str:
    return rule.policy.api_name if rule.policy.aligns else ""


def _arbiter(kubelet_policy: TopologyPolicy) -> Arbiter:
    return Arbiter.KUBELET if kubelet_policy.aligns else Arbiter.NOBODY


def _words(wish: PodWish, ledger: Ledger, outcome: Outcome, arbiter: Arbiter) -> Iterator[str]:
    rule, facts = outcome.rule, ledger.facts
    if arbiter is Arbiter.KUBELET:
        policy, scope = facts.kubelet_policy, facts.kubelet_scope
        rule_text = f"policy {policy.api_name}, scope {scope}"
        yield f"The kubelet decides where on the node the pod runs: {rule_text}."
        if policy is TopologyPolicy.RESTRICTED:
            yield _BY_CAPACITY
    elif rule is not None and rule.arbiter is Arbiter.SCHEDULER:
        yield _rule(rule)
        if rule.policy is TopologyPolicy.RESTRICTED:
            yield _BY_FEASIBILITY
        yield from _ignored(wish, rule.scope)
        yield from _left(ledger, binds=bool(rule.bind))
    else:
        yield "The scheduler would decide where on the node it runs: its kubelet aligns nothing."
    if outcome.refusal is not None:
        yield _verdict(outcome.refusal)
    yield from (f"{problem}." for problem in facts.problems)


def _rule(rule: Rule) -> str:
    parts = []
    if rule.policy.aligns:
        parts.append(f"policy {rule.policy.api_name} {_SOURCES[rule.policy_from]}")
        parts.append(f"scope {rule.scope} {_SOURCES[rule.scope_from]}")
    if rule.exclusive:
        parts.append(f"NUMA nodes not shared with pods on several ({rule.exclusive})")
    if rule.bind:
        how = "must be" if rule.bind_required else "are"
        parts.append(f"CPUs {how} bound as {rule.bind}")
    parts.append(f"NUMA nodes in the order of {rule.strategy}")
    return f"The scheduler decides where on the node the pod runs: {'; '.join(parts)}."


def _ignored(wish: PodWish, scope: TopologyScope) -> Iterator[str]:
    for one in wish.containers:
        if one.ignored_under(scope):
            why = f": {one.why_ignored}" if one.why_ignored else ""
            yield f"container {one.name} is not aligned{why}."
    for name in sorted(wish.ignored_resources):
        yield f"{name} is not aligned: ignoredResources."


def _left(ledger: Ledger, *, binds: bool) -> Iterator[str]:
    if not binds or ledger.facts.cpus is None:
        return
    for zone, cpus in ledger.capacity.cpus_of_zone.items():
        free = ledger.free_cpus & cpus
        listed = str(CpuSet(free)) if free else "none"
        yield f"zone {zone}: CPUs that can still be bound: {listed}."


def _verdict(refusal: Refusal) -> str:
    who = f"container {refusal.container}" if refusal.container else "the pod as a whole"
    about = f", {refusal.resource}" if refusal.resource else ""
    detail = f": {refusal.detail}" if refusal.detail else ""
    return f"Refused for {who}{about}: {_MEANINGS[refusal.why]}"[:-1] + f"{detail}."
