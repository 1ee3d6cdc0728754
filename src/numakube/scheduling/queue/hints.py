"""What profiles say about waiting pods, for the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.scheduling.framework.plugins import QueueSort
from numakube.scheduling.framework.status import SUCCESS, Status

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.framework.events import ClusterEvent, EventKind
    from numakube.scheduling.framework.plugins import Plugin
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.snapshot.pods import PodInfo


class ProfileHints:
    """Asks the profile that a pod belongs to.

    The queue is one for all profiles, so they must all sort it alike; the first one's plugin does.
    """

    def __init__(self, runtimes: Mapping[str, Runtime]) -> None:
        self._runtimes = runtimes
        self._plugins: dict[str, dict[str, Plugin]] = {
            name: runtime.profile.plugins() for name, runtime in runtimes.items()
        }
        self._sort = next(iter(runtimes.values())).profile.at(QueueSort)[0]

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return a refusal if *pod* must not be tried yet."""
        runtime = self._runtimes.get(pod.scheduler_name)
        return SUCCESS if runtime is None else runtime.pre_enqueue(pod)

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[Any, ...]:
        """Return what active pods are ordered by."""
        return self._sort.sort_key(pod, queued_at)

    def cares(self, refused_by: frozenset[str], kind: EventKind) -> bool:
        """Tell whether *kind* can matter to any pod refused by those plugins."""
        return any(
            plugins[name].wakes_on & kind
            for plugins in self._plugins.values()
            for name in refused_by & plugins.keys()
        )

    def wakes(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """Tell whether *event* may let *pod*, refused by those plugins, fit."""
        plugins = self._plugins.get(pod.scheduler_name, {})
        for name in refused_by:
            plugin = plugins.get(name)
            if plugin is None or (plugin.wakes_on & event.kind and _wakes(plugin, pod, event)):
                return True
        return False


def _wakes(plugin: Plugin, pod: PodInfo, event: ClusterEvent) -> bool:
    """Ask *plugin*; if it cannot tell, the pod is better tried in vain than left to wait."""
    try:
        return plugin.wakes(pod, event)
    except Exception:
        return True
