"""What the pods of each namespace hold for themselves, and what is stranded because of it.

A free amount is stranded because a zone lacks another resource that has to go with it
(`numakube.insight.usage.stranded_amounts`). Whoever holds that other resource in the zone strands
it, in proportion to what they hold; what no pod holds for itself (reserved for the system, used by
pods that share) strands its part for nobody. So all parts together are what is stranded.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from numakube.insight.scheduler_holdings import given_holding
from numakube.insight.usage.pod_alignment import Alignment, pod_usages
from numakube.insight.usage.stranded_amounts import LEAN, proportion
from numakube.insight.usage.zone_usage import node_usage
from numakube.scheduling.numa.caches.counts_belief import use_in_report
from numakube.topology.topology_view import NodeTopology
from numakube.values.resources import CPU, MEMORY

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.insight.facts import ClusterFacts
    from numakube.insight.usage.pod_alignment import PodUsage
    from numakube.insight.usage.zone_usage import ZoneUsage

NOBODY: Final = ""
"""The namespace of what no pod holds for itself."""

Held = dict[int, dict[str, Counter[str]]]
"""By zone and resource, how much each namespace holds."""


@dataclass(slots=True, kw_only=True)
class NamespaceUsage:
    """One namespace.

    Attributes:
        namespace: its name; empty for what is stranded by nobody's pods.
        pods: how many pods it has on the nodes.
        cpus: those that its pods have for themselves.
        memory: bytes by kind; so are ``devices`` counts by resource.
        aligned: pods with all they have for themselves in one zone; ``spread`` over several.
        unknown: pods of which nobody reports what they hold.
        strands: what is free and unusable because of what its pods hold.
    """

    namespace: str
    pods: int = 0
    cpus: int = 0
    memory: Counter[str] = field(default_factory=Counter)
    devices: Counter[str] = field(default_factory=Counter)
    aligned: int = 0
    spread: int = 0
    unknown: int = 0
    strands: Counter[str] = field(default_factory=Counter)

    def add(self, pod: PodUsage) -> None:
        """Count a pod of the namespace."""
        self.pods += 1
        self.cpus += len(pod.cpus)
        self.memory.update(pod.memory)
        self.devices.update(pod.devices)
        self.aligned += pod.alignment is Alignment.ALIGNED
        self.spread += pod.alignment is Alignment.SPREAD
        self.unknown += pod.alignment is Alignment.UNKNOWN


def namespace_usages(facts: ClusterFacts, nodes: Iterable[str]) -> list[NamespaceUsage]:
    """Return the usage of each namespace with pods on *nodes*, by name; `NOBODY` comes last."""
    found: dict[str, NamespaceUsage] = {}
    for node in nodes:
        for pod in pod_usages(facts, facts.pods_on(node)):
            found.setdefault(pod.namespace, NamespaceUsage(namespace=pod.namespace)).add(pod)
        for namespace, amounts in _stranded_on(facts, node).items():
            found.setdefault(namespace, NamespaceUsage(namespace=namespace))
            found[namespace].strands.update(amounts)
    return sorted(found.values(), key=lambda usage: (usage.namespace == NOBODY, usage.namespace))


def _stranded_on(facts: ClusterFacts, node: str) -> dict[str, Counter[str]]:
    """Return by namespace what is stranded on *node* because of its pods."""
    _, zones = node_usage(facts, node)
    found: dict[str, Counter[str]] = defaultdict(Counter)
    if not any(zone.stranded for zone in zones):
        return found
    held = _held_on(facts, node)
    for zone in zones:
        for resource, amount in zone.stranded.items():
            lacking = _lacking(zone, resource)
            weights = dict(held.get(zone.zone, {}).get(lacking, {}))
            weights[NOBODY] = max(0, zone.used.get(lacking, 0) - sum(weights.values()))
            for namespace, part in _parts(amount, weights).items():
                found[namespace][resource] += part
    return found


def _held_on(facts: ClusterFacts, node: str) -> Held:
    held: Held = defaultdict(lambda: defaultdict(Counter))
    view = facts.view(node)
    report = view.report if isinstance(view, NodeTopology) else None
    if report is None:
        return held
    for pod in facts.pods_on(node):
        holding = report.holding(pod.metadata.uid)
        if holding is None or holding.empty:
            holding = given_holding(facts, pod) or holding
        if holding is None:
            continue
        for zones, amounts in use_in_report(report, holding).items():
            for zone in zones:
                for resource, amount in amounts.items():
                    held[zone][resource][pod.metadata.namespace] += amount // len(zones)
    return held


def _lacking(zone: ZoneUsage, stranded: str) -> str:
    """Return which resource the zone would need more of, so that less of *stranded* were."""
    ratio = proportion(zone.allocatable)
    memory_is_short = bool(ratio) and zone.free.get(MEMORY, 0) * LEAN // ratio < zone.cpus
    return MEMORY if stranded != MEMORY and memory_is_short else CPU


def _parts(amount: int, weights: Mapping[str, int]) -> dict[str, int]:
    """Divide *amount* in proportion to *weights*; the largest remainders get what is left."""
    total = sum(weights.values())
    if not total:
        return {NOBODY: amount}
    parts = {name: amount * weight // total for name, weight in weights.items()}
    remainders = sorted(weights, key=lambda name: (-(amount * weights[name] % total), name))
    for name in remainders[: amount - sum(parts.values())]:
        parts[name] += 1
    return {name: part for name, part in parts.items() if part}
