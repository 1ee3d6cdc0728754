"""The plugins with which an extender says whether pods would fit.

kube-scheduler has plugins of its own, which an extender does not see; these are the same by their
verdicts, with what an extender knows: nodes, pods, reports, devices and budgets. Volumes and claims
for devices are not judged.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.api.scheduler_config import PluginRef
from numakube.insight.scheduler_engine import BindsNothing
from numakube.scheduling.assembly import assemble, default_configuration, our_plugins
from numakube.scheduling.numa.topology_match import NodeResourceTopologyMatch, make_engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.numa.caches.cache_contract import NumaCache
    from numakube.scheduling.numa.topology_match_args import Settings

_NOT_SEEN: Final = (
    *("VolumeRestrictions", "NodeVolumeLimits", "VolumeBinding", "VolumeZone"),
    "DynamicResources",
)


def fit_engine(settings: Settings, cache: NumaCache) -> Engine:
    """Return the plugins, with a cluster of their own and the beliefs of *cache*."""

    def numa(args: Mapping[str, object], handle: Handle) -> NodeResourceTopologyMatch:
        del args
        return NodeResourceTopologyMatch(
            make_engine(settings),
            cache,
            handle.cluster,
            simulates_evictions=settings.simulates_evictions,
        )

    config = default_configuration()
    (profile,) = config.profiles
    points = profile.plugins.multi_point
    off = (*points.disabled, *(PluginRef(name=name) for name in _NOT_SEEN))
    points = msgspec.structs.replace(points, disabled=off)
    plugins = msgspec.structs.replace(profile.plugins, multi_point=points)
    profile = msgspec.structs.replace(profile, plugins=plugins)
    registry = {**our_plugins(BindsNothing.make), NodeResourceTopologyMatch.name: numa}
    return replace(
        assemble(msgspec.structs.replace(config, profiles=(profile,)), registry), cache=cache
    )
