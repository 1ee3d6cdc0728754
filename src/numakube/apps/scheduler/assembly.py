"""Profiles with their plugins, sharing one state of the cluster and one NUMA cache."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from numakube.scheduling.config.profiles import make_runtime
from numakube.scheduling.framework.nominations import Nominations
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.numa.caches.passthrough import Passthrough
from numakube.scheduling.numa.topology_match import (
    CACHE,
    CACHE_SETTINGS,
    SCHEDULER_NAMES,
    NodeResourceTopologyMatch,
)
from numakube.scheduling.numa.topology_match_args import CacheSettings
from numakube.scheduling.plugins.rejection_guard import RejectionGuard
from numakube.scheduling.podlevel.device_share import DeviceShare
from numakube.scheduling.snapshot.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.scheduling.config.profiles import Defaults
    from numakube.scheduling.framework.registry import Registry
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.numa.caches.contract import NumaCache


RESYNC_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """What a scheduler is made of."""

    cluster: Cluster
    nominations: Nominations
    cache: NumaCache
    guard: RejectionGuard
    runtimes: Mapping[str, Runtime]
    resync_seconds: float
    """How often the cache settles doubts."""
    notes: tuple[str, ...]
    """What is to be logged about the configuration."""


def assemble(
    config: KubeSchedulerConfiguration,
    *,
    defaults: Defaults,
    registry: Registry,
    services: Mapping[str, object],
) -> Parts:
    """Make the plugins of every profile.

    Raises:
        ConfigError: a profile cannot be made; it says which, and why.
    """
    cluster, nominations, shared = Cluster(), Nominations(), dict(services)
    shared[SCHEDULER_NAMES] = frozenset(one.scheduler_name for one in config.profiles)
    runtimes: dict[str, Runtime] = {}
    for profile in config.profiles:
        handle = Handle(cluster=cluster, nominations=nominations, services=shared)
        runtimes[profile.scheduler_name] = make_runtime(
            profile, defaults=defaults, registry=registry, handle=handle
        )
    # Without the NUMA plugin nobody asks for beliefs, but reports still come.
    cache = cast("NumaCache", shared.setdefault(CACHE, Passthrough()))
    guard = shared.get(RejectionGuard.name)
    return Parts(
        cluster=cluster,
        nominations=nominations,
        cache=cache,
        resync_seconds=_resync_seconds(shared.get(CACHE_SETTINGS)),
        notes=tuple(dict.fromkeys(note for one in runtimes.values() for note in _notes(one))),
        guard=guard if isinstance(guard, RejectionGuard) else RejectionGuard(),
        runtimes=runtimes,
    )


def _resync_seconds(settings: object) -> float:
    if isinstance(settings, CacheSettings) and settings.resync_seconds > 0:
        return float(settings.resync_seconds)
    return RESYNC_SECONDS


def _notes(runtime: Runtime) -> tuple[str, ...]:
    return tuple(
        f"profile {runtime.profile.scheduler_name}: {note}"
        for plugin in runtime.profile.plugins().values()
        if isinstance(plugin, NodeResourceTopologyMatch | DeviceShare)
        for note in plugin.notes
    )
