"""KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1): a scheduler's configuration.

Every field of the type is here (Kubernetes 1.37), so that none is passed over in silence: reading
one says which fields have no effect, and refuses what cannot be done. Arguments of plugins stay
trees that each plugin reads itself.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from numakube.api.codec import DurationText, Wire, always
from numakube.values.names import dns_subdomain

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


LATER_POINTS: Final = ("placementGenerate", "placementScore", "podGroupPostFilter")
"""Extension points of kube-scheduler 1.36 and later for groups of pods, which do not exist here."""
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
    resource_name: str = always(MAIN_LEASE[1])
    resource_namespace: str = MAIN_LEASE[0]


class ClientConnectionConfig(Wire, frozen=True):
    """How the API server is reached; what is empty or 0 was left open."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0
    burst: int = 0


class KubeSchedulerConfiguration(Wire, frozen=True):
    """The whole file."""

    profiles: tuple[ProfileConfig, ...] = ()
    leader_election: LeaderElectionConfig = LeaderElectionConfig()
    client_connection: ClientConnectionConfig = ClientConnectionConfig()
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    percentage_of_nodes_to_score: int | None = None
    parallelism: int | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    delay_cache_until_active: bool = False
    extenders: tuple[dict[str, Any], ...] = ()
    api_version: str = always(API_VERSION)
    kind: str = always(KIND)

    @property
    def serves_default(self) -> bool:
        """Whether pods that name no scheduler are this one's, so that it is the cluster's main."""
        return not self.profiles or DEFAULT_SCHEDULER in {
            profile.scheduler_name for profile in self.profiles
        }

    @property
    def own_lease(self) -> str:
        """The name of the lease where none is given: kube-scheduler's is for who does its work.

        A scheduler beside it that waited for that lease would never work, or keep kube-scheduler
        from its own.
        """
        if self.serves_default:
            return MAIN_LEASE[1]
        first = self.profiles[0].scheduler_name
        return SCHEDULER_NAME if dns_subdomain(first) else first


NUMA_PLUGIN: Final = "NodeResourceTopologyMatch"
ALLOTTING_PLUGIN: Final = "NodeNUMAResource"
"""Places pods itself where no kubelet aligns them; not every installation has it."""
NUMA_PLUGINS: Final = (NUMA_PLUGIN, ALLOTTING_PLUGIN)
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
