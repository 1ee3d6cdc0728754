"""A small world decides as kubelets and schedulers do."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from numakube.kubelet import KubeletSettings, Rejected
from numakube.scheduling.cycle import Chosen, Refused
from numakube.scheduling.framework import (
    SUCCESS,
    CycleState,
    Filter,
    Handle,
    NodeInfo,
    PodInfo,
    Status,
    unschedulable,
)
from numakube.testing import World, bound, kubelet_settings, pod, refusal_of, rejected, running


class OnlyEven(Filter):
    """Refuses nodes whose names do not end in an even digit."""

    name = "OnlyEven"

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> OnlyEven:
        """Make the plugin."""
        del args, handle
        return cls()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Judge *node*."""
        del state, pod
        return unschedulable("odd") if int(node.name[-1]) % 2 else SUCCESS


def test_a_node_offers_what_its_kubelet_does_not_reserve() -> None:
    """One CPU and 1Gi are reserved unless the test says otherwise."""
    world = World()
    world.add_node("usual")
    world.add_node("bare", settings=KubeletSettings())
    offered = {name: node.status.allocatable for name, node in world.nodes.items()}
    assert (offered["usual"]["cpu"], offered["usual"]["memory"]) == ("15", "31Gi")
    assert (offered["bare"]["cpu"], offered["bare"]["memory"]) == ("16", "32Gi")


def test_a_pod_runs_only_where_the_kubelet_admits_it() -> None:
    """Nine CPUs are more than a NUMA node has."""
    world = World()
    world.add_node("node-0", "single-numa-node")
    assert world.run(pod("web", cpu="8"), "node-0").spec.node_name == "node-0"
    with pytest.raises(AssertionError, match="TopologyAffinityError"):
        world.run(pod("wide", cpu="9"), "node-0")
    assert [one.metadata.name for one in world.pods] == ["web"]


def test_each_report_is_newer_and_knows_what_runs() -> None:
    """As an exporter's is."""
    world = World()
    world.add_node("node-0", settings=kubelet_settings("restricted", reserved="0,8"))
    before = world.report("node-0")
    world.run(pod("web", cpu="8"), "node-0")
    after = world.report("node-0")
    assert int(after.metadata.resource_version) > int(before.metadata.resource_version)
    assert after.zones != before.zones


def test_a_scheduler_counts_what_it_has_scheduled() -> None:
    """Before any report tells of it."""
    world = World()
    world.add_node("node-0")
    scheduler = world.scheduler()
    assert scheduler.run(pod("web", cpu="8")).spec.node_name == "node-0"
    assert isinstance(scheduler.decide(pod("db", cpu="7")), Chosen)
    assert isinstance(scheduler.decide(pod("wide", cpu="8")), Refused)
    scheduler.forget("web")
    assert isinstance(scheduler.decide(pod("wide", cpu="8")), Chosen)


def test_a_plugin_of_the_test_takes_part() -> None:
    """In the default configuration."""
    world = World()
    world.add_node("node-1")
    scheduler = world.scheduler(plugins={OnlyEven.name: OnlyEven.make})
    assert scheduler.reasons(pod("web")) == {"odd"}
    world.add_node("node-2")
    scheduler.set_node(world.nodes["node-2"])
    scheduler.set_report(world.report("node-2"))
    decision = scheduler.decide(pod("web"))
    assert isinstance(decision, Chosen)
    assert decision.node == "node-2"


def test_pods_have_the_status_that_the_api_server_would_show() -> None:
    """Pending, bound, running or rejected; none of them was refused by a scheduler."""
    web = pod("web")
    states = (web, bound(web, "n"), running(web, "n"), rejected(web, "n", "OutOfcpu"))
    phases = [state.status.phase for state in states if state.status]
    assert phases == ["Pending", "Pending", "Running", "Failed"]
    assert not any(map(refusal_of, states))
    outcome = World().add_node("n").admit(web)
    assert not isinstance(outcome, Rejected)
