"""The Topology Manager's configuration as the Go plugin reads it from an NRT.

Defaults, then the first legacy ``topologyPolicies``, then attributes in order; odd values change
nothing. Unlike `numakube.topology.attributes`, legacy values without a scope say nothing here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube.api.nrt import POLICY_AND_SCOPE
from numakube.errors import InvalidValue
from numakube.topology import nrt_names
from numakube.topology.attributes import (
    DEFAULT_MAX_NUMA_NODES,
    LARGEST_MAX_NUMA_NODES,
)
from numakube.values.gotext import parse_integer
from numakube.values.topology_policy import TopologyPolicy, TopologyScope

if TYPE_CHECKING:
    from numakube.api.nrt import NodeResourceTopology


_POLICIES: Final = tuple(TopologyPolicy)
_SCOPES: Final = tuple(TopologyScope)


@dataclass(frozen=True, slots=True)
class TopologyManager:
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


def topology_manager(nrt: NodeResourceTopology) -> TopologyManager:
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
    return TopologyManager(policy, scope, max_numa_nodes)


def _max_numa_nodes(text: str) -> int | None:
    try:
        number = parse_integer(text)
    except InvalidValue:
        return None
    return min(number, LARGEST_MAX_NUMA_NODES) if number > 1 else None
