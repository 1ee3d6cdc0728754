"""A scheduler's deciding half: every plugin there is, and profiles made of them.

All profiles share one state of the cluster and one NUMA cache. Besides ours there are the plugins
of annexes and of other installed packages, found by entry points; they take part where a profile
names them. What binds pods is given by the caller, because it acts on a cluster.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.annexes import Group, added_to, annexes, load, points
from numakube.api.scheduler_config import (
    POINT_FIELDS,
    SCHEDULER_NAME,
    KubeSchedulerConfiguration,
    LeaderElectionConfig,
    PluginRef,
    Plugins,
    numa_configuration,
)
from numakube.errors import ConfigError
from numakube.scheduling.config.read_configuration import Defaults, make_runtime, unused_settings
from numakube.scheduling.framework.plugins import Nominations
from numakube.scheduling.framework.registry import Handle, Services
from numakube.scheduling.numa.caches.passthrough import Passthrough
from numakube.scheduling.numa.topology_match import (
    REGISTRY as NUMA_PLUGINS,
)
from numakube.scheduling.numa.topology_match import (
    SCHEDULER_NAMES,
    SHARED_CACHE,
)
from numakube.scheduling.numa.topology_match_args import DEFAULT_RESYNC_SECONDS
from numakube.scheduling.plugins.default_plugins import DEFAULT_PLUGINS, default_registry
from numakube.scheduling.plugins.gang_scheduling import GangScheduling
from numakube.scheduling.plugins.node_shards import NodeShards
from numakube.scheduling.plugins.rejection_guard import RejectionGuard
from numakube.scheduling.preemption.default_preemption import REGISTRY as PREEMPTION_PLUGINS
from numakube.scheduling.preemption.default_preemption import DefaultPreemption
from numakube.scheduling.snapshot.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from numakube.api.scheduler_config import PluginSet, ProfileConfig
    from numakube.scheduling.framework.registry import Factory, Registry
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.numa.caches.cache_contract import NumaCache

DEFAULT_BINDER: Final = "DefaultBinder"
"""The plugin that binds pods unless a profile says otherwise; each caller has its own."""

_BEFORE: Final = "NodeResourcesBalancedAllocation"
"""kube-scheduler has preemption right before this plugin; the order shows in its messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What decides.

    Attributes:
        runtimes: the plugins of each profile by the name that pods ask for.
        resync_seconds: how often the cache settles doubts.
        notes: what is to be logged about the configuration.
    """

    cluster: Cluster
    nominations: Nominations
    cache: NumaCache
    guard: RejectionGuard
    shards: NodeShards
    runtimes: Mapping[str, Runtime]
    resync_seconds: float = DEFAULT_RESYNC_SECONDS
    notes: tuple[str, ...] = ()

    def runtime_for(self, scheduler_name: str) -> Runtime:
        """Return the plugins that decide about pods of *scheduler_name*, or else the first."""
        first = next(iter(self.runtimes.values()))
        return self.runtimes.get(scheduler_name, first)


def assemble(
    config: KubeSchedulerConfiguration, registry: Registry, services: Services | None = None
) -> Engine:
    """Make the plugins of every profile.

    Raises:
        ConfigError: a profile cannot be made; it says which, and why.
    """
    cluster, nominations, services = Cluster(), Nominations(), services or Services()
    services.offer(
        SCHEDULER_NAMES, frozenset(profile.scheduler_name for profile in config.profiles)
    )
    runtimes: dict[str, Runtime] = {}
    for profile in config.profiles:
        handle = Handle(
            cluster=cluster,
            nominations=nominations,
            services=services,
            profile=profile.scheduler_name,
        )
        runtimes[profile.scheduler_name] = make_runtime(
            profile, defaults=default_profile(), registry=registry, handle=handle
        )
    shared = services.get(SHARED_CACHE)
    return Engine(
        cluster=cluster,
        nominations=nominations,
        # Without the NUMA plugin beliefs are of no use, but reports still come.
        cache=shared.cache if shared is not None else Passthrough(),
        guard=RejectionGuard.shared(services),
        shards=NodeShards.shared(services),
        runtimes=runtimes,
        resync_seconds=float(
            shared.settings.resync_seconds if shared is not None else DEFAULT_RESYNC_SECONDS
        ),
        notes=(
            *unused_settings(config),
            *dict.fromkeys(note for runtime in runtimes.values() for note in _notes(runtime)),
        ),
    )


def _notes(runtime: Runtime) -> tuple[str, ...]:
    return tuple(
        f"profile {runtime.profile.scheduler_name}: {note}"
        for plugin in runtime.profile.plugins().values()
        for note in plugin.notes
    )


def our_plugins(binder: Factory) -> dict[str, Factory]:
    """Return the factory of each plugin of ours; *binder* makes the one that binds pods."""
    return {
        **default_registry(),
        **NUMA_PLUGINS,
        **PREEMPTION_PLUGINS,
        DEFAULT_BINDER: binder,
        NodeShards.name: NodeShards.make,
        RejectionGuard.name: RejectionGuard.make,
        GangScheduling.name: GangScheduling.make,
    }


def all_plugins(binder: Factory) -> dict[str, Factory]:
    """Return the factory of every plugin, those of installed packages included.

    Raises:
        ConfigError: a package offers a plugin under the name of one of ours, or cannot be loaded.
    """
    registry = our_plugins(binder)
    for name, place in points(Group.PLUGINS).items():
        if name in registry:
            raise ConfigError(f"plugin {name} of {place}: the name is taken")
        try:
            registry[name] = load(Group.PLUGINS, name)
        except Exception as error:
            raise ConfigError(f"plugin {name} of {place}: {error!r}") from error
    return registry


def default_profile() -> Defaults:
    """Return the plugins of a profile that names none."""
    refs = [
        PluginRef(name=name, weight=plugin.weight or None)
        for name, plugin in DEFAULT_PLUGINS.items()
    ]
    position = next(index for index, ref in enumerate(refs) if ref.name == _BEFORE)
    refs.insert(position, PluginRef(name=DefaultPreemption.name))
    ours = (NodeShards.name, RejectionGuard.name, GangScheduling.name)
    refs[:0] = [PluginRef(name=name) for name in ours]
    refs += _by_default()
    refs.append(PluginRef(name=DEFAULT_BINDER))
    return Defaults(tuple(refs))


def _by_default() -> list[PluginRef]:
    """Return the plugins of installed annexes that profiles have unless they disable them."""
    installed = points(Group.PLUGINS)
    return [
        PluginRef(name=added.name, weight=added.weight or None)
        for annex in annexes()
        for added in annex.plugins
        if added.by_default and added.name in installed
    ]


def default_configuration(scheduler_name: str = SCHEDULER_NAME) -> KubeSchedulerConfiguration:
    """Return the configuration of a scheduler that was told nothing, with what is installed."""
    election = LeaderElectionConfig(resource_name=scheduler_name)
    config = without_absent_plugins(numa_configuration((scheduler_name,)))
    return msgspec.structs.replace(config, leader_election=election)


def without_absent_plugins(config: KubeSchedulerConfiguration) -> KubeSchedulerConfiguration:
    """Return *config* without the plugins of annexes that are not installed.

    So whoever has the heart alone can look at a cluster whose schedulers have annexes too.
    """
    absent = added_to(Group.PLUGINS).keys() - points(Group.PLUGINS).keys()
    if not absent:
        return config
    return msgspec.structs.replace(
        config, profiles=tuple(_without(profile, absent) for profile in config.profiles)
    )


def _without(profile: ProfileConfig, absent: Collection[str]) -> ProfileConfig:
    """Return *profile* without the plugins *absent* and their arguments."""

    def kept(one: PluginSet) -> PluginSet:
        enabled = tuple(ref for ref in one.enabled if ref.name not in absent)
        return msgspec.structs.replace(one, enabled=enabled)

    plugins = profile.plugins
    points_of = {field: kept(getattr(plugins, field)) for field in POINT_FIELDS.values()}
    return msgspec.structs.replace(
        profile,
        plugins=Plugins(**points_of, multi_point=kept(plugins.multi_point)),
        plugin_config=tuple(
            config for config in profile.plugin_config if config.name not in absent
        ),
    )
