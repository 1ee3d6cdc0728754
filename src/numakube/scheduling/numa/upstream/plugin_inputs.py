"""What the Go plugin reads of a node's NRT and of a pod.

Of an NRT that is the Topology Manager's configuration, and the NUMA zones. The configuration is the
defaults, then the first legacy ``topologyPolicies``, then attributes in order; odd values change
nothing. Legacy values without a scope say nothing here, unlike in
`numakube.topology.kubelet_attributes`.

Zones of another type or with a name other than ``node-<id>`` do not count. Ids above 63 do not
either; the Go plugin panics on 64. Zones keep the order of the object, and two with the same id
both count, with the costs of the last.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Final, TypeAlias

from numakube.api.nrt import POLICY_AND_SCOPE, ZONE_TYPE_NODE, numa_id_of
from numakube.api.pod_resources import BEST_EFFORT, GUARANTEED, is_sidecar, qos_class
from numakube.errors import InvalidValue
from numakube.topology import nrt_names
from numakube.topology.kubelet_attributes import DEFAULT_MAX_NUMA_NODES, LARGEST_MAX_NUMA_NODES
from numakube.values.gotext import parse_integer
from numakube.values.numamask import MAX_NODE_ID
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import CPU, EPHEMERAL_STORAGE, STORAGE, is_memory, is_native
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.codec import QuantityText
    from numakube.api.nrt import Cost, NodeResourceTopology
    from numakube.api.pod import Container, Pod
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.values.resources import Amounts


_POLICIES: Final = tuple(TopologyPolicy)
_SCOPES: Final = tuple(TopologyScope)
_REMEMBERED: Final = 1024
"""Readings kept; what-ifs of preemption make an NRT each, which is never seen again."""


@dataclass(frozen=True, slots=True)
class ManagerSettings:
    """How a node's kubelet aligns."""

    policy: TopologyPolicy = TopologyPolicy.NONE
    scope: TopologyScope = TopologyScope.CONTAINER
    max_numa_nodes: int = DEFAULT_MAX_NUMA_NODES

    @property
    def is_single_numa_node(self) -> bool:
        """Tell whether pods or containers must fit one zone."""
        return self.policy is TopologyPolicy.SINGLE_NUMA_NODE

    @property
    def is_pod_scope(self) -> bool:
        """Tell whether the pod is aligned as a whole."""
        return self.scope is TopologyScope.POD


def topology_manager(nrt: NodeResourceTopology) -> ManagerSettings:
    """Return what *nrt* says, and the kubelet's defaults for the rest."""
    policy, scope = POLICY_AND_SCOPE.get(
        nrt.topology_policies[0] if nrt.topology_policies else "",
        (TopologyPolicy.NONE, TopologyScope.CONTAINER),
    )
    max_numa_nodes = DEFAULT_MAX_NUMA_NODES
    for attribute in nrt.attributes:
        if attribute.name == nrt_names.TOPOLOGY_POLICY and attribute.value in _POLICIES:
            policy = TopologyPolicy(attribute.value)
        elif attribute.name == nrt_names.TOPOLOGY_SCOPE and attribute.value in _SCOPES:
            scope = TopologyScope(attribute.value)
        elif attribute.name == nrt_names.MAX_NUMA_NODES:
            max_numa_nodes = _max_numa_nodes(attribute.value) or max_numa_nodes
    return ManagerSettings(policy, scope, max_numa_nodes)


def _max_numa_nodes(text: str) -> int | None:
    try:
        number = parse_integer(text)
    except InvalidValue:
        return None
    return min(number, LARGEST_MAX_NUMA_NODES) if number > 1 else None


@dataclass(slots=True)
class NumaZone:
    """One NUMA zone; ``available`` is changed while containers are placed one after the other."""

    id: int
    available: dict[str, Quantity]
    costs: dict[int, int]

    def copy(self) -> NumaZone:
        """Return a zone from which can be taken without changing this one."""
        return NumaZone(self.id, dict(self.available), self.costs)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one NRT says; ``zones`` are shared, copy those that are changed."""

    manager: ManagerSettings
    zones: tuple[NumaZone, ...]


def read(nrt: NodeResourceTopology) -> Reading | None:
    """Return what *nrt* says; ``None`` if it has a quantity that Go could not have decoded."""
    try:
        return Reading(topology_manager(nrt), tuple(numa_zones(nrt)))
    except InvalidValue:
        return None


class Reader:
    """Reads NRTs and remembers what they say: nodes outlive cycles."""

    def __init__(self) -> None:
        # The object is kept beside its reading, so that its identity stays its own.
        self._known: dict[int, tuple[NodeResourceTopology, Reading | None]] = {}

    def read(self, nrt: NodeResourceTopology) -> Reading | None:
        """Return what `read` does, from memory if possible."""
        known = self._known.get(id(nrt))
        if known is None:
            if len(self._known) >= _REMEMBERED:
                self._known.clear()
            known = self._known[id(nrt)] = (nrt, read(nrt))
        return known[1]


def numa_zones(nrt: NodeResourceTopology) -> list[NumaZone]:
    """Return the zones of *nrt*; raise `InvalidValue` for a malformed quantity."""
    costs: dict[int, dict[int, int]] = {}
    zones = []
    for zone in nrt.zones:
        numa_id = _numa_id(zone.name) if zone.type == ZONE_TYPE_NODE else None
        if numa_id is None:
            continue
        costs[numa_id] = _costs(zone.costs)
        available = {
            resource.name: parse_quantity(resource.available) for resource in zone.resources
        }
        zones.append(NumaZone(numa_id, available, {}))
    for made in zones:
        made.costs = costs[made.id]
    return zones


@lru_cache(maxsize=1024)
def _numa_id(name: str) -> int | None:
    try:
        number = numa_id_of(name)
    except InvalidValue:
        return None
    return number if number <= MAX_NODE_ID else None


def _costs(costs: Iterable[Cost]) -> dict[int, int]:
    known = ((_numa_id(cost.name), cost.value) for cost in costs)
    return {numa_id: value for numa_id, value in known if numa_id is not None}


# ------------------------------------------------------------------------------------------------
# What a pod asks for, as the Go plugin adds it up.
#
# Only requests count. For the whole pod it is the larger of the largest init container and of the
# sum of the app containers, plus overhead; a sidecar counts as any other init container, and
# pod-level resources are not looked at.

Quantities: TypeAlias = "Mapping[str, Quantity]"

_LARGEST_AMOUNT: Final = Quantity.of_count(2**50)
"""Larger requests are left to the reference: products with them leave an int64."""


def is_numa_affine(resource: str) -> bool:
    """Tell whether *resource* must be reported by zone; only Guaranteed pods get it by zone."""
    return resource == CPU or is_memory(resource)


def is_host_level(resource: str) -> bool:
    """Tell whether *resource* may belong to the node as a whole."""
    return resource in (EPHEMERAL_STORAGE, STORAGE) or not is_native(resource)


@dataclass(frozen=True)
class PluginRequest:
    """What one container, or the pod as a whole, asks for.

    Attributes:
        quantities: by name of the resource, zeros included.
        complaint: the refusal if it cannot be aligned.
        lasts: whether what it took is gone for those that come after it.
    """

    quantities: Quantities
    complaint: str
    lasts: bool = True

    @cached_property
    def wanted(self) -> Quantities:
        """The quantities that are not zero."""
        return {name: quantity for name, quantity in self.quantities.items() if quantity}

    @cached_property
    def amounts(self) -> Amounts:
        """The quantities in base units, by ascending name."""
        return {name: _amount(name, q) for name, q in sorted(self.quantities.items())}

    @cached_property
    def is_regular(self) -> bool:
        """Tell whether ``amounts`` are exact and small enough to count with in an int64."""
        return all(
            quantity.unscaled >= 0 and quantity <= _LARGEST_AMOUNT and exact == quantity
            for name, quantity in self.quantities.items()
            for exact in (_exact(name, self.amounts[name]),)
        )


@dataclass(frozen=True)
class Demand:
    """What a pod asks for: container by container and as a whole."""

    qos: str
    inits: tuple[PluginRequest, ...]
    containers: tuple[PluginRequest, ...]
    whole: PluginRequest

    @property
    def is_guaranteed(self) -> bool:
        """Tell whether CPU, memory and hugepages are given out by zone."""
        return self.qos == GUARANTEED

    @cached_property
    def each(self) -> tuple[PluginRequest, ...]:
        """Init containers, then app containers: the order in which the kubelet aligns them."""
        return self.inits + self.containers

    @cached_property
    def needs_no_zone(self) -> bool:
        """Tell whether the pod is BestEffort and asks for no device."""
        names = {name for request in self.each for name in request.quantities}
        return self.qos == BEST_EFFORT and all(map(is_native, names))

    @cached_property
    def is_regular(self) -> bool:
        """Tell whether the vectorised forms can count with it."""
        return all(request.is_regular for request in (*self.each, self.whole))

    def counts(self, resource: str) -> bool:
        """Tell whether *resource* is taken from a zone; if not, the zone must only name it."""
        return self.is_guaranteed or not is_numa_affine(resource)


def demand_of(pod: PodInfo) -> Demand:
    """Return what *pod* asks for, computed once."""
    return pod.memo("upstream-demand", _demand)


def _demand(pod: Pod) -> Demand:
    inits = tuple(
        PluginRequest(
            _requests(init_container),
            "cannot align sidecar container"
            if is_sidecar(init_container)
            else "cannot align init container",
            lasts=False,
        )
        for init_container in pod.spec.init_containers
    )
    containers = tuple(
        PluginRequest(_requests(container), "cannot align container")
        for container in pod.spec.containers
    )
    whole = PluginRequest(_whole(pod, inits, containers), "cannot align pod")
    return Demand(qos_class(pod), inits, containers, whole)


def _whole(
    pod: Pod, inits: Iterable[PluginRequest], containers: Iterable[PluginRequest]
) -> Quantities:
    total: dict[str, Quantity] = {}
    for container in containers:
        _add(total, container.quantities)
    for init in inits:
        for name, quantity in init.quantities.items():
            if name not in total or quantity > total[name]:
                total[name] = quantity
    _add(total, _parsed(pod.spec.overhead))
    return total


def _add(total: dict[str, Quantity], more: Quantities) -> None:
    for name, quantity in more.items():
        total[name] = total[name] + quantity if name in total else quantity


def _requests(container: Container) -> Quantities:
    return _parsed(container.resources.requests) if container.resources else {}


def _parsed(texts: Mapping[str, QuantityText]) -> dict[str, Quantity]:
    return {name: parse_quantity(text) for name, text in texts.items()}


def _amount(name: str, quantity: Quantity) -> int:
    return quantity.milli_value() if name == CPU else quantity.value()


def _exact(name: str, amount: int) -> Quantity:
    return Quantity.of_milli(amount) if name == CPU else Quantity.of_count(amount)
