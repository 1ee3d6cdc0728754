"""From a pod that fits nowhere to its place in a zone, with the real plugins."""

from __future__ import annotations

import numpy as np
from tests.scheduling.numa.caches.reported_node import ReportedNode, ended, pod, taken
from tests.scheduling.preemption.room import node_object

from numakube.api.pod import Pod
from numakube.scheduling.cycle import Chosen, Cycle, Failed, Refused
from numakube.scheduling.framework.registry import Handle, profile_of
from numakube.scheduling.framework.runtime import Runtime
from numakube.scheduling.numa.caches.predict import Predict
from numakube.scheduling.numa.native.native_engine import NativeEngine
from numakube.scheduling.numa.topology_match import NodeResourceTopologyMatch
from numakube.scheduling.plugins.default_plugins import default_registry
from numakube.scheduling.preemption.default_preemption import REGISTRY as PREEMPTION
from numakube.scheduling.snapshot.pods import PodInfo
from numakube.testing import bound


class Scheduler:
    """A cluster of simulated nodes, a profile and a cache."""

    def __init__(self, *sites: ReportedNode) -> None:
        self.sites = {site.name: site for site in sites}
        self.handle = Handle()
        self.cache = Predict()
        cluster = self.handle.cluster
        plugins = [
            default_registry()["NodeResourcesFit"]({}, self.handle),
            NodeResourceTopologyMatch(NativeEngine(), self.cache, cluster),
            PREEMPTION["DefaultPreemption"]({}, self.handle),
        ]
        self.runtime = self.handle.runtime = Runtime(profile_of("numakube", plugins))
        self.cycle = Cycle(cluster, self.handle.nominations, np.random.default_rng(0))
        for site in sites:
            cluster.set_node(node_object(site.name))
            self.report(site)

    def report(self, site: ReportedNode) -> None:
        """Let a node report."""
        self.handle.cluster.take(self.cache.set_report(site.report()), self.cache)

    def see(self, one: Pod) -> None:
        """Take over a version of a pod."""
        self.handle.cluster.take(self.cache.pod_seen(PodInfo(one)), self.cache)
        if PodInfo(one).has_ended:
            self.handle.cluster.remove_pod(one.metadata.uid)
        else:
            self.handle.cluster.place(PodInfo(one), one.spec.node_name)

    def decide(self, one: Pod) -> Chosen | Refused | Failed:
        """Decide about a pod."""
        return self.cycle.decide(PodInfo(one), self.runtime)

    def run(self, one: Pod, node: str) -> Pod:
        """Let a pod run on a node."""
        running = taken(bound(one, node))
        assert self.sites[node].admit(running)
        self.see(running)
        return running


def test_a_pod_gets_the_zone_of_the_pod_that_had_to_leave_it() -> None:
    """And nobody else leaves."""
    site = ReportedNode.make("n1")
    scheduler = Scheduler(site)
    scheduler.run(pod("stays", cpus=7, priority=5), "n1")
    leaves = scheduler.run(pod("leaves", cpus=6, priority=1), "n1")
    scheduler.report(site)
    new = pod("new", cpus=8, priority=9)
    refused = scheduler.decide(new)
    assert isinstance(refused, Refused)
    assert refused.nomination is not None
    assert [victim.name for victim in refused.nomination.victims] == ["leaves"]
    assert isinstance(scheduler.decide(new), Refused)
    site.remove("leaves")
    scheduler.see(ended(leaves))
    chosen = scheduler.decide(new)
    assert isinstance(chosen, Chosen)
    assert site.admit(bound(new, chosen.node))


def test_a_pod_that_no_eviction_helps_is_told_so() -> None:
    """The event says what preemption found."""
    scheduler = Scheduler(ReportedNode.make("n1"))
    scheduler.run(pod("a", cpus=7, priority=1), "n1")
    refused = scheduler.decide(pod("new", cpus=9, priority=9))
    assert isinstance(refused, Refused)
    assert refused.nomination is None
    assert "preemption: 0/1 nodes are available" in refused.diagnosis.message()


def test_who_refuses_a_pod_even_after_an_eviction_is_known() -> None:
    """The pod waits for a report too: when zones are free, an eviction may help."""
    scheduler = Scheduler(ReportedNode.make("n1"))
    scheduler.run(pod("stays-0", cpus=4, priority=9), "n1")
    scheduler.run(pod("stays-1", cpus=4, priority=9), "n1")
    scheduler.run(pod("leaves", cpus=4, priority=1), "n1")
    refused = scheduler.decide(pod("new", cpus=5, priority=9))
    assert isinstance(refused, Refused)
    assert refused.nomination is None
    assert refused.diagnosis.plugins() == {"NodeResourcesFit", "NodeResourceTopologyMatch"}


def test_of_two_nodes_the_one_with_the_lesser_victim_is_nominated() -> None:
    """As in kube-scheduler."""
    first, second = ReportedNode.make("n1"), ReportedNode.make("n2")
    scheduler = Scheduler(first, second)
    for name, priority in (("n1", 3), ("n2", 2)):
        for number in range(2):
            one = pod(f"{name}-{number}", cpus=7, priority=priority)
            scheduler.run(one, name)
    refused = scheduler.decide(pod("new", cpus=7, priority=9))
    assert isinstance(refused, Refused)
    assert refused.nomination is not None
    assert refused.nomination.node == "n2"
    assert len(refused.nomination.victims) == 1


def test_the_zones_of_nominated_pods_are_kept_for_them() -> None:
    """The node has CPUs enough for all three, but no zone has them."""
    scheduler = Scheduler(ReportedNode.make("n1"))
    for name in ("first", "second"):
        scheduler.handle.nominations.nominate(PodInfo(pod(name, cpus=4, priority=9)), "n1")
    assert isinstance(scheduler.decide(pod("small", cpus=4, priority=1)), Chosen)
    assert isinstance(scheduler.decide(pod("large", cpus=5, priority=1)), Refused)
    assert isinstance(scheduler.decide(pod("urgent", cpus=5, priority=10)), Chosen)


def evict(scheduler: Scheduler, site: ReportedNode, refused: object) -> None:
    """Delete the victims before anybody sees them end."""
    assert isinstance(refused, Refused)
    assert refused.nomination is not None
    for victim in refused.nomination.victims:
        site.remove(victim.uid)
        scheduler.handle.cluster.take(scheduler.cache.pod_gone(victim.uid), scheduler.cache)
        scheduler.handle.cluster.remove_pod(victim.uid)


def crowded() -> tuple[Scheduler, ReportedNode]:
    """A node with two pods in each zone, all of which are reported."""
    site = ReportedNode.make("n1")
    scheduler = Scheduler(site)
    for number, cpus in enumerate((3, 4, 4, 4)):
        scheduler.run(pod(f"p{number}", cpus=cpus, priority=1), "n1")
    scheduler.report(site)
    return scheduler, site


def test_nobody_else_is_evicted_while_the_victims_are_gone_but_still_reported() -> None:
    """The zone looks occupied until the next report, and is the pod's from then on."""
    scheduler, site = crowded()
    new = pod("new", cpus=7, priority=9)
    evict(scheduler, site, scheduler.decide(new))
    again = scheduler.decide(new)
    assert isinstance(again, Refused)
    assert again.nomination is None
    assert "until the nominated node reports" in again.diagnosis.message()
    scheduler.report(site)
    assert isinstance(scheduler.decide(new), Chosen)


def test_a_pod_that_awaits_a_report_is_tried_when_it_comes() -> None:
    """Even if it lacks CPUs on every node by now, which no report changes."""
    scheduler, site = crowded()
    new = pod("new", cpus=7, priority=9)
    evict(scheduler, site, scheduler.decide(new))
    scheduler.handle.cluster.place(PodInfo(bound(pod("quick", cpus=7, priority=1), "n1")), "n1")
    again = scheduler.decide(new)
    assert isinstance(again, Refused)
    assert "until the nominated node reports" in again.diagnosis.message()
    assert {status.plugin for _, status in again.diagnosis.groups()} == {"NodeResourcesFit"}
    assert "NodeResourceTopologyMatch" in again.diagnosis.plugins()


def test_a_node_that_never_reports_does_not_keep_a_pod_waiting_for_good() -> None:
    """Its exporter may be dead; others are evicted in the end."""
    scheduler, site = crowded()
    new = pod("new", cpus=7, priority=9)
    evict(scheduler, site, scheduler.decide(new))
    for _ in range(8):
        # Something else changes, so that the pod is tried again.
        scheduler.handle.cluster.objects_changed()
        decision = scheduler.decide(new)
        if isinstance(decision, Refused) and decision.nomination is not None:
            return
    raise AssertionError("the pod waits for a report that never comes")
