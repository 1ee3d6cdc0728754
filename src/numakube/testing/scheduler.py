"""The deciding half of a scheduler, one step at a time; nothing is bound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from numakube.api.scheduler_config import PluginRef, Plugins, PluginSet
from numakube.insight.scheduler_engine import BindsNothing, fill
from numakube.scheduling.assembly import all_plugins, assemble, default_configuration
from numakube.scheduling.cycle import Chosen, Cycle, Failed, FirstOfEquals, Refused
from numakube.scheduling.framework.cycle_state import as_bound
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing.pods import running

if TYPE_CHECKING:
    from numakube.api.nodes import Node
    from numakube.api.nrt import NodeResourceTopology
    from numakube.api.pod import Pod
    from numakube.api.scheduler_config import KubeSchedulerConfiguration
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.assembly import Engine
    from numakube.scheduling.framework.registry import Registry
    from numakube.scheduling.framework.runtime import Runtime
    from numakube.scheduling.snapshot.zone_belief import BeliefChanges


class Scheduler:
    """What a scheduler process decides, without the process.

    Attributes:
        engine: its plugins and what it knows of the cluster.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._cycle = Cycle(engine.cluster, engine.nominations, FirstOfEquals())

    @classmethod
    def of(
        cls,
        facts: ClusterFacts,
        config: KubeSchedulerConfiguration | None = None,
        plugins: Registry | None = None,
    ) -> Scheduler:
        """Return a scheduler that knows *facts*, with further *plugins*."""
        more = plugins or {}
        registry = {**all_plugins(BindsNothing.make), **more}
        engine = assemble(config or _enabling(more), registry)
        fill(engine, facts)
        return cls(engine)

    @property
    def runtime(self) -> Runtime:
        """The plugins of the first profile."""
        return next(iter(self.engine.runtimes.values()))

    def decide(self, one: Pod) -> Chosen | Refused:
        """Run a scheduling cycle: return where a pod goes, or why it goes nowhere."""
        runtime = self.engine.runtime_for(one.spec.scheduler_name)
        decision = self._cycle.decide(PodInfo(one), runtime)
        assert not isinstance(decision, Failed), decision
        return decision

    def reasons(self, one: Pod) -> set[str]:
        """Return why a pod fits nowhere."""
        decision = self.decide(one)
        assert isinstance(decision, Refused), decision
        diagnosis = decision.diagnosis
        if diagnosis.pre_filter is not None:
            return set(diagnosis.pre_filter.reasons)
        return {reason for _, status in diagnosis.groups() for reason in status.reasons}

    def assume(self, one: Pod) -> PodInfo:
        """Decide about a pod, reserve and assume it: all that precedes binding."""
        decision = self.decide(one)
        assert isinstance(decision, Chosen), decision
        node = self.engine.cluster.node(decision.node)
        assert node is not None
        info = PodInfo(one)
        runtime = self.engine.runtime_for(one.spec.scheduler_name)
        booking = runtime.reserve(decision.state, info, node)
        assert booking.ok, booking
        self._take(booking.changes)
        assumed = as_bound(decision.state, info)
        self.engine.cluster.place(assumed, decision.node)
        return assumed

    def run(self, one: Pod) -> Pod:
        """Schedule a pod and see it run; return it as it is then."""
        assumed = self.assume(one)
        node = self.engine.cluster.node_of(assumed.uid)
        assert node is not None
        there = running(assumed.pod, node)
        self.see(there)
        return there

    def set_node(self, node: Node) -> None:
        """See a node, or a change of it."""
        self.engine.cluster.set_node(node)

    def set_report(self, report: NodeResourceTopology) -> None:
        """See a report."""
        self._take(self.engine.cache.set_report(report))

    def see(self, one: Pod) -> None:
        """See a pod on its node."""
        info = PodInfo(one)
        self._take(self.engine.cache.pod_seen(info))
        self.engine.cluster.place(info, one.spec.node_name)

    def forget(self, uid: str) -> None:
        """See that a pod is gone."""
        self.engine.cluster.remove_pod(uid)
        self._take(self.engine.cache.pod_gone(uid))

    def _take(self, changes: BeliefChanges) -> None:
        self.engine.cluster.take(changes, self.engine.cache)


def _enabling(plugins: Registry) -> KubeSchedulerConfiguration:
    """Return the default configuration with *plugins* at every extension point of theirs."""
    config = default_configuration()
    (profile,) = config.profiles
    refs = tuple(PluginRef(name=name, weight=1) for name in plugins)
    enabled = (*profile.plugins.multi_point.enabled, *refs)
    told = Plugins(multi_point=PluginSet(enabled=enabled))
    replaced = msgspec.structs.replace(profile, plugins=told)
    return msgspec.structs.replace(config, profiles=(replaced,))
