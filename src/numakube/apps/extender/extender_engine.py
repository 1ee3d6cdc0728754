"""The extender's engines: who aligns a pod, and whether pods would fit.

Where a kubelet aligns pods the NUMA engine decides, as ever. Where none does, pods that ask for it
by annotations and labels are given NUMA nodes, CPUs and devices by a plugin of the scheduler, as
`numakube run scheduler` does; an annex brings it, under the name `ALLOTTING_PLUGIN`. A node must
pass both; each lets pass what is the other's business. Without the annex the NUMA engine decides
alone.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np

from numakube.annexes import Group, added_to, load, points
from numakube.api.scheduler_config import ALLOTTING_PLUGIN, PluginRef
from numakube.errors import ConfigError
from numakube.insight.scheduler_engine import BindsNothing
from numakube.scheduling.assembly import all_plugins, assemble, default_configuration
from numakube.scheduling.framework.cycle_state import CycleState, StateKey, annotations_of
from numakube.scheduling.framework.registry import Handle
from numakube.scheduling.framework.status import SKIP, Verdicts
from numakube.scheduling.numa.topology_match import NodeResourceTopologyMatch, make_engine

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.scheduling.arrays import Ratings, Rows
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.plugins import AllottingPlugin
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.numa.caches.cache_contract import NumaCache
    from numakube.scheduling.numa.topology_match import NumaEngine
    from numakube.scheduling.numa.topology_match_args import Settings
    from numakube.scheduling.snapshot.cluster import Cluster, Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


_READ: Final = StateKey["Status"]("allotting-wish")
_RATES: Final = StateKey[bool]("allotting-rates")


def allotting_plugin(args: Mapping[str, object], cluster: Cluster) -> AllottingPlugin | None:
    """Return the plugin, made from its arguments; ``None`` if no annex brings it.

    Raises:
        ConfigError: the arguments make no sense, or there are some and no plugin.
    """
    if ALLOTTING_PLUGIN in points(Group.PLUGINS):
        make = load(Group.PLUGINS, ALLOTTING_PLUGIN)
        plugin: AllottingPlugin = make(args, Handle(cluster=cluster))
        return plugin
    if args:
        annex = added_to(Group.PLUGINS)[ALLOTTING_PLUGIN]
        raise ConfigError(
            f"there are arguments of {ALLOTTING_PLUGIN}, which is not installed: "
            f"pip install 'numakube[{annex.extra}]'"
        )
    return None


class AllottingEngine:
    """A `NumaEngine` that also allots; the state of a cycle carries what a pod wishes."""

    def __init__(
        self, cluster: Cluster, engine: NumaEngine, plugin: AllottingPlugin | None
    ) -> None:
        self._cluster = cluster
        self._engine = engine
        self._plugin = plugin

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can take *pod*."""
        status = self._engine.filter(state, pod, node)
        if not status.ok or self._plugin is None:
            return status
        wish = self._wish(state, pod)
        return wish if _is_refusal(wish) else self._plugin.filter(state, pod, node)

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Tell which of *rows* can take *pod*; ``None`` if all of them can."""
        wish = self._wish(state, pod)
        if _is_refusal(wish):
            return Verdicts.where(np.zeros(len(rows), dtype=np.bool_), wish)
        aligned = self._engine.filter_all(state, pod, snapshot, rows)
        if self._plugin is None:
            return aligned
        allotted = self._plugin.filter_all(state, pod, snapshot, rows)
        return allotted if aligned is None else aligned.then(allotted)

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node*."""
        score = self._engine.score(state, pod, node)
        if self._plugin is None or not state.read(_RATES):
            return score
        return (score + self._plugin.score(state, pod, node)) // 2

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate the nodes at *rows*; both opinions count the same, as in the default profile."""
        scores = self._engine.score_all(state, pod, snapshot, rows)
        plugin = self._plugin
        rates = (
            plugin is not None
            and self._wish(state, pod).ok
            and plugin.pre_score(state, pod, snapshot, rows).ok
        )
        state.write(_RATES, rates)
        if plugin is None or not rates:
            return scores
        others = plugin.score_all(state, pod, snapshot, rows)
        return np.add(scores, others, dtype=np.int64) // 2

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Ask the kubelet model."""
        return self._engine.confirm(state, pod, node)

    def annotations(self, pod: PodInfo, node: NodeInfo) -> Mapping[str, str]:
        """Return what the binding of *pod* to *node*, which admits it, has to write."""
        state = CycleState()
        if self._plugin is not None and self._wish(state, pod).ok:
            self._plugin.reserve(state, pod, node)
        return annotations_of(state)

    def expect(self, pod: PodInfo, node: NodeInfo) -> None:
        """Let *pod*, which is on its way, hold something of *node*, a copy."""
        if self._plugin is not None and self._wish(CycleState(), pod).ok:
            self._plugin.add_pod(CycleState(), pod, pod, node)

    def _wish(self, state: CycleState, pod: PodInfo) -> Status:
        """Read what *pod* wishes, once in a cycle; skipped if that is nothing."""
        if self._plugin is None:
            return SKIP
        known = state.read(_READ)
        if known is None:
            known = self._plugin.pre_filter(state, pod, self._cluster.snapshot()).status
            state.write(_READ, known)
        return known


def _is_refusal(status: Status) -> bool:
    return not (status.ok or status.skipped)


# The plugins with which an extender says whether pods would fit.
#
# kube-scheduler has plugins of its own, which an extender does not see; these are the same by their
# verdicts, with what an extender knows: nodes, pods, reports, devices and budgets. Volumes and
# claims for devices are not judged.


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
    everywhere = profile.plugins.multi_point
    off = (*everywhere.disabled, *(PluginRef(name=name) for name in _NOT_SEEN))
    everywhere = msgspec.structs.replace(everywhere, disabled=off)
    plugins = msgspec.structs.replace(profile.plugins, multi_point=everywhere)
    profile = msgspec.structs.replace(profile, plugins=plugins)
    registry = {**all_plugins(BindsNothing.make), NodeResourceTopologyMatch.name: numa}
    return replace(
        assemble(msgspec.structs.replace(config, profiles=(profile,)), registry), cache=cache
    )
