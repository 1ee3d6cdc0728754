"""Who decides where on a node a pod runs, by which rule, and what the scheduler says if it does."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.codec import decode_tree
from numakube.api.koordinator import keys
from numakube.errors import MalformedObject
from numakube.insight.explain import PluginPlacement
from numakube.insight.explain.explanation_document import Change, Holder
from numakube.insight.planned_pods import text_of
from numakube.values.cpuset import CpuSet
from numakube.values.resources import CPU, MILLI_PER_CPU
from numakube.values.topology_policy import TopologyPolicy, TopologyScope
from numakube_placement.koordinator.annotation_values import Arbiter
from numakube_placement.koordinator.placement_rule import PlacementRefusal, Why
from numakube_placement.plugins.node_numa_resource import NodeNUMAResource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.api.pod import Pod
    from numakube.scheduling.framework.plugins import Plugin
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.values.resources import Amounts
    from numakube_placement.koordinator.node_ledger import NodeLedger
    from numakube_placement.koordinator.placement_rule import PlacementRule
    from numakube_placement.koordinator.pod_wish import PodWish
    from numakube_placement.plugins.node_ledgers import NodeAnswer

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
_BEST_EFFORT: Final = TopologyPolicy.BEST_EFFORT.api_name
_SCOPE: Final = "numaTopologyScope"
_POLICY: Final = "numaTopologyPolicy"
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


def meaning_of_refusal(refusal: PlacementRefusal) -> str:
    """Say what a refusal means, for readers who do not know the plugin."""
    return _MEANINGS[refusal.why]


class NodeNUMAResourceExplainer:
    """What `numakube explain` finds by its entry point."""

    def asks(self, plugin: Plugin, pod: PodInfo) -> bool:
        """Tell whether *pod* asks for alignment or CPUs by annotations and labels of its own."""
        if not isinstance(plugin, NodeNUMAResource):
            return False
        wish = plugin.wish_of(pod)
        return wish.policy.aligns or wish.cpus.bound

    def placement(self, plugin: Plugin, pod: PodInfo, node: NodeInfo) -> PluginPlacement | None:
        """Return what is to be said of *node*; ``None`` if nothing was asked for there."""
        if not isinstance(plugin, NodeNUMAResource):
            return None
        return _placement(plugin, pod, node)

    def meaning(self, status: Status) -> str:
        """Say what a refusal means, for readers who do not know the plugin."""
        refusal = status.detail
        return meaning_of_refusal(refusal) if isinstance(refusal, PlacementRefusal) else ""

    def changes(self, pod: Pod, fits: Callable[[Pod], str | None]) -> Iterator[Change]:
        """Yield what of the pod's own annotation could be changed so that it fits."""
        spec = _spec_of(pod)
        if spec is None:
            return
        wishes = _Wishes(pod, spec, fits)
        several = len(pod.spec.containers) + len(pod.spec.init_containers) > 1
        if several and spec.get(_SCOPE) != TopologyScope.CONTAINER:
            yield from wishes.tried("numa-scope", _SCOPE, TopologyScope.CONTAINER)
        if spec.get(_POLICY) not in (None, "", _BEST_EFFORT):
            yield from wishes.tried("numa-policy", _POLICY, _BEST_EFFORT)


EXPLAINER: Final = NodeNUMAResourceExplainer()


@dataclass(frozen=True, slots=True)
class _Wishes:
    """Other wishes than those of a pod's annotation, *spec*, that are tried out."""

    pod: Pod
    spec: dict[str, Any]
    fits: Callable[[Pod], str | None]

    def tried(self, kind: str, field: str, word: str) -> Iterator[Change]:
        """Yield the change of *field* to *word* if the pod fits with it."""
        node = self.fits(_with_wish(self.pod, {**self.spec, field: str(word)}))
        if node is not None:
            key, was = keys.NUMA_TOPOLOGY_SPEC, str(self.spec.get(field, ""))
            text = f"Set {field}: {word} in the annotation {key}: fits on {node}."
            yield Change(kind=kind, text=text, node=node, resource=field, was=was, to=str(word))


def _spec_of(pod: Pod) -> dict[str, Any] | None:
    """Return what stands in the pod's annotation; ``None`` if it has none that can be read."""
    text = pod.metadata.annotations.get(keys.NUMA_TOPOLOGY_SPEC)
    try:
        tree = decode_tree(text, keys.NUMA_TOPOLOGY_SPEC) if text else None
    except MalformedObject:
        return None
    return tree if isinstance(tree, dict) else None


def _with_wish(pod: Pod, spec: dict[str, Any]) -> Pod:
    """Return *pod* with another annotation."""
    text = msgspec.json.encode(spec).decode()
    annotations = {**pod.metadata.annotations, keys.NUMA_TOPOLOGY_SPEC: text}
    metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
    return msgspec.structs.replace(pod, metadata=metadata)


def _placement(plugin: NodeNUMAResource, pod: PodInfo, node: NodeInfo) -> PluginPlacement | None:
    wish, ledger, outcome = plugin.wish_of(pod), plugin.ledgers.of(node), plugin.outcome(pod, node)
    rule, facts = outcome.rule, ledger.facts
    silent = rule is not None and rule.arbiter is not Arbiter.SCHEDULER and not wish.policy.aligns
    if silent and outcome.refusal is None:
        return None
    ours = rule is not None and rule.arbiter is Arbiter.SCHEDULER
    arbiter = rule.arbiter if rule is not None else _arbiter(facts.kubelet_policy)
    return PluginPlacement(
        decided_by=str(arbiter),
        policy=_policy_text(rule) if rule is not None and ours else "",
        scope=str(rule.scope) if rule is not None and ours else "",
        free=ledger.free_zones if ours else {},
        totals=ledger.capacity.totals if ours else {},
        holders=tuple(_holders(node, ledger)) if ours else (),
        words=tuple(_words(wish, ledger, outcome, arbiter)),
    )


def _holders(node: NodeInfo, ledger: NodeLedger) -> Iterator[Holder]:
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


def _policy_text(rule: PlacementRule) -> str:
    return rule.policy.api_name if rule.policy.aligns else ""


def _arbiter(kubelet_policy: TopologyPolicy) -> Arbiter:
    return Arbiter.KUBELET if kubelet_policy.aligns else Arbiter.NOBODY


def _words(
    wish: PodWish, ledger: NodeLedger, outcome: NodeAnswer, arbiter: Arbiter
) -> Iterator[str]:
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


def _rule(rule: PlacementRule) -> str:
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
    for container in wish.containers:
        if container.ignored_under(scope):
            why = f": {container.why_ignored}" if container.why_ignored else ""
            yield f"container {container.name} is not aligned{why}."
    for name in sorted(wish.ignored_resources):
        yield f"{name} is not aligned: ignoredResources."


def _left(ledger: NodeLedger, *, binds: bool) -> Iterator[str]:
    if not binds or ledger.facts.cpus is None:
        return
    for zone, cpus in ledger.capacity.cpus_of_zone.items():
        free = ledger.free_cpus & cpus
        listed = str(CpuSet(free)) if free else "none"
        yield f"zone {zone}: CPUs that can still be bound: {listed}."


def _verdict(refusal: PlacementRefusal) -> str:
    who = f"container {refusal.container}" if refusal.container else "the pod as a whole"
    about = f", {refusal.resource}" if refusal.resource else ""
    detail = f": {refusal.detail}" if refusal.detail else ""
    return f"Refused for {who}{about}: {_MEANINGS[refusal.why]}"[:-1] + f"{detail}."
