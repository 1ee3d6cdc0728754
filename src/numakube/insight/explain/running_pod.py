"""A pod that runs: where its kubelet or a scheduler put it, how well aligned, what is better."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.pod_resources import pending_resize
from numakube.insight.dra_devices import zones_needed, zones_of_devices
from numakube.insight.explain.explanation_document import PlacedContainer, PodPlacement
from numakube.insight.explain.node_verdicts import holders_on
from numakube.insight.held_closeness import closeness_words
from numakube.insight.misalignment import fewest_zones
from numakube.insight.observations import observed, observers
from numakube.insight.planned_pods import texts_of
from numakube.scheduling.numa.caches.counts_belief import use_in_report
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.scheduling.snapshot.zone_belief import KubeletRejection
from numakube.topology.allotments import allotment_of
from numakube.values.cpuset import CpuSet
from numakube.values.display import zones_text
from numakube.values.numamask import nodes_of
from numakube.values.resources import CPU

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.pod import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.topology.allotments import Allotment, Share
    from numakube.topology.exact_report import ExactReport


_LOCAL: Final = 10
_ONE: Final = 1
_FEW: Final = 3


def placement_of(facts: ClusterFacts, node: NodeInfo, pod: Pod) -> PodPlacement:
    """Return where *pod* is on *node*, and what keeps it from being resized there."""
    claimed = _with_claimed(_placement_of(facts, node, pod), node, facts, pod)
    placement = _with_observed(claimed, facts, pod)
    pending = pending_resize(pod)
    if pending is None:
        return placement
    words = (
        f"Its resize is {pending.reason.lower()}: {pending.message}. It keeps the CPUs and the"
        " memory with which it was admitted."
    )
    return msgspec.structs.replace(placement, words=(*placement.words, words))


def _with_observed(placement: PodPlacement, facts: ClusterFacts, pod: Pod) -> PodPlacement:
    """Return *placement* with what annexes saw of the pod, beside what it was given."""
    node = observed(facts, placement.node)
    seen = {name: observer.of_pod(node, pod) for name, observer in observers().items()}
    known = {name: one for name, one in seen.items() if one.is_known}
    return msgspec.structs.replace(
        placement,
        words=(*placement.words, *(word for one in known.values() for word in one.words)),
        observed={name: dict(one.document) for name, one in known.items()},
    )


def _with_claimed(
    placement: PodPlacement, node: NodeInfo, facts: ClusterFacts, pod: Pod
) -> PodPlacement:
    """Return *placement* with the devices of the pod's claims, which may be elsewhere."""
    devices = facts.dra_devices(node.name)
    own = (device for device in devices if pod.metadata.key in device.pods)
    placed = [device for device in own if device.zones]
    if not placed:
        return placement
    if placement.quality == "shared" and any(device.part_of == CPU for device in placed):
        by_claim = f"Its kubelet gives it nothing exclusive on {node.name}: its CPUs come by claim."
        placement = msgspec.structs.replace(placement, words=(by_claim, *placement.words[1:]))
    near = zones_of_devices(placed, placement.zones)
    zones = tuple(sorted({*placement.zones, *near}))
    listed = ", ".join(
        f"{device.called} {device.id.device} ({zones_text(device.zones)})" for device in placed
    )
    quality = placement.quality
    if near.issubset(placement.zones) or len(zones) <= max(1, zones_needed(placed, devices)):
        words = (*placement.words, f"Its claims have {listed}.")
    elif not placement.zones:
        quality, words = "spread", (f"Its claims have {listed}.",)
    else:
        quality = "spread"
        where = zones_text(placement.zones)
        words = (f"Its CPUs, memory and plugin devices are in {where}, its claims have {listed}.",)
    distance = placement.distance
    if isinstance(node.numa, ExactBelief):
        distance = _distance(node.numa.basis.exact, zones)
    return msgspec.structs.replace(
        placement, zones=zones, quality=quality, distance=distance, words=words
    )


def _placement_of(facts: ClusterFacts, node: NodeInfo, pod: Pod) -> PodPlacement:
    held = allotment_of(pod)
    if held is not None:
        return allotted_placement(node.name, held)
    uid, belief = pod.metadata.uid, node.numa
    if isinstance(belief, ExactBelief):
        report = belief.basis.exact
        holding = report.holding(uid)
        if holding is not None:
            use = use_in_report(report, holding)
            cpus = str(holding.cpus) if holding.cpus else ""
            placement = _described(node, pod, use, report, source="exact", cpus=cpus)
            close = closeness_words(report, holding)
            words = (*placement.words, close) if close else placement.words
            return msgspec.structs.replace(placement, words=words)
        foreseen = belief.foreseen.get(uid)
        if foreseen is not None and not isinstance(foreseen, KubeletRejection):
            return _described(node, pod, foreseen, report, source="predicted")
    return _from_vectors(facts, node, pod)


def _described(
    node: NodeInfo,
    pod: Pod,
    use: Mapping[tuple[int, ...], Mapping[str, int]],
    report: ExactReport,
    *,
    source: str,
    cpus: str = "",
) -> PodPlacement:
    zones = tuple(sorted({zone for group in use for zone in group}))
    fewest = fewest_zones(report, pod)
    quality = _quality(zones, fewest)
    held = {
        name: sum(part.get(name, 0) for part in use.values())
        for name in dict.fromkeys(name for part in use.values() for name in part)
    }
    names = [container.name for container in pod.spec.containers]
    return PodPlacement(
        node=node.name,
        source=source,
        zones=zones,
        quality=quality,
        distance=_distance(report, zones),
        containers=(
            PlacedContainer(
                container=names[0] if len(names) == 1 else "",
                zones=zones,
                cpus=cpus,
                amounts=texts_of(held),
            ),
        ),
        words=_words(node.name, zones, quality, fewest, source),
    )


def _from_vectors(facts: ClusterFacts, node: NodeInfo, pod: Pod) -> PodPlacement:
    held = [holder for holder in holders_on(facts, node) if holder.pod == pod.metadata.key]
    zones = tuple(sorted({zone for holder in held for zone in holder.zones}))
    if not zones:
        words = f"Which zones of {node.name} it uses is not known: its report does not name pods."
        return PodPlacement(node=node.name, words=(words,))
    return PodPlacement(
        node=node.name,
        source="placement",
        zones=zones,
        quality="single" if len(zones) == _ONE else "unknown",
        distance=_LOCAL if len(zones) == _ONE else 0,
        containers=tuple(
            PlacedContainer(container="", zones=holder.zones, amounts=holder.amounts)
            for holder in held
        ),
        words=(f"Everything exclusive is in {zones_text(zones)}.",),
    )


def _quality(zones: tuple[int, ...], fewest: int) -> str:
    if not zones:
        return "shared"
    if len(zones) == _ONE:
        return "single"
    return "fewest" if fewest and len(zones) <= fewest else "spread"


def _distance(report: ExactReport, zones: tuple[int, ...]) -> int:
    ids = sorted(node.id for node in report.machine.nodes)
    rows = {node.id: dict(zip(ids, node.distances, strict=False)) for node in report.machine.nodes}
    return max((rows.get(a, {}).get(b, 0) for a in zones for b in zones), default=0)


def with_better(placement: PodPlacement, nodes: tuple[str, ...]) -> PodPlacement:
    """Return *placement* with the nodes that would align the pod better now."""
    if not nodes:
        return placement
    listed = ", ".join(nodes[:_FEW]) + (f" and {len(nodes) - _FEW} more" if nodes[_FEW:] else "")
    verb = "would align it better now, if it were placed again."
    words = (*placement.words, f"{listed} {verb}")
    return msgspec.structs.replace(placement, better=nodes, words=words)


def _words(
    node: str, zones: tuple[int, ...], quality: str, fewest: int, source: str
) -> tuple[str, ...]:
    ending = " (not reported yet; this is where the kubelet model puts it)"
    note = ending if source == "predicted" else ""
    match quality:
        case "shared":
            return (f"It holds nothing exclusive on {node}: it runs on shared CPUs{note}.",)
        case "single":
            return (f"Well aligned: everything exclusive is in {zones_text(zones)}{note}.",)
        case "fewest":
            return (f"On {zones_text(zones)}: it does not fit on fewer{note}.",)
        case _:
            better = f", though {fewest} would do on an idle node" if fewest else ""
            return (f"Spread over {zones_text(zones)}{better}{note}.",)


def allotted_placement(node: str, held: Allotment) -> PodPlacement:
    """Return where a pod with *held* is on *node*, as its annotations tell."""
    shares = held.containers or {"": held.total}
    zones = _zones(held.total)
    spread = max((len(_zones(share)) for share in shares.values()), default=0)
    quality = "shared" if not zones else "single" if spread == 1 else "spread"
    return PodPlacement(
        node=node,
        source="allotted",
        zones=zones,
        quality=quality,
        containers=tuple(_placed(name, share) for name, share in shares.items()),
        words=(_allotted_words(node, zones, quality, containers=bool(held.containers)),),
    )


def _zones(share: Share) -> tuple[int, ...]:
    return tuple(sorted({*share.zones, *nodes_of(share.mask)}))


def _placed(name: str, share: Share) -> PlacedContainer:
    amounts: dict[str, int] = {}
    for part in share.zones.values():
        for resource, amount in part.items():
            amounts[resource] = amounts.get(resource, 0) + amount
    for device in share.devices:
        amounts[device.type] = amounts.get(device.type, 0) + 1
    return PlacedContainer(
        container=name,
        zones=_zones(share),
        cpus=str(CpuSet(share.cpus)) if share.cpus else "",
        amounts=texts_of(amounts),
    )


def _allotted_words(node: str, zones: tuple[int, ...], quality: str, *, containers: bool) -> str:
    if quality == "shared":
        return f"A scheduler gave it something on {node}, but no NUMA zone in particular."
    where = zones_text(zones)
    if containers and quality == "single":
        return f"Well aligned: a scheduler gave each container one of {where}."
    if quality == "single":
        return f"Well aligned: a scheduler gave it {where}."
    return f"A scheduler spread it over {where}."
