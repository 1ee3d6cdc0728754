"""Reports bear digests of names: fingerprints of pods, and vectors in the order of hashed names.

They are computed again for the new names, so that a report still says of the same pods what it
said before. The exact report has no names, only a checksum of the rest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.api.nrt import Attribute, attribute_value, with_attribute, without_attribute
from numakube.apps.anonymising.pseudonyms import Sort
from numakube.scheduling.numa.caches.counts_belief import claim_on, exclusive_requests
from numakube.scheduling.numa.caches.known_pods import KnownPods, PodStage
from numakube.scheduling.numa.caches.report_coverage import FingerprintPods, pods_behind
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.topology import nrt_names
from numakube.topology.fingerprint import (
    BadPlacement,
    ContainerName,
    decode_placement,
    encode_placement,
    fingerprint_of,
    read_placement,
)
from numakube.topology.nrt_conversion import KEPT_PREFIX
from numakube.topology.numa_zones import Level, level_of
from numakube.topology.report_codec import with_exact
from numakube.topology.topology_view import NodeTopology, view_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numakube.api.nrt import NodeResourceTopology, Zone
    from numakube.api.pod import Pod
    from numakube.scheduling.numa.caches.known_pods import KnownPod
    from numakube.topology.fingerprint import Placement

    Rename = Callable[[Sort, str], str]


def rewritten(
    topology: NodeResourceTopology, pods: Iterable[Pod], rename: Rename
) -> NodeResourceTopology:
    """Return *topology* with digests of the new names; *pods* are those of its node."""
    topology = _without_names(topology)
    view = view_of(topology)
    if not isinstance(view, NodeTopology):
        return topology
    ledger = KnownPods()
    for pod in pods:
        ledger.see(PodInfo(pod))
    known = ledger.on(topology.metadata.name)
    topology = _with_fingerprint(topology, view, known, rename)
    topology = _with_placement(topology, view, known, rename)
    topology = _with_exporter(topology, rename)
    return with_exact(topology, view.report) if view.report is not None else topology


def _without_names(topology: NodeResourceTopology) -> NodeResourceTopology:
    """Drop zones that are called after containers, and what a conversion has kept word by word."""
    metadata = topology.metadata
    annotations = {
        key: value for key, value in metadata.annotations.items() if not key.startswith(KEPT_PREFIX)
    }
    return msgspec.structs.replace(
        topology,
        metadata=msgspec.structs.replace(metadata, annotations=annotations),
        zones=tuple(zone for zone in topology.zones if level_of(zone) is not Level.CONTAINER),
    )


def _with_fingerprint(
    topology: NodeResourceTopology, view: NodeTopology, pods: Sequence[KnownPod], rename: Rename
) -> NodeResourceTopology:
    behind = pods_behind(view, pods, FingerprintPods.AUTODETECT)
    if behind is None:
        return topology
    exclusive = view.fingerprint_method == "with-exclusive-resources"
    chosen = [
        pod
        for pod in pods
        if pod.uid in behind and pod.stage is not PodStage.ENDED
        if not exclusive or claim_on(pod.info, view)
    ]
    text = fingerprint_of(
        (rename(Sort.NAMESPACE, pod.info.namespace), rename(Sort.POD, pod.info.name))
        for pod in chosen
    )
    attributes, annotations = topology.attributes, dict(topology.metadata.annotations)
    if attribute_value(attributes, nrt_names.FINGERPRINT) is not None:
        attributes = with_attribute(attributes, Attribute(name=nrt_names.FINGERPRINT, value=text))
    if nrt_names.FINGERPRINT_ANNOTATION in annotations:
        annotations[nrt_names.FINGERPRINT_ANNOTATION] = text
    metadata = msgspec.structs.replace(topology.metadata, annotations=annotations)
    return msgspec.structs.replace(topology, metadata=metadata, attributes=attributes)


def _with_exporter(topology: NodeResourceTopology, rename: Rename) -> NodeResourceTopology:
    """Return *topology* with the new name of the pod that its exporter runs in."""
    namespace, _, pod = (attribute_value(topology.attributes, nrt_names.EXPORTER) or "").partition(
        "/"
    )
    if not pod:
        return topology
    name = f"{rename(Sort.NAMESPACE, namespace)}/{rename(Sort.POD, pod)}"
    told = Attribute(name=nrt_names.EXPORTER, value=name)
    return msgspec.structs.replace(topology, attributes=with_attribute(topology.attributes, told))


def _with_placement(
    topology: NodeResourceTopology, view: NodeTopology, pods: Sequence[KnownPod], rename: Rename
) -> NodeResourceTopology:
    metadata = attribute_value(topology.attributes, nrt_names.PLACEMENT_METADATA)
    if metadata is None:
        return topology
    vectors = {
        zone.id: zone.attributes[nrt_names.PLACEMENT_VECTOR]
        for zone in view.zones
        if nrt_names.PLACEMENT_VECTOR in zone.attributes
    }
    old = read_placement(metadata, vectors)
    new = None if isinstance(old, BadPlacement) else _renamed(old, view, pods, rename)
    if new is None:
        # Unreadable vectors must not become readable under other names.
        attributes = without_attribute(topology.attributes, nrt_names.PLACEMENT_METADATA)
        return msgspec.structs.replace(topology, attributes=attributes)
    attribute = Attribute(name=nrt_names.PLACEMENT_METADATA, value=new.metadata)
    by_name = {zone.name: new.vectors.get(zone.id) for zone in view.zones}
    return msgspec.structs.replace(
        topology,
        attributes=with_attribute(topology.attributes, attribute),
        zones=tuple(_zone(zone, by_name.get(zone.name)) for zone in topology.zones),
    )


def _renamed(
    placement: Placement, view: NodeTopology, pods: Sequence[KnownPod], rename: Rename
) -> Placement | None:
    asking = [pod for pod in pods if exclusive_requests(pod.info, view)]
    for chosen in (asking, [pod for pod in asking if claim_on(pod.info, view)]):
        containers = {
            ContainerName(pod.info.namespace, pod.info.name, name)
            for pod in chosen
            for name in exclusive_requests(pod.info, view)
        }
        places = decode_placement(placement, containers)
        if not isinstance(places, BadPlacement):
            new = encode_placement(
                _under_new_names(places, rename), numa_nodes=placement.numa_nodes
            )
            return None if isinstance(new, BadPlacement) else new
    return None


def _under_new_names(
    places: Mapping[ContainerName, int], rename: Rename
) -> dict[ContainerName, int]:
    def under(one: ContainerName) -> ContainerName:
        space, pod = rename(Sort.NAMESPACE, one.namespace), rename(Sort.POD, one.pod)
        return ContainerName(space, pod, one.container)

    return {under(one): zone for one, zone in places.items()}


def _zone(zone: Zone, vector: str | None) -> Zone:
    attributes = without_attribute(zone.attributes, nrt_names.PLACEMENT_VECTOR)
    if vector is not None:
        attributes = (*attributes, Attribute(name=nrt_names.PLACEMENT_VECTOR, value=vector))
    return msgspec.structs.replace(zone, attributes=attributes)
