"""One node in detail: what was asked, what each zone has, who holds the rest, how it is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.insight.explain.explanation_document import (
    Candidate,
    ContainerAsk,
    ResourceAsk,
    ZoneAmount,
)
from numakube.insight.explain.kubelet_steps import steps_of
from numakube.insight.explain.node_verdicts import alignment_refusal_in, counted_refusal, holders_on
from numakube.insight.explain.plugin_explainer import placement_by_plugin
from numakube.insight.planned_pods import all_containers, asked_by, text_of
from numakube.kubelet.pod_demand import DemandRules, demand_of
from numakube.topology.numa_zones import Unusable
from numakube.values.resources import CPU, is_memory
from numakube.values.topology_policy import TopologyScope

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.insight.explain.plugin_explainer import PluginPlacement
    from numakube.insight.explain.what_if import Bench
    from numakube.insight.facts import ClusterFacts
    from numakube.kubelet.pod_demand import PodDemand
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief
    from numakube.topology.topology_view import NodeTopology


def candidate(
    bench: Bench, facts: ClusterFacts, info: PodInfo, node: NodeInfo, refusal: Status | None
) -> Candidate:
    """Return everything that is to be said about *node*."""
    belief = node.numa
    topology = belief.topology if belief is not None else None
    placement = placement_by_plugin(bench.runtime, info, node)
    ours = placement is not None and placement.by_scheduler
    return Candidate(
        node=node.name,
        fits=refusal is None,
        plugin=refusal.plugin if refusal else "",
        reason=_reason(bench, info, node, refusal),
        data=_data(facts, node.name, belief),
        data_reason=_data_reason(facts, node.name),
        policy=placement.policy
        if placement and ours
        else topology.policy.value
        if topology
        else "",
        scope=placement.scope if placement and ours else topology.scope.value if topology else "",
        cpu_manager_policy=(topology.cpu_manager_policy or "") if topology else "",
        memory_manager_policy=(topology.memory_manager_policy or "") if topology else "",
        containers=tuple(
            _of_kubelet(
                _allotted(info, node, placement) if placement and ours else _asks(info, node),
                {name for name in info.requests if _is_claimed(bench, name, node)},
            )
        ),
        holders=placement.holders if placement and ours else holders_on(facts, node, but=info.uid),
        kept_for=tuple(
            f"{nomination.key} (priority {nomination.priority})"
            for nomination in bench.engine.nominations.before(info, node.name)
        ),
        steps=_steps(info.pod, belief),
        decided_by=placement.decided_by if placement else "",
        rules=placement.words if placement else (),
    )


def _is_claimed(bench: Bench, resource: str, node: NodeInfo) -> bool:
    """Tell whether *resource* comes by a claim on *node*, about which no kubelet is asked."""
    return not node.allocatable.get(resource) and bench.by_claims(resource)


def _of_kubelet(asks: Iterable[ContainerAsk], claimed: Collection[str]) -> Iterator[ContainerAsk]:
    """Yield *asks* without the resources that are *claimed*."""
    for ask in asks:
        resources = tuple(
            resource for resource in ask.resources if resource.resource not in claimed
        )
        if resources or not ask.container:
            yield msgspec.structs.replace(ask, resources=resources)


def _reason(bench: Bench, info: PodInfo, node: NodeInfo, refusal: Status | None) -> str:
    """Return the refusal with this node's own numbers."""
    if refusal is None:
        return ""
    counted = alignment_refusal_in(refusal) is not None
    own = counted_refusal(bench.runtime, info, node) if counted else None
    return own.message if own is not None else refusal.message


def _data(facts: ClusterFacts, name: str, belief: NumaBelief | None) -> str:
    if isinstance(facts.view(name), Unusable):
        return "unusable"
    if belief is None or belief.topology is None:
        return "none"
    if belief.blocked:
        return "stale"
    return "exact" if belief.model() is not None else "counts"


def _data_reason(facts: ClusterFacts, name: str) -> str:
    view = facts.view(name)
    if view is None or isinstance(view, Unusable):
        return view.reason if view is not None else ""
    if view.policy_unknown:
        return f"the policy is not known: {view.policy_unknown}"
    return view.why_inexact if view.overwritten else view.orphaned


def _steps(pod: Pod, belief: NumaBelief | None) -> tuple[str, ...]:
    model = belief.model() if belief is not None else None
    return () if model is None else steps_of(pod, model)


def _allotted(info: PodInfo, node: NodeInfo, placement: PluginPlacement) -> Iterator[ContainerAsk]:
    """Yield what is asked and what the scheduler's own ledger has."""
    per_pod = placement.scope != TopologyScope.CONTAINER
    whole = tuple(
        _of_node(name, wanted, node, _of_ledger(name, wanted, placement, told=per_pod))
        for name, wanted in info.requests.items()
        if wanted
    )
    yield ContainerAsk(container="", resources=whole)
    for container, role in () if per_pod else all_containers(info.pod):
        resources = tuple(
            _of_ledger(name, wanted, placement, told=True)
            for name, wanted in asked_by(container).items()
        )
        if resources:
            yield ContainerAsk(container=container.name, role=role, resources=resources)


def _of_ledger(name: str, wanted: int, placement: PluginPlacement, *, told: bool) -> ResourceAsk:
    zones = tuple(
        ZoneAmount(
            zone=zone,
            free=text_of(name, placement.free[zone].get(name, 0)),
            allocatable=text_of(name, total.get(name, 0)),
            missing=text_of(name, max(0, wanted - placement.free[zone].get(name, 0))),
        )
        for zone, total in placement.totals.items()
        if told and name in total
    )
    return ResourceAsk(
        resource=name, wanted=text_of(name, wanted), aligned=bool(placement.policy), zones=zones
    )


def _asks(info: PodInfo, node: NodeInfo) -> Iterator[ContainerAsk]:
    pod, belief = info.pod, node.numa
    topology = belief.topology if belief is not None else None
    free = belief.available if belief is not None and topology is not None else ()
    demand = demand_of(pod, DemandRules())
    per_pod = topology is not None and topology.scope == "pod"
    whole = tuple(
        _of_node(
            name,
            wanted,
            node,
            _of_zones(
                name,
                wanted,
                topology if per_pod else None,
                free if per_pod else (),
                aligned=_aligns(topology, demand, "", name),
            ),
        )
        for name, wanted in info.requests.items()
        if wanted
    )
    yield ContainerAsk(container="", resources=whole)
    for container, role in all_containers(pod):
        resources = tuple(
            _of_zones(
                name,
                wanted,
                topology,
                free,
                aligned=_aligns(topology, demand, container.name, name),
            )
            for name, wanted in asked_by(container).items()
        )
        if resources:
            yield ContainerAsk(container=container.name, role=role, resources=resources)


def _of_node(name: str, wanted: int, node: NodeInfo, zones: ResourceAsk) -> ResourceAsk:
    free = max(0, node.allocatable.get(name, 0) - node.requested.get(name, 0))
    return ResourceAsk(
        resource=name,
        wanted=text_of(name, wanted),
        aligned=zones.aligned,
        free=text_of(name, free),
        missing=text_of(name, max(0, wanted - free)),
        zones=zones.zones,
    )


def _of_zones(
    name: str,
    wanted: int,
    topology: NodeTopology | None,
    free: tuple[Mapping[str, int], ...],
    *,
    aligned: bool,
) -> ResourceAsk:
    zones = tuple(
        ZoneAmount(
            zone=zone.id,
            free=text_of(name, left.get(name, 0)),
            allocatable=text_of(name, zone.allocatable.get(name, 0)),
            missing=text_of(name, max(0, wanted - left.get(name, 0))),
        )
        for zone, left in zip(topology.zones if topology else (), free, strict=True)
        if name in zone.allocatable
    )
    return ResourceAsk(
        resource=name, wanted=text_of(name, wanted), aligned=aligned and bool(zones), zones=zones
    )


def _aligns(
    topology: NodeTopology | None, demand: PodDemand, container: str, resource: str
) -> bool:
    """Tell whether the node's kubelet aligns what *container*, or any if empty, asks for."""
    if topology is None or not topology.policy.aligns or not demand.managed:
        return False
    if resource == CPU:
        exclusive = any(
            other.exclusive_cpus for other in demand.containers if container in ("", other.name)
        )
        return topology.cpu_manager_policy != "none" and exclusive
    if is_memory(resource):
        return topology.memory_manager_policy != "None" and demand.guaranteed
    return True
