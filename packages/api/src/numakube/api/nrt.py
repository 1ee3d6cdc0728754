"""NodeResourceTopology (topology.node.k8s.io): what each NUMA zone of a node has and has left.

Version v1alpha2 is read and written. v1alpha1, which lacks node attributes, is only read, because
writing through it deletes the attributes of an object (the CRD converts by renaming). Zones are
free form: those that are NUMA nodes have type ``Node`` and are named ``node-<id>``.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from numakube.api.codec import QuantityText, Wire, always, convert
from numakube.api.meta import ObjectMeta
from numakube.errors import InvalidValue, MalformedObject
from numakube.values.gotext import go_quote, parse_integer
from numakube.values.topology_policy import POLICY_BY_API_NAME, TopologyScope

GROUP: Final = "topology.node.k8s.io"
V1ALPHA1: Final = f"{GROUP}/v1alpha1"
V1ALPHA2: Final = f"{GROUP}/v1alpha2"
KIND: Final = "NodeResourceTopology"
PLURAL: Final = "noderesourcetopologies"

ZONE_TYPE_NODE: Final = "Node"
"""The type of zones that are NUMA nodes; other producers have further types."""

_ZONE_PREFIX: Final = "node-"


class Attribute(Wire, frozen=True):
    """A named text of a node or a zone; the empty text is a value too."""

    name: str
    value: str


class Cost(Wire, frozen=True):
    """The distance to another zone; 10 is local."""

    name: str
    value: int


class ZoneResource(Wire, frozen=True):
    """How much of a resource a zone has, may give to pods, and has left."""

    name: str
    capacity: QuantityText
    allocatable: QuantityText
    available: QuantityText = ""
    """Missing in objects of the API before v0.0.10, see `to_v1alpha2`."""


class Zone(Wire, frozen=True):
    """A part of a node, usually a NUMA node."""

    name: str
    type: str
    parent: str = ""
    costs: tuple[Cost, ...] = ()
    attributes: tuple[Attribute, ...] = ()
    resources: tuple[ZoneResource, ...] = ()


def _no_zones() -> tuple[Zone, ...]:
    return ()


class NodeResourceTopology(Wire, frozen=True):
    """The zones of the node with the same name."""

    metadata: ObjectMeta = ObjectMeta()
    attributes: tuple[Attribute, ...] = ()
    topology_policies: tuple[str, ...] = ()
    """Deprecated: see `POLICY_AND_SCOPE`."""
    # The schema requires zones, so they are written even if there are none.
    zones: tuple[Zone, ...] = msgspec.field(default_factory=_no_zones)
    api_version: str = always(V1ALPHA2)
    kind: str = always(KIND)


POLICY_AND_SCOPE: Final = {
    f"{name}{scope.title()}Level": (policy, scope)
    for name, policy in POLICY_BY_API_NAME.items()
    for scope in TopologyScope
}
"""What the values of ``topologyPolicies`` say of the kubelet; ``None`` and others say nothing."""


def convert_nrt(tree: object, subject: str | None = None) -> NodeResourceTopology:
    """Return the object in *tree*, of either version, in the current one."""
    return to_v1alpha2(convert(NodeResourceTopology, tree, subject))


def to_v1alpha2(topology: NodeResourceTopology) -> NodeResourceTopology:
    """Return *topology* in the current version; nothing is lost and nothing is made up.

    The older version has no node attributes: the API server drops them, and so do we. Before
    v0.0.10 of the API (2021) zones had no ``available``, and producers wrote what was left into
    ``allocatable``.
    """
    if topology.api_version == V1ALPHA2:
        return topology
    if topology.api_version != V1ALPHA1:
        detail = f"{topology.api_version!r} is neither {V1ALPHA2} nor {V1ALPHA1}"
        raise MalformedObject(f"{KIND} {topology.metadata.name}", detail, path="apiVersion")
    zones = tuple(map(_with_available, topology.zones))
    return msgspec.structs.replace(topology, api_version=V1ALPHA2, attributes=(), zones=zones)


def _with_available(zone: Zone) -> Zone:
    if all(resource.available != "" for resource in zone.resources):
        return zone
    resources = (
        msgspec.structs.replace(resource, available=resource.allocatable)
        if resource.available == ""
        else resource
        for resource in zone.resources
    )
    return msgspec.structs.replace(zone, resources=tuple(resources))


def by_node(topologies: Iterable[NodeResourceTopology]) -> dict[str, NodeResourceTopology]:
    """Return the objects by the name of their node, without namespaces, in the current version.

    Up to v0.0.10 of the API objects were in namespaces, so that a node may have several: the one
    that was written last counts.
    """
    ordered = sorted(map(to_v1alpha2, topologies), key=_written)
    return {report.metadata.name: _without_namespace(report) for report in ordered}


def _written(topology: NodeResourceTopology) -> tuple[int, str]:
    """Return what orders objects by when they were written."""
    version = topology.metadata.resource_version
    return int(version) if version.isdecimal() else 0, topology.metadata.namespace


def _without_namespace(topology: NodeResourceTopology) -> NodeResourceTopology:
    if not topology.metadata.namespace:
        return topology
    metadata = msgspec.structs.replace(topology.metadata, namespace="")
    return msgspec.structs.replace(topology, metadata=metadata)


def attribute_value(attributes: tuple[Attribute, ...], name: str) -> str | None:
    """Return the value of the first attribute with that name."""
    return next((attribute.value for attribute in attributes if attribute.name == name), None)


def with_attribute(attributes: tuple[Attribute, ...], new: Attribute) -> tuple[Attribute, ...]:
    """Return *attributes* with the value of *new* in place of the first of its name, or at the end.

    An attribute without a name changes nothing.
    """
    if not new.name:
        return attributes
    for position, one in enumerate(attributes):
        if one.name == new.name:
            return (*attributes[:position], new, *attributes[position + 1 :])
    return (*attributes, new)


def without_attribute(attributes: tuple[Attribute, ...], name: str) -> tuple[Attribute, ...]:
    """Return *attributes* without any of that name."""
    return tuple(attribute for attribute in attributes if attribute.name != name)


def zone_name(numa_id: int) -> str:
    """Return the name of the zone of a NUMA node: ``node-0``."""
    if numa_id < 0:
        raise InvalidValue(f"invalid NUMA id range numaID: {numa_id}")
    return f"{_ZONE_PREFIX}{numa_id}"


def numa_id_of(name: str) -> int:
    """Return the NUMA node that the zone *name* stands for."""
    if not name.startswith(_ZONE_PREFIX):
        raise InvalidValue(f"invalid format for name {go_quote(name)}: bad prefix")
    try:
        numa_id = parse_integer(name.removeprefix(_ZONE_PREFIX))
    except InvalidValue as error:
        raise InvalidValue(f"invalid format for name {go_quote(name)}: {error}") from None
    if numa_id < 0:
        raise InvalidValue(f"invalid format for name {go_quote(name)}: bad NUMA id: {numa_id}")
    return numa_id
