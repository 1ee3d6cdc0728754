"""Every plugin there is, and those that a profile has unless it says otherwise.

Besides ours these are the plugins of installed packages (entry points of the group
`numakube.scheduling.framework.registry.ENTRY_POINTS`); they take part where a profile names them.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Final

from numakube.api.scheduler_config import PluginRef
from numakube.apps.scheduler.binder import DefaultBinder
from numakube.errors import ConfigError
from numakube.scheduling.config.profiles import Defaults
from numakube.scheduling.framework.registry import ENTRY_POINTS
from numakube.scheduling.numa.topology_match import REGISTRY as NUMA_PLUGINS
from numakube.scheduling.plugins.default_plugins import DEFAULT_PLUGINS, default_registry
from numakube.scheduling.plugins.rejection_guard import RejectionGuard
from numakube.scheduling.podlevel.registry import REGISTRY as PODLEVEL_PLUGINS
from numakube.scheduling.preemption.default_preemption import DefaultPreemption
from numakube.scheduling.preemption.preemption_args import REGISTRY as PREEMPTION_PLUGINS

if TYPE_CHECKING:
    from numakube.scheduling.framework.registry import Factory

_BEFORE: Final = "NodeResourcesBalancedAllocation"
"""kube-scheduler has preemption right before this plugin; the order shows in its messages."""


def our_plugins() -> dict[str, Factory]:
    """Return the factory of each plugin of ours."""
    return {
        **default_registry(),
        **NUMA_PLUGINS,
        **PODLEVEL_PLUGINS,
        **PREEMPTION_PLUGINS,
        DefaultBinder.name: DefaultBinder.make,
        RejectionGuard.name: RejectionGuard.make,
    }


def all_plugins() -> dict[str, Factory]:
    """Return the factory of every plugin, those of installed packages included.

    Raises:
        ConfigError: a package offers a plugin under the name of one of ours, or cannot be loaded.
    """
    registry = our_plugins()
    for point in entry_points(group=ENTRY_POINTS):
        if point.name in registry:
            raise ConfigError(f"plugin {point.name} of {point.value}: the name is taken")
        try:
            registry[point.name] = point.load()
        except Exception as error:
            raise ConfigError(f"plugin {point.name} of {point.value}: {error!r}") from error
    return registry


def default_profile() -> Defaults:
    """Return the plugins of a profile that names none."""
    refs = [
        PluginRef(name=name, weight=plugin.weight or None)
        for name, plugin in DEFAULT_PLUGINS.items()
    ]
    position = next(index for index, ref in enumerate(refs) if ref.name == _BEFORE)
    refs.insert(position, PluginRef(name=DefaultPreemption.name))
    refs.insert(0, PluginRef(name=RejectionGuard.name))
    refs.append(PluginRef(name=DefaultBinder.name))
    return Defaults(tuple(refs))
