"""The engine behind ``explain``: the scheduler's own plugins, with nothing to act on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from numakube.apps.scheduler.assembly import assemble
from numakube.apps.scheduler.binder import DefaultBinder
from numakube.apps.scheduler.catalogue import all_plugins, default_profile
from numakube.apps.scheduler.settings import default_configuration
from numakube.errors import NumakubeError
from numakube.insight.engine import Engine, fill
from numakube.scheduling.config.read_configuration import read_configuration
from numakube.scheduling.framework.plugins import Bind
from numakube.scheduling.framework.status import Status, failure

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.framework.registry import Handle
    from numakube.scheduling.framework.state import CycleState
    from numakube.scheduling.snapshot.pods import PodInfo


class _BindsNothing(Bind):
    """Stands where the scheduler has what binds pods."""

    name = DefaultBinder.name

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> _BindsNothing:
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
            one that it has if nobody configures it.
        scheduler: of several schedulers, the one that serves this name is meant.
    """
    registry = {**all_plugins(), _BindsNothing.name: _BindsNothing.make}
    chosen = config or configuration_in(facts, scheduler) or default_configuration()
    parts = assemble(chosen, defaults=default_profile(), registry=registry, services={})
    engine = Engine(
        cluster=parts.cluster,
        nominations=parts.nominations,
        cache=parts.cache,
        runtimes=parts.runtimes,
    )
    fill(engine, facts)
    return engine


def configuration_in(facts: ClusterFacts, scheduler: str = "") -> KubeSchedulerConfiguration | None:
    """Return what the scheduler in *facts* is told that serves the name *scheduler*, or any.

    ``None`` if none says what it is told.
    """
    found = list(_configurations(facts))
    named = (one for one in found if scheduler in {each.scheduler_name for each in one.profiles})
    return next(named, found[0] if found else None)


def _configurations(facts: ClusterFacts) -> Iterator[KubeSchedulerConfiguration]:
    for told in facts.schedulers.values():
        document = told.documents.get("configz")
        tree: Any = next(iter(document.values()), None) if isinstance(document, dict) else None
        if not isinstance(tree, dict):
            continue
        try:
            config = read_configuration(tree, source=f"configuration of {told.name}")
        except (NumakubeError, msgspec.ValidationError):
            continue
        if config.profiles:
            yield config
