"""Arguments of NodeNUMAResource, as Koordinator's configuration files give them."""

from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from numakube.api.codec import Wire, convert
from numakube.api.koordinator.devices import device_type_of
from numakube.errors import ConfigError
from numakube.scheduling.framework.registry import unknown_fields
from numakube.scheduling.plugins.plugin_arguments import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    ScoringStrategy,
    WeightedResource,
)
from numakube.values.names import qualified_name
from numakube.values.resources import CPU, MEMORY
from numakube.values.topology_policy import TopologyScope
from numakube_placement.koordinator.annotation_values import BindPolicy, Strategy

_TYPE_META: Final = ("apiVersion", "kind")
_LEAST: Final = ScoringStrategy(type=LEAST_ALLOCATED)
_BIND_POLICIES: Final = ("", BindPolicy.FULL_PCPUS, BindPolicy.SPREAD_BY_PCPUS)
_RESOURCES: Final = (WeightedResource(name=CPU), WeightedResource(name=MEMORY))


class NodeNUMAResourceArgs(Wire, frozen=True):
    """How NodeNUMAResource picks CPUs and rates nodes.

    Attributes:
        default_cpu_bind_policy: for pods whose CPUs are bound and that do not say how; empty leaves
            them unbound.
        scoring_strategy: how nodes are rated on which the pod is not aligned.
        numa_scoring_strategy: which NUMA nodes are taken first unless a pod or a node says so.
        default_numa_topology_scope: ours: the scope where neither a pod nor a node says one.
        ignored_resources: ours: what is not aligned for any pod, such as ``memory``.
    """

    default_cpu_bind_policy: str = msgspec.field(
        default=BindPolicy.FULL_PCPUS.value, name="defaultCPUBindPolicy"
    )
    scoring_strategy: ScoringStrategy = _LEAST
    numa_scoring_strategy: ScoringStrategy = msgspec.field(
        default=_LEAST, name="numaScoringStrategy"
    )

    default_numa_topology_scope: str = msgspec.field(
        default=TopologyScope.POD.value, name="defaultNUMATopologyScope"
    )
    ignored_resources: tuple[str, ...] = ()

    @property
    def bind_policy(self) -> BindPolicy:
        """The policy as a value."""
        return BindPolicy(self.default_cpu_bind_policy)

    @property
    def strategy(self) -> Strategy:
        """Which NUMA nodes are taken first."""
        most = self.numa_scoring_strategy.type == MOST_ALLOCATED
        return Strategy.MOST_ALLOCATED if most else Strategy.LEAST_ALLOCATED

    @property
    def scope(self) -> TopologyScope:
        """The scope as a value."""
        return TopologyScope(self.default_numa_topology_scope)

    @property
    def weights(self) -> Mapping[str, int]:
        """How much each resource counts for nodes on which the pod is not aligned."""
        resources = self.scoring_strategy.resources or _RESOURCES
        return {resource.name: resource.weight or 1 for resource in resources}


def read_args(args: Mapping[str, object]) -> NodeNUMAResourceArgs:
    """Return *args* with defaults.

    Raises:
        ConfigError: they are not valid; it names the field.
    """
    given = {name: value for name, value in args.items() if name not in _TYPE_META}
    read = convert(NodeNUMAResourceArgs, given, NodeNUMAResourceArgs.__name__)
    problems = [*unknown_fields(given, NodeNUMAResourceArgs), *_problems(read)]
    if problems:
        raise ConfigError(f"NodeNUMAResourceArgs: {', '.join(problems)}")
    return read


def _problems(args: NodeNUMAResourceArgs) -> Iterator[str]:
    if args.default_cpu_bind_policy not in _BIND_POLICIES:
        yield (
            f"defaultCPUBindPolicy: {args.default_cpu_bind_policy!r}: "
            "must specified CPU bind policy FullPCPUs or SpreadByPCPUs"
        )
    if args.default_numa_topology_scope not in tuple(TopologyScope):
        yield (
            f"defaultNUMATopologyScope: {args.default_numa_topology_scope!r}: use"
            f" {TopologyScope.POD} or {TopologyScope.CONTAINER}"
        )
    for name in args.ignored_resources:
        if device_type_of(name):
            yield f"ignoredResources: {name}: devices that the scheduler gives out are aligned"
        yield from (f"ignoredResources: {name!r}: {one}" for one in qualified_name(name))
    for name, strategy in (
        ("scoringStrategy", args.scoring_strategy),
        ("numaScoringStrategy", args.numa_scoring_strategy),
    ):
        if strategy.type not in ("", LEAST_ALLOCATED, MOST_ALLOCATED):
            yield f"{name}.type: {strategy.type!r}: use {LEAST_ALLOCATED} or {MOST_ALLOCATED}"
