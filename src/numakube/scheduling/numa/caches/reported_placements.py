"""What the pods of a report hold where, from upstream's encoding of NUMA placements.

The encoding lists containers by position among the sorted hashes of their names, so it can only be
read with exactly the containers that it was made of. If those known are others, nothing is known.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.nrt import attribute_value
from numakube.scheduling.numa.caches.zone_use import claim_on, exclusive_requests
from numakube.topology import nrt_names
from numakube.topology.numa_placement import (
    BadPlacement,
    ContainerName,
    decode_placement,
    read_placement,
)
from numakube.values.resources import add_amounts
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.scheduling.numa.caches.known_pods import KnownPod
    from numakube.scheduling.numa.caches.latest_reports import Report
    from numakube.topology.numa_placement import Placement
    from numakube.values.resources import Amounts


def holdings_of(report: Report, pods: Sequence[KnownPod]) -> Mapping[str, Sequence[Amounts]]:
    """Return what each of *pods*, which *report* contains, holds in each zone, as far as known."""
    placement = _placement(report)
    if placement is None:
        return {}
    for chosen in _possible(report, pods):
        places = decode_placement(placement, _containers(report, chosen))
        if not isinstance(places, BadPlacement):
            return {pod.uid: _holding(report, pod, places) for pod in chosen}
    return {}


def _placement(report: Report) -> Placement | None:
    """Return the placement that *report* bears; it is only defined for one policy."""
    metadata = attribute_value(report.nrt.attributes, nrt_names.PLACEMENT_METADATA)
    if metadata is None or report.topology.policy is not TopologyPolicy.SINGLE_NUMA_NODE:
        return None
    vectors = {
        zone.id: zone.attributes[nrt_names.PLACEMENT_VECTOR]
        for zone in report.topology.zones
        if nrt_names.PLACEMENT_VECTOR in zone.attributes
    }
    placement = read_placement(metadata, vectors)
    return None if isinstance(placement, BadPlacement) else placement


def _possible(report: Report, pods: Sequence[KnownPod]) -> Iterator[Sequence[KnownPod]]:
    """Yield sets of pods that the placement may be of: those that ask, and those that are given."""
    asking = [pod for pod in pods if exclusive_requests(pod.info, report.topology)]
    yield asking
    given = [pod for pod in asking if claim_on(pod.info, report.topology)]
    if given != asking:
        yield given


def _containers(report: Report, pods: Sequence[KnownPod]) -> Iterator[ContainerName]:
    for pod in pods:
        for container in exclusive_requests(pod.info, report.topology):
            yield ContainerName(pod.info.namespace, pod.info.name, container)


def _holding(
    report: Report, pod: KnownPod, places: Mapping[ContainerName, int]
) -> tuple[Amounts, ...]:
    held: dict[int, Amounts] = {}
    for container, amounts in exclusive_requests(pod.info, report.topology).items():
        zone = places.get(ContainerName(pod.info.namespace, pod.info.name, container))
        if zone is not None:
            held[zone] = add_amounts(held.get(zone, {}), amounts)
    return tuple(held.get(zone.id, {}) for zone in report.topology.zones)
