"""KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1): a scheduler's configuration.

Only what numakube acts upon; arguments of plugins stay trees that each plugin reads itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from numakube.api.wire import DurationText, Wire, always

API_VERSION: Final = "kubescheduler.config.k8s.io/v1"
KIND: Final = "KubeSchedulerConfiguration"


class PluginRef(Wire, frozen=True):
    """A plugin by name; no weight means the default one."""

    name: str
    weight: int | None = None


class PluginSet(Wire, frozen=True):
    """Plugins to switch on, in order, and to switch off; ``*`` switches all defaults off."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(Wire, frozen=True):
    """Plugins by extension point; ``multi_point`` stands for every point a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    confirm: PluginSet = PluginSet()
    """An extension point of numakube's own."""
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()


SCHEDULER_NAME: Final = "numakube-scheduler"
"""What pods name to be placed by us, unless another name is configured."""
DEFAULT_SCHEDULER: Final = "default-scheduler"
"""What pods are given that name none."""
SHARD_LABEL: Final = "numakube.dev/shard"
"""On a node: the shard that owns it while that shard is alive. On a lease: whose it is."""
HOLDER_PREFIX: Final = "numakube-scheduler_"
"""How the holder of a lease begins that is a scheduler of ours."""
MAIN_LEASE: Final = ("kube-system", "kube-scheduler")
"""Namespace and name of the lease that a kube-scheduler of the control plane holds."""


class PluginConfig(Wire, frozen=True):
    """The arguments of one plugin."""

    name: str
    args: dict[str, Any] = {}


class ProfileConfig(Wire, frozen=True):
    """How pods with one ``schedulerName`` are scheduled."""

    scheduler_name: str = always(DEFAULT_SCHEDULER)
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()
    percentage_of_nodes_to_score: int | None = None


class LeaderElectionConfig(Wire, frozen=True):
    """Which lease decides who leads, and how fast another takes over."""

    leader_elect: bool = True
    lease_duration: DurationText = "15s"
    renew_deadline: DurationText = "10s"
    retry_period: DurationText = "2s"
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnectionConfig(Wire, frozen=True):
    """How the API server is reached."""

    kubeconfig: str = ""
    qps: float = 50
    burst: int = 100


class KubeSchedulerConfiguration(Wire, frozen=True):
    """The whole file."""

    profiles: tuple[ProfileConfig, ...] = ()
    leader_election: LeaderElectionConfig = LeaderElectionConfig()
    client_connection: ClientConnectionConfig = ClientConnectionConfig()
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    percentage_of_nodes_to_score: int | None = None
    parallelism: int = 16
    extenders: tuple[dict[str, Any], ...] = ()
    api_version: str = always(API_VERSION)
    kind: str = always(KIND)


NUMA_PLUGIN: Final = "NodeResourceTopologyMatch"
NUMA_PLUGINS: Final = (NUMA_PLUGIN, "NodeNUMAResource")
"""What makes a profile NUMA-aware, besides kube-scheduler's own plugins."""
NUMA_WEIGHT: Final = 5
"""Alignment outweighs any single default score, but not what a user asks for by affinity."""


def numa_profile(
    name: str, args: Mapping[str, Any] | None = None, *, weight: int | None = NUMA_WEIGHT
) -> ProfileConfig:
    """Return a profile with the NUMA plugins; *args* are those of NodeResourceTopologyMatch."""
    enabled = tuple(PluginRef(name=plugin, weight=weight) for plugin in NUMA_PLUGINS)
    told = (PluginConfig(name=NUMA_PLUGIN, args=dict(args)),) if args else ()
    plugins = Plugins(multi_point=PluginSet(enabled=enabled))
    return ProfileConfig(scheduler_name=name, plugins=plugins, plugin_config=told)


def numa_configuration(
    names: Iterable[str], args: Mapping[str, Any] | None = None
) -> KubeSchedulerConfiguration:
    """Return a configuration with a NUMA-aware profile for each of *names*."""
    return KubeSchedulerConfiguration(profiles=tuple(numa_profile(name, args) for name in names))


def configuration_tree(config: KubeSchedulerConfiguration) -> dict[str, Any]:
    """Return *config* as it stands in a file."""
    tree: dict[str, Any] = msgspec.to_builtins(config)
    return {"apiVersion": API_VERSION, "kind": KIND, **tree}


POINT_FIELDS: Final = {
    field.encode_name: field.name
    for field in msgspec.structs.fields(Plugins)
    if field.name != "multi_point"
}
"""Attribute of `Plugins` by the name of the extension point in the file."""
