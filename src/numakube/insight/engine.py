"""A scheduler's own parts, filled with the facts of a cluster: what it would decide, without it.

The parts are those that the scheduler process assembles; here they are told of every node, report
and pod once, as a scheduler is that has just started.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, fields
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from numakube.errors import InvalidValue
from numakube.scheduling.numa.caches.report_coverage import PATIENCE_SECONDS
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numakube.api.core import Pod
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.framework.nominations import Nominations
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.numa.caches.contract import Changes, NumaCache
    from numakube.scheduling.snapshot.cluster import Cluster


_ALONE: Final = suppress(Exception)
"""An object that cannot be taken over counts for nothing, as it does for a scheduler."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """What decides.

    Attributes:
        runtimes: the plugins of each profile by the name that pods ask for.
    """

    cluster: Cluster
    nominations: Nominations
    cache: NumaCache
    runtimes: Mapping[str, Runtime]

    def runtime_for(self, scheduler_name: str) -> Runtime:
        """Return the plugins that decide about pods of *scheduler_name*, or else the first."""
        first = next(iter(self.runtimes.values()))
        return self.runtimes.get(scheduler_name, first)


def fill(engine: Engine, facts: ClusterFacts) -> None:
    """Tell the parts of *engine* everything that is known."""
    cluster, cache = engine.cluster, engine.cache
    # Plugins have taken hold of the mappings already, so these are filled, not replaced.
    for kind in fields(facts.objects):
        getattr(cluster.objects, kind.name).update(getattr(facts.objects, kind.name))
    for _, node in sorted(facts.nodes.items()):
        with _ALONE:
            cluster.set_node(node)
    settled, recent = _by_age(facts)
    _see(engine, settled)
    for topology in facts.topologies.values():
        with _ALONE:
            _apply(engine, cache.set_report(topology))
    # Reports that name no pods are taken to contain what has run for longer than the patience.
    _apply(engine, settle_doubts(cache))
    _see(engine, recent)
    cluster.objects_changed()


def settle_doubts(cache: NumaCache) -> Changes:
    """Let the patience with reports that name no pods pass."""
    return cache.resync(0.0) + cache.resync(PATIENCE_SECONDS)


def _by_age(facts: ClusterFacts) -> tuple[list[Pod], list[Pod]]:
    """Return the pods that have been bound for a while, and the others."""
    try:
        since = parse_time(facts.taken_at) - timedelta(seconds=PATIENCE_SECONDS)
    except InvalidValue:
        return list(facts.pods), []
    settled: list[Pod] = []
    recent: list[Pod] = []
    for pod in facts.pods:
        started = pod.status.start_time if pod.status else None
        try:
            young = started is None or parse_time(started) > since
        except InvalidValue:
            young = False
        (recent if young else settled).append(pod)
    return settled, recent


def _see(engine: Engine, pods: Iterable[Pod]) -> None:
    for pod in pods:
        with _ALONE:
            _see_one(engine, PodInfo(pod))


def _see_one(engine: Engine, info: PodInfo) -> None:
    _apply(engine, engine.cache.pod_seen(info))
    if info.has_ended:
        return
    if info.node_name:
        engine.cluster.place(info, info.node_name)
    elif info.nominated_node_name:
        engine.nominations.nominate(info, info.nominated_node_name)


def _apply(engine: Engine, changes: Changes) -> None:
    for node in changes.nodes:
        engine.cluster.set_belief(node, engine.cache.belief(node))
