"""The scheduler's own engine, filled with the facts of a cluster, with nothing to act on.

It is assembled as in the scheduler process, and learns of every node, report and pod once, as a
scheduler does that has just started.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import fields
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.errors import ConfigError, InvalidValue, NumakubeError
from numakube.scheduling.assembly import (
    DEFAULT_BINDER,
    all_plugins,
    assemble,
    default_configuration,
    without_absent_plugins,
)
from numakube.scheduling.config.read_configuration import read_configuration
from numakube.scheduling.framework.plugins import Bind
from numakube.scheduling.framework.registry import Services
from numakube.scheduling.framework.status import Status, failure
from numakube.scheduling.numa.caches.report_coverage import PATIENCE_SECONDS
from numakube.scheduling.plugins.dynamic_resources.claim_binding import KUBERNETES_MINOR
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from numakube.api.pod import Pod
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.numa.caches.cache_contract import NumaCache
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges


_ALONE: Final = suppress(Exception)
"""An object that cannot be taken over counts for nothing, as it does for a scheduler."""


class BindsNothing(Bind):
    """Stands where the scheduler has what binds pods."""

    name = DEFAULT_BINDER

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> BindsNothing:
        """Make the plugin."""
        del args, handle
        return cls()

    async def bind(self, state: CycleState, pod: PodInfo, node: str) -> Status:
        """Refuse: an explanation changes nothing."""
        del state, pod, node
        return failure("an explanation binds nothing")


def engine_of(
    facts: ClusterFacts,
    config: KubeSchedulerConfiguration | None = None,
    scheduler: str = "",
) -> Engine:
    """Return an engine that knows *facts*.

    Args:
        facts: the cluster.
        config: the scheduler's configuration; by default what the scheduler said of itself, or the
            its default one.
        scheduler: of several schedulers, the one that serves this name is meant.
    """
    chosen = config or configuration_in(facts, scheduler) or default_configuration()
    services = Services()
    services.offer(KUBERNETES_MINOR, facts.kubernetes_minor)
    engine = assemble(chosen, all_plugins(BindsNothing.make), services)
    fill(engine, facts)
    return engine


def tried(
    tree: Mapping[str, object], source: str, note: Callable[[str], None] = lambda _: None
) -> KubeSchedulerConfiguration:
    """Return the configuration in *tree*, of which every plugin could be made.

    What is to be written otherwise today goes to *note*.

    Raises:
        ConfigError: a scheduler would not start with it; it says what is wrong where.
    """
    config = read_configuration(tree, source=source, note=note)
    if not config.profiles:
        raise ConfigError(f"{source}: profiles: at least one is required")
    try:
        assemble(config, all_plugins(BindsNothing.make))
    except ConfigError as error:
        raise ConfigError(f"{source}: {error}") from None
    return config


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
    if any(facts.orphans()):
        _apply(engine, settle_orphans(cache))
    cluster.objects_changed()


def settle_doubts(cache: NumaCache) -> BeliefChanges:
    """Let the patience with reports that name no pods pass."""
    return cache.resync(0.0) + cache.resync(PATIENCE_SECONDS)


def settle_orphans(cache: NumaCache) -> BeliefChanges:
    """Let the patience with exporters pass that are gone; *cache* knows all pods by now."""
    return cache.resync(2 * PATIENCE_SECONDS)


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


def _apply(engine: Engine, changes: BeliefChanges) -> None:
    engine.cluster.take(changes, engine.cache)


def configuration_in(facts: ClusterFacts, scheduler: str = "") -> KubeSchedulerConfiguration | None:
    """Return the configuration of the scheduler in *facts* that serves *scheduler*, or of any.

    ``None`` if none publishes it.
    """
    found = list(_configurations(facts))
    named = (
        configuration
        for configuration in found
        if scheduler in {each.scheduler_name for each in configuration.profiles}
    )
    return next(named, found[0] if found else None)


def _configurations(facts: ClusterFacts) -> Iterator[KubeSchedulerConfiguration]:
    for told in facts.schedulers.values():
        document = told.documents.get("configz")
        tree: Any = next(iter(document.values()), None) if isinstance(document, dict) else None
        if not isinstance(tree, dict):
            continue
        try:
            config = without_absent_plugins(
                read_configuration(tree, source=f"configuration of {told.name}")
            )
        except (NumakubeError, msgspec.ValidationError):
            continue
        if config.profiles:
            yield config
