"""The picture of a node of a cluster, from whatever is known of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from numakube.insight.dra_devices import zones_of_devices
from numakube.insight.facts import NO_REPORT, troubles_of
from numakube.insight.node_map.picture import (
    Amount,
    DrawnDevice,
    DrawnZone,
    Kubelet,
    NodePicture,
    PodMark,
    letter_of,
)
from numakube.insight.node_map.picture_from_report import picture_of_report
from numakube.insight.scheduler_holdings import given_holding, with_allotments
from numakube.topology.exact_report import uid_hash
from numakube.topology.numa_zones import Unusable, within
from numakube.topology.topology_view import NodeTopology, Producer

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from numakube.insight.dra_devices import DraDevice
    from numakube.insight.facts import ClusterFacts
    from numakube.topology.exact_report import ExactReport
    from numakube.topology.topology_view import ZoneView


_MANY: Final = 3


def node_picture(facts: ClusterFacts, node: str) -> NodePicture:
    """Return the picture of *node*; without data it has no zones and says what is missing."""
    picture = with_claimed(
        _picture(facts, node), facts.dra_devices(node), reported=reported_pods(facts, node)
    )
    troubles = ", ".join(troubles_of(facts.nodes.get(node)))
    notes = (f"the node is {troubles}",) if troubles else ()
    return replace(picture, notes=(*notes, *picture.notes))


def _picture(facts: ClusterFacts, node: str) -> NodePicture:
    view = facts.view(node)
    if view is None:
        return NodePicture(node=node, why_not_exact=facts.why_no_reports or NO_REPORT)
    if isinstance(view, Unusable):
        return NodePicture(node=node, why_not_exact=view.reason, parts=view.parts)
    if view.report is None:
        return picture_of_counts(view)
    report = with_allotments(
        view.report, facts.pods_on(node), given=lambda pod: given_holding(facts, pod)
    )
    picture = picture_of_report(node, report, pods=pod_names(facts, node))
    return replace(
        picture,
        stale=view.why_old,
        notes=(*picture.notes, *_newer(facts, view, view.report), *view.problems),
    )


def pod_names(facts: ClusterFacts, node: str) -> dict[str, str]:
    """Return ``namespace/name`` of the pods on *node* by the hashes that reports know them by."""
    return {uid_hash(pod.metadata.uid): pod.metadata.key for pod in facts.pods_on(node)}


def reported_pods(facts: ClusterFacts, node: str) -> set[str]:
    """Return ``namespace/name`` of the pods on *node* that its exact report accounts for."""
    view = facts.view(node)
    report = view.report if isinstance(view, NodeTopology) else None
    if report is None:
        return set()
    return {
        pod.metadata.key for pod in facts.pods_on(node) if report.accounts_for(pod.metadata.uid)
    }


def _newer(facts: ClusterFacts, view: NodeTopology, report: ExactReport) -> list[str]:
    """Say which pods the report does not account for yet."""
    names = sorted(
        pod.metadata.key
        for pod in facts.pods_on(view.node)
        if not report.accounts_for(pod.metadata.uid)
    )
    if not names:
        return []
    some = ", ".join(names[:_MANY]) + (f" and {len(names) - _MANY} more" if names[_MANY:] else "")
    return [f"not in the report yet: {some}"]


def picture_of_counts(view: NodeTopology, *, why: str = "") -> NodePicture:
    """Return the picture of a node of which amounts are known; *why* says why nothing else is."""
    return NodePicture(
        node=view.node,
        zones=tuple(_zone(zone, within(view, zone.id)) for zone in view.zones),
        parts=view.parts,
        kubelet=kubelet_of(view),
        why_not_exact=why or _why(view),
        stale=view.why_old,
        notes=view.problems,
    )


def _why(view: NodeTopology) -> str:
    if view.overwritten:
        return view.why_inexact
    if view.why_inexact:
        return f"its exporter has no exact data: {view.why_inexact}"
    if view.producer is Producer.VOLCANO:
        return "its Numatopology, which Volcano's agent wrote, has amounts of CPUs only"
    writer = "" if view.producer is Producer.UNKNOWN else f", which {view.producer} wrote,"
    return f"its NodeResourceTopology{writer} has amounts only"


def _zone(zone: ZoneView, around: tuple[str, ...]) -> DrawnZone:
    return DrawnZone(
        id=zone.id,
        within=around,
        distances=zone.costs,
        amounts=tuple(
            Amount(name, zone.capacity[name], zone.allocatable[name], zone.available[name])
            for name in zone.capacity
        ),
    )


def kubelet_of(view: NodeTopology) -> Kubelet:
    """Return what an NRT tells of the kubelet."""
    return Kubelet(
        topology_policy=view.known_policy,
        topology_scope="" if view.policy_unknown else view.scope,
        topology_options=view.topology_options,
        cpu_policy=view.cpu_manager_policy or "",
        cpu_options=view.cpu_manager_options,
        memory_policy=view.memory_manager_policy or "",
    )


# Devices of DRA drivers in the picture of a node, beside those of device plugins.
#
# They are drawn in the zone that their driver tells, and belong to the pods that their claims are
# reserved for. A claim that no pod uses is in the legend itself.


def with_claimed(
    picture: NodePicture, devices: Sequence[DraDevice], *, reported: Collection[str] = ()
) -> NodePicture:
    """Return *picture* with *devices*; one without zones, for lack of a report, stays as it is.

    Args:
        picture: of a node.
        devices: of DRA drivers on that node.
        reported: names of all pods that the picture counts, with exclusive resources or without.
    """
    devices = [device for device in devices if not device.part_of]
    if not devices or not picture.zones:
        return picture
    marks = _marks(picture.pods, devices)
    drawn = list(_drawn(devices, {mark.name: number for number, mark in enumerate(marks)}))
    known = {zone.id for zone in picture.zones}
    placed = [device for device in drawn if not known.isdisjoint(device.zones)]
    return replace(
        picture,
        pods=marks,
        zones=tuple(
            replace(
                zone,
                devices=(*zone.devices, *(device for device in placed if zone.id in device.zones)),
            )
            for zone in picture.zones
        ),
        homeless=(*picture.homeless, *(device for device in drawn if device not in placed)),
        sharing_pods=picture.sharing_pods
        - sum(mark.name in reported for mark in marks[len(picture.pods) :]),
    )


def _marks(pods: tuple[PodMark, ...], devices: Sequence[DraDevice]) -> tuple[PodMark, ...]:
    """Return the legend with what claims hold, pods that hold nothing else last."""
    marks = {mark.name: mark for mark in pods}
    held: dict[str, list[DraDevice]] = {}
    for device in devices:
        for name in device.holders:
            held.setdefault(name, []).append(device)
    for name, some in held.items():
        known = marks.get(name) or PodMark(name, letter_of(len(marks)))
        marks[name] = _holding(known, some)
    return tuple(marks.values())


def _holding(mark: PodMark, devices: Sequence[DraDevice]) -> PodMark:
    counts = Counter(mark.devices)
    counts.update(device.called for device in devices)
    zones = tuple(sorted({*mark.zones, *zones_of_devices(devices, mark.zones)}))
    return replace(mark, devices=dict(counts), zones=zones)


def _drawn(devices: Sequence[DraDevice], owners: Mapping[str, int]) -> Iterator[DrawnDevice]:
    positions: Counter[str] = Counter()
    for device in devices:
        driver = device.called
        holders = [owners[name] for name in device.holders]
        yield DrawnDevice(
            resource=driver,
            position=positions[driver],
            id=device.id.device,
            zones=device.zones,
            owner=holders[0] if holders else None,
            sharers=tuple(holders[1:]),
            claims=device.claims,
            healthy=not device.trouble,
            blocked=device.is_blocked,
            trouble=device.trouble,
        )
        positions[driver] += 1
