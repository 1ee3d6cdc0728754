"""What profiles say about waiting pods, for the queue."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numakube.scheduling.framework.cycle_state import CycleState
from numakube.scheduling.framework.plugins import Filter, QueueSort
from numakube.scheduling.framework.status import SUCCESS, Status

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from numakube.scheduling.framework.cluster_events import ClusterEvent, EventKind
    from numakube.scheduling.framework.nominations import Nominations
    from numakube.scheduling.framework.plugins import Plugin
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.snapshot.cluster import Cluster
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


class ProfileHints:
    """Asks the profile that a pod belongs to.

    The queue is one for all profiles, so they must all sort it alike; the first one's plugin does.
    """

    def __init__(
        self, runtimes: Mapping[str, Runtime], cluster: Cluster, nominations: Nominations
    ) -> None:
        self._runtimes = runtimes
        self._cluster = cluster
        self._nominations = nominations
        self._plugins: dict[str, dict[str, Plugin]] = {
            name: runtime.profile.plugins() for name, runtime in runtimes.items()
        }
        self._sort = next(iter(runtimes.values())).profile.at(QueueSort)[0]

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Return a refusal if *pod* must not be tried yet."""
        runtime = self._runtimes.get(pod.scheduler_name)
        return SUCCESS if runtime is None else runtime.pre_enqueue(pod)

    def opened_by(self, pod: PodInfo, gate: Status) -> Iterable[Hashable]:
        """Return what may open a *gate* that keeps *pod* back."""
        runtime = self._runtimes.get(pod.scheduler_name)
        return () if runtime is None else runtime.opened_by(pod, gate)

    def sort_key(self, pod: PodInfo, queued_at: float) -> tuple[Any, ...]:
        """Return what active pods are ordered by."""
        return self._sort.sort_key(pod, queued_at)

    def cares(self, refused_by: frozenset[str], kind: EventKind) -> bool:
        """Tell whether *kind* can matter to any pod refused by those plugins.

        What no plugin refused had no node to be tried on: anything may help it.
        """
        return not refused_by or any(
            plugins[name].wakes_on & kind
            for plugins in self._plugins.values()
            for name in refused_by & plugins.keys()
        )

    def likeness(self, pod: PodInfo, refused_by: frozenset[str]) -> Hashable:
        """Return what *pod* has in common with others that the same events wake.

        Pods of Jobs differ in labels, those of Spark in environments: thousands of pods that no
        node has room for wait for the same thing, and only what the hints look at tells them apart.
        """
        plugins, spec = self._plugins.get(pod.scheduler_name, {}), pod.pod.spec
        looked_at = [_likeness(plugins.get(name), pod) for name in sorted(refused_by)]
        return pod.scheduler_name, pod.priority, spec.preemption_policy, *looked_at

    def rules_out(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """Tell whether nothing but one node has changed, and that node still refuses *pod*.

        While room is kept for others, or the pod may evict others, more than that node matters.
        """
        plugins, node = self._plugins.get(pod.scheduler_name, {}), event.node_info
        if node is None or not refused_by <= plugins.keys() or self._may_gain_elsewhere(pod):
            return False
        refusing = [plugin for name, plugin in plugins.items() if name in refused_by]
        return not any(one.looks_beyond(pod, event) for one in refusing) and any(
            _refuses(one, pod, node) for one in refusing
        )

    def _may_gain_elsewhere(self, pod: PodInfo) -> bool:
        lowest = self._cluster.indexes.lowest_priority
        evicts = pod.pod.spec.preemption_policy != "Never"
        return bool(self._nominations) or (evicts and lowest is not None and lowest < pod.priority)

    def wakes(self, pod: PodInfo, refused_by: frozenset[str], event: ClusterEvent) -> bool:
        """Tell whether *event* may let *pod*, refused by those plugins, fit."""
        plugins = self._plugins.get(pod.scheduler_name, {})
        for name in refused_by:
            plugin = plugins.get(name)
            if plugin is None or (plugin.wakes_on & event.kind and _wakes(plugin, pod, event)):
                return True
        return not refused_by


def _likeness(plugin: Plugin | None, pod: PodInfo) -> Hashable:
    """Ask *plugin*; if it cannot tell, the pod is like no other."""
    try:
        return None if plugin is None else plugin.likeness(pod)
    except Exception:
        return pod.uid


def _refuses(plugin: Plugin, pod: PodInfo, node: NodeInfo) -> bool:
    """Ask *plugin* about one node; if it cannot tell, the pod is better tried in vain."""
    try:
        return isinstance(plugin, Filter) and not plugin.filter(CycleState(), pod, node).ok
    except Exception:
        return False


def _wakes(plugin: Plugin, pod: PodInfo, event: ClusterEvent) -> bool:
    """Ask *plugin*; if it cannot tell, the pod is better tried in vain than left to wait."""
    try:
        return plugin.wakes(pod, event)
    except Exception:
        return True
