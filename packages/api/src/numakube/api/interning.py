"""Equal parts of objects kept once: replicas of a workload, machines of one kind.

A cluster's pods and reports are decoded one by one and would each have their own copy of the same
containers, costs and names. A process that holds tens of thousands of them passes each through here
first, and needs a fraction of the memory. Objects never change, so sharing has no visible effect.
"""

from __future__ import annotations

from functools import lru_cache
from sys import intern
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import msgspec

from numakube.api.nrt import Attribute, Cost, NodeResourceTopology, Zone, ZoneResource
from numakube.api.pod import Container
from numakube.values.safe_text import MAX_SHARED

if TYPE_CHECKING:
    from numakube.api.codec import QuantityText
    from numakube.api.pod import Pod


T = TypeVar("T")


class _Shared(Generic[T]):
    """Returns for each value an equal one that is the same for all that are equal."""

    def __init__(self, decoder: msgspec.json.Decoder[T]) -> None:
        self._decode = lru_cache(maxsize=16384)(decoder.decode)

    def __call__(self, value: T) -> T:
        if not value:
            return value
        data = msgspec.json.encode(value)
        # What is large is rarely shared, and would be remembered long after its object is gone.
        return self._decode(data) if len(data) <= MAX_SHARED else value


_labels: Final = _Shared(msgspec.json.Decoder(dict[str, str]))
_containers: Final = _Shared(msgspec.json.Decoder(tuple[Container, ...]))
_attributes: Final = _Shared(msgspec.json.Decoder(tuple[Attribute, ...]))
_costs: Final = _Shared(msgspec.json.Decoder(tuple[Cost, ...]))


def shared_pod(pod: Pod) -> Pod:
    """Return *pod* with the containers and labels that others like it have too."""
    spec, meta = pod.spec, pod.metadata
    return msgspec.structs.replace(
        pod,
        metadata=msgspec.structs.replace(
            meta,
            namespace=intern(meta.namespace),
            labels=_labels(meta.labels),
        ),
        spec=msgspec.structs.replace(
            spec,
            containers=_containers(spec.containers),
            init_containers=_containers(spec.init_containers),
            node_name=intern(spec.node_name),
            scheduler_name=intern(spec.scheduler_name),
        ),
    )


def shared_nrt(nrt: NodeResourceTopology) -> NodeResourceTopology:
    """Return *nrt* with the attributes, costs and texts that others have too."""
    return msgspec.structs.replace(
        nrt,
        attributes=_attributes(nrt.attributes),
        zones=tuple(map(_shared_zone, nrt.zones)),
    )


def _shared_zone(zone: Zone) -> Zone:
    return Zone(
        name=intern(zone.name),
        type=intern(zone.type),
        parent=intern(zone.parent),
        costs=_costs(zone.costs),
        attributes=_attributes(zone.attributes),
        resources=tuple(map(_shared_resource, zone.resources)),
    )


def _shared_resource(resource: ZoneResource) -> ZoneResource:
    return ZoneResource(
        name=intern(resource.name),
        capacity=_text(resource.capacity),
        allocatable=_text(resource.allocatable),
        available=_text(resource.available),
    )


def _text(quantity: QuantityText) -> QuantityText:
    return intern(quantity) if isinstance(quantity, str) else quantity
