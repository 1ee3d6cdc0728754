"""Could pods that wait ever be aligned, on any node, were it empty? And do they fit already?

For the first question everything is counted against what zones may give out, not against what they
have left: a pod that does not fit then waits for a larger machine, not for others to end. Only
sizes are looked at; selectors and taints can make it worse, never better. The second question is
asked of pods that a scheduler has refused, and that have waited for long.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from numakube.api.pod import has_ended
from numakube.api.pod_resources import effective_requests
from numakube.insight.doctor.findings import Finding, FindingSubject, Rule, Severity, maker_of
from numakube.insight.how_many_fit import place
from numakube.insight.known_schedulers import numa_schedulers, was_looked_at
from numakube.insight.near_names import device_hint
from numakube.insight.object_ages import pod_age
from numakube.insight.scheduler_engine import engine_of
from numakube.insight.unknown_zones import why_unknown
from numakube.scheduling.numa.caches.counts_belief import claim_on
from numakube.scheduling.plugins.pod_gangs import gang_key
from numakube.scheduling.snapshot.pod_equivalence import scheduling_key
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology.topology_view import NodeTopology
from numakube.values.display import amount_text
from numakube.values.resources import (
    Amounts,
    amounts_of,
    is_extended,
    shortfalls,
)
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts

TOO_BIG: Final = Rule(
    id="NUMA-POD-TOO-BIG",
    severity=Severity.ERROR,
    title="Pods ask for more than any zone of any node has",
    why=(
        "With the policy single-numa-node a kubelet rejects them even on an empty machine; they"
        " wait forever, or fail again and again."
    ),
    fix=(
        "# ask for less per container; or use nodes with the policy restricted, which takes as\n"
        "# many zones as needed; this finds the smallest change:\n"
        "kubectl numa explain pod POD -n NAMESPACE"
    ),
)
NO_NODE: Final = Rule(
    id="NUMA-POD-NO-NODE",
    severity=Severity.ERROR,
    title="Pods ask for more than any node has",
    why="They wait forever, whatever the zones.",
    fix="# ask for less, or add larger nodes",
)
NO_DEVICE: Final = Rule(
    id="NUMA-POD-NO-DEVICE",
    severity=Severity.ERROR,
    title="Pods ask for a device that no node has",
    why="They wait forever: the name is wrong, or no device plugin has registered it.",
    fix="kubectl get nodes -o custom-columns=NAME:.metadata.name,HAS:.status.allocatable",
)

FITS: Final = Rule(
    id="NUMA-POD-FITS",
    severity=Severity.WARNING,
    title="Pods wait for long that fit on a node",
    why="Their scheduler is down or stuck, or has just got room for them: look again in a minute.",
    fix="kubectl numa debug queue   # is the scheduler there, and what do the pods wait for?",
)

RULES: Final = (TOO_BIG, NO_NODE, NO_DEVICE, FITS)
_LONG_SECONDS: Final = 300
_MOST_TRIED: Final = 20
"""Kinds of pods that are tried on the whole cluster."""


@dataclass(frozen=True, slots=True)
class _Kind:
    """Nodes that are alike in size and policy; the name of one of them."""

    example: str
    offers: Amounts
    view: NodeTopology | None


def check_fit(facts: ClusterFacts) -> Iterator[Finding]:
    """Try every kind of waiting pod on every kind of node."""
    waiting = [pod for pod in facts.pods if not pod.spec.node_name and not has_ended(pod)]
    if not waiting or not facts.nodes:
        return
    kinds, schedulers = _kinds(facts), numa_schedulers(facts)
    seen: set[bytes] = set()
    for pod in waiting:
        info = PodInfo(pod)
        shape = scheduling_key(info)
        if shape not in seen:
            seen.add(shape)
            yield from _fit(info, kinds, of_numa=pod.spec.scheduler_name in schedulers)


def check_placeable(facts: ClusterFacts) -> Iterator[Finding]:
    """Try the pods of our schedulers that have waited for long, by the scheduler's own rules.

    Gangs have a check of their own. Of pods whose zones nobody knows, nobody can say that they fit.
    """
    schedulers = numa_schedulers(facts)
    kinds: dict[bytes, Pod] = {}
    for pod in facts.pods:
        if pod.spec.scheduler_name in schedulers and _waits_long(facts, pod):
            kinds.setdefault(scheduling_key(PodInfo(pod)), pod)
    if not kinds:
        return
    engine = engine_of(facts)
    for pod in islice(kinds.values(), _MOST_TRIED):
        nodes = place(engine, [pod]).nodes
        if nodes and not why_unknown(facts, pod, nodes):
            yield _about(FITS, pod, f"fits on {nodes[0]}, and has no node", field="spec.nodeName")


def _waits_long(facts: ClusterFacts, pod: Pod) -> bool:
    if pod.spec.node_name or has_ended(pod) or pod.metadata.deletion_timestamp is not None:
        return False
    held = pod.spec.scheduling_gates or gang_key(PodInfo(pod)) is not None
    if held or not was_looked_at(pod):
        return False
    age = pod_age(facts, pod)
    return age is not None and age > _LONG_SECONDS


def _kinds(facts: ClusterFacts) -> list[_Kind]:
    found: dict[object, _Kind] = {}
    for name, node in facts.nodes.items():
        view = facts.view(name)
        known = view if isinstance(view, NodeTopology) else None
        offers = amounts_of(node.status.allocatable)
        sizes = known and tuple(tuple(sorted(z.allocatable.items())) for z in known.zones)
        policies = known and (
            known.policy, known.scope, known.cpu_manager_policy, known.memory_manager_policy,
        )  # fmt: skip
        found.setdefault(
            (tuple(sorted(offers.items())), sizes, policies), _Kind(name, offers, known)
        )
    return list(found.values())


def _fit(pod: PodInfo, kinds: list[_Kind], *, of_numa: bool) -> Iterator[Finding]:
    wanted = amounts_of({n: str(q) for n, q in effective_requests(pod.pod).items()})
    absent = [
        name
        for name, amount in wanted.items()
        if amount and is_extended(name) and not any(kind.offers.get(name) for kind in kinds)
    ]
    if absent:
        yield from (_no_device(pod.pod, name, kinds) for name in absent)
        return
    large_enough = [kind for kind in kinds if not shortfalls(wanted, kind.offers)]
    if not large_enough:
        if of_numa:
            yield _no_node(pod.pod, wanted, kinds)
        return
    if not any(_zones_hold(pod, kind) for kind in large_enough):
        yield _too_big(pod, kinds)


def _zones_hold(pod: PodInfo, kind: _Kind) -> bool:
    """Tell whether the empty zones of *kind* could take *pod*; yes if nothing is known of them."""
    if kind.view is None or kind.view.policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        return True
    return all(
        any(not shortfalls(part, zone.allocatable) for zone in kind.view.zones)
        for part in _parts(pod, kind.view)
    )


def _parts(pod: PodInfo, view: NodeTopology) -> tuple[Amounts, ...]:
    """Return what has to be in one zone each: containers, or the pod as a whole."""
    claim = claim_on(pod, view)
    return (claim.whole,) if view.scope == "pod" else (*claim.starting, *claim.running)


def _too_big(pod: PodInfo, kinds: list[_Kind]) -> Finding:
    detail = "no zone has everything that it asks for"
    for kind in kinds:
        view = kind.view
        for part in _parts(pod, view) if view is not None else ():
            for name, amount in part.items():
                best = max((_largest_zone(one, name) for one in kinds), default=0)
                if amount > best:
                    detail = (
                        f"asks for {amount_text(name, amount)} {name} in one zone; the largest zone"
                        f" of any node has {amount_text(name, best)}"
                    )
                    return _about(TOO_BIG, pod.pod, detail)
    return _about(TOO_BIG, pod.pod, detail)


def _largest_zone(kind: _Kind, resource: str) -> int:
    zones = kind.view.zones if kind.view is not None else ()
    return max((zone.allocatable.get(resource, 0) for zone in zones), default=0)


def _no_node(pod: Pod, wanted: Amounts, kinds: list[_Kind]) -> Finding:
    detail = "no node has everything that it asks for"
    for name, amount in wanted.items():
        best = max(kind.offers.get(name, 0) for kind in kinds)
        if amount > best:
            detail = (
                f"asks for {amount_text(name, amount)} {name};"
                f" the largest node has {amount_text(name, best)}"
            )
            break
    return _about(NO_NODE, pod, detail)


def _no_device(pod: Pod, resource: str, kinds: list[_Kind]) -> Finding:
    offered = {name for kind in kinds for name in kind.offers}
    return _about(NO_DEVICE, pod, f"asks for {resource}; {device_hint(resource, offered)}")


def _about(
    rule: Rule, pod: Pod, detail: str, *, field: str = "spec.containers[].resources"
) -> Finding:
    maker = maker_of(pod)
    subject = FindingSubject(maker.kind, maker.name, maker.namespace, field)
    fix = rule.fix_for(POD=pod.metadata.name, NAMESPACE=pod.metadata.namespace)
    return Finding(rule=rule, subject=subject, detail=detail, fix=fix)


CHECKS: Final = (check_fit, check_placeable)
