"""How each kubelet is configured, by its own word or else by that of its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from numakube.api.kubelet_config import with_defaults
from numakube.topology.topology_view import NodeTopology
from numakube.values.topology_policy import TopologyPolicy

if TYPE_CHECKING:
    from numakube.api.kubelet_config import KubeletConfiguration
    from numakube.insight.facts import ClusterFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class Managers:
    """The policies of one kubelet; ``None`` is an unknown one."""

    policy: str
    scope: str
    cpu_policy: str | None
    memory_policy: str | None

    @property
    def aligns(self) -> bool:
        """Whether the Topology Manager does anything."""
        return self.policy != TopologyPolicy.NONE

    @property
    def refuses(self) -> bool:
        """Whether the kubelet rejects pods that it cannot align."""
        return self.policy in (TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE)


def managers_of(facts: ClusterFacts, node: str) -> Managers | None:
    """Return the policies of the kubelet of *node*; ``None`` if nothing tells them."""
    config = config_of(facts, node)
    if config is not None:
        return Managers(
            policy=config.topology_manager_policy,
            scope=config.topology_manager_scope,
            cpu_policy=config.cpu_manager_policy,
            memory_policy=config.memory_manager_policy,
        )
    view = facts.view(node)
    if not isinstance(view, NodeTopology) or view.policy_unknown:
        return None
    return Managers(
        policy=view.policy,
        scope=view.scope,
        cpu_policy=view.cpu_manager_policy,
        memory_policy=view.memory_manager_policy,
    )


def config_of(facts: ClusterFacts, node: str) -> KubeletConfiguration | None:
    """Return the kubelet's own configuration with its defaults; ``None`` if it was not read."""
    config = facts.kubelet_configs.get(node)
    return None if config is None else with_defaults(config)


def zone_count(facts: ClusterFacts, node: str) -> int | None:
    """Return how many NUMA nodes a node has; ``None`` if its report does not tell."""
    view = facts.view(node)
    return len(view.zones) if isinstance(view, NodeTopology) else None
