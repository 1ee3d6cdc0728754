"""Pods that want alignment and do not have it: who, why, and where they could be aligned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.insight.claim_world import add_claim, add_slice, claiming, device, two_zones

from numakube.api.pod import Pod
from numakube.insight.facts import ClusterFacts, SchedulerFacts
from numakube.insight.misalignment import Cause, judged
from numakube.kubelet.machine import Device
from numakube.testing import World, kubelet_settings, pod
from numakube.topology.topology_view import NodeTopology
from numakube.values.topology_policy import TopologyPolicy
from numakube_planning.audit import AuditedPod, audit, summary

GPU = "vendor.example/gpu"


def spread(policy: str = "best-effort", **more: Any) -> tuple[World, Pod]:
    """Return a node on which a pod had to be spread over both zones, and an idle one."""
    world = World()
    world.add_node("node-a", policy)
    world.add_node("node-b", policy)
    world.run(pod("one", cpu="5"), "node-a")
    world.run(pod("two", cpu="5"), "node-a")
    return world, world.run(pod("wide", cpu="4", **more), "node-a")


def found(facts: ClusterFacts) -> dict[str, AuditedPod]:
    """Return the pods that are not aligned by name."""
    return {one.name: one for one in audit(facts, facts.pods).misaligned}


def view_of(facts: ClusterFacts, node: str = "node-a") -> NodeTopology:
    """Return the report of a node."""
    view = facts.view(node)
    assert isinstance(view, NodeTopology)
    return view


def test_a_pod_that_best_effort_spread_could_be_aligned_elsewhere() -> None:
    """Those that have all in one zone are fine."""
    world, _ = spread()
    result = audit(world.facts(), world.pods)
    (wide,) = result.misaligned
    assert (wide.name, wide.zones, wide.fewest, wide.cause) == ("wide", (0, 1), 1, "best-effort")
    assert wide.better == ("node-b",)
    assert wide.since == "2026-03-01T10:00:00Z"
    assert wide.actual == "zone 0: cpu 2, memory 1Gi; zone 1: cpu 2"
    assert summary(result) == (
        "2 of 3 pods that want alignment have it; 1 do not, 1 of them would if placed again."
    )


def test_nodes_need_not_be_searched() -> None:
    """Which is what takes time."""
    world, _ = spread()
    (wide,) = audit(world.facts(), world.pods, moves=False).misaligned
    assert wide.better == ()


@pytest.mark.parametrize("policy", [TopologyPolicy.SINGLE_NUMA_NODE, TopologyPolicy.RESTRICTED])
def test_a_kubelet_that_insists_today_admitted_it_under_another_policy(
    policy: TopologyPolicy,
) -> None:
    """It was restarted since; what runs is not moved."""
    world, wide = spread()
    view = view_of(world.facts())
    verdict = judged(wide, replace(view, policy=policy), ())
    assert verdict.cause is Cause.OTHER_POLICY
    assert verdict.why == f"on zones 0+1: {policy} would not have admitted it so"


def test_a_kubelet_without_a_policy_aligns_nothing() -> None:
    """Its pods want alignment if they were given to a scheduler that knows NUMA."""
    world, _ = spread("none")
    assert found(world.facts())["wide"].cause == "no-policy"
    blind = [
        msgspec.structs.replace(
            one, spec=msgspec.structs.replace(one.spec, scheduler_name="default-scheduler")
        )
        for one in world.pods
    ]
    assert audit(world.facts(), blind).wanting == 0


def test_a_pod_that_was_resized_has_other_cpus_than_it_asks_for() -> None:
    """The kubelet keeps those with which it was admitted."""
    world, _ = spread()
    asked = pod("wide", cpu="2")
    verdict = judged(asked, view_of(world.facts()), ())
    assert (verdict.cause, verdict.why) == (
        Cause.RESIZED,
        "it has 4 CPUs on zones 0+1 and asks for 2",
    )


def test_a_pod_whose_cpus_are_shared_is_not_aligned() -> None:
    """A kubelet with the CPU Manager's policy none gives no CPUs."""
    world = World()
    settings = kubelet_settings("best-effort", cpu_policy="none", memory_policy="None")
    settings = replace(settings, reserved_memory={}, memory_reservation={})
    world.add_node("node-a", settings=settings)
    world.add_node("node-b")
    world.run(pod("wide", cpu="4"), "node-a")
    wide = found(world.facts())["wide"]
    assert (wide.cause, wide.better) == ("shared-cpus", ("node-b",))


def test_a_pod_with_a_broken_device_is_told() -> None:
    """Aligned or not: of a device plugin, and of a claim."""
    world = World()
    kubelet = world.add_node("node-a")
    world.run(pod("train", cpu="2", gpu=1), "node-a")
    broken = [Device(f"gpu-{n}", (n // 2,), healthy=n != 0) for n in range(4)]
    kubelet.register_devices(GPU, broken)
    train = found(world.facts())["train"]
    assert (train.cause, train.why) == (
        "device-health",
        "it holds vendor.example/gpu #0, which is not healthy",
    )

    world = two_zones()
    taint = {"key": "gone", "effect": "NoExecute"}
    add_slice(world, "node-a", [device("gpu-0", 0, taints=[taint]), device("gpu-1", 0)])
    add_claim(world, "mine", "node-a/gpu-0", pods=["train"])
    world.run(claiming("train", "mine"), "node-a")
    train = found(world.facts())["train"]
    assert train.why == "it holds gpu-0 (taint gone:NoExecute)"
    assert train.better == ("node-a",)


def test_containers_may_be_aligned_one_by_one() -> None:
    """Where the kubelet's scope is the container, each may be in a zone of its own."""
    world, wide = spread()
    two = msgspec.structs.replace(
        wide.spec,
        containers=tuple(
            msgspec.structs.replace(
                wide.spec.containers[0],
                name=name,
                resources=pod("half", cpu="2").spec.containers[0].resources,
            )
            for name in ("a", "b")
        ),
    )
    both = msgspec.structs.replace(wide, spec=two)
    view = view_of(world.facts())
    assert judged(both, view, ()).cause is None
    whole = replace(view, scope=view.scope.__class__.POD)
    assert judged(both, whole, ()).cause is Cause.BEST_EFFORT


def mixed(policy: str = "best-effort") -> World:
    """Return a pod with CPUs in zone 0 and its claimed device in zone 1."""
    world = two_zones(policy)
    add_slice(world, "node-a", [device(f"gpu-{number}", number // 2) for number in range(4)])
    add_claim(world, "far", "node-a/gpu-3", pods=["train"])
    world.run(claiming("train", "far", cpu="4"), "node-a")
    return world


def test_a_mixed_pod_far_from_its_device_would_be_near_one_if_placed_again() -> None:
    """On its own node, as long as a device is free there near the CPUs that it would get."""
    world = mixed()
    train = found(world.facts())["train"]
    assert (train.cause, train.zones, train.better) == ("claims", (0, 1), ("node-a",))
    assert train.why == "the kubelet's part is on zone 0, devices of claims are on zone 1"
    assert train.actual == "zone 0: cpu 4, memory 1Gi; zone 1: gpu.example 1"

    add_claim(world, "others", "node-a/gpu-0", "node-a/gpu-1", pods=["elsewhere"])
    assert found(world.facts())["train"].better == ()


def test_what_would_align_a_mixed_pod_does_align_it() -> None:
    """The scheduler places it again, on the node that was named and near its CPUs."""
    world = mixed("single-numa-node")
    add_claim(world, "others", "node-a/gpu-0", "node-a/gpu-1", pods=["elsewhere"])
    world.add_node("node-b")
    add_slice(world, "node-b", [device("gpu-0", 1), device("gpu-1", 0)])
    assert found(world.facts())["train"].better == ("node-b",)

    world.pods.clear()
    world.kubelets["node-a"].remove("train")
    add_claim(world, "far")
    decision = world.scheduler().decide(claiming("train", "far", cpu="4"))
    assert getattr(decision, "node", "") == "node-b"


def test_pods_that_do_not_mind_where_their_devices_are_are_left_alone() -> None:
    """As their annotation says."""
    world = mixed()
    train = world.pods.pop()
    annotations = {"numakube.dev/claim-alignment": "None"}
    meta = msgspec.structs.replace(train.metadata, annotations=annotations)
    world.pods.append(msgspec.structs.replace(train, metadata=meta))
    assert found(world.facts()) == {}


def test_more_devices_than_a_zone_has_need_not_be_in_one_zone() -> None:
    """Three of four, two in each zone."""
    world = two_zones()
    add_claim(world, "many", *(f"node-a/gpu-{n}" for n in range(3)), pods=["train"])
    world.run(claiming("train", "many", cpu="4"), "node-a")
    assert found(world.facts()) == {}


def test_pods_that_no_report_knows_are_not_judged() -> None:
    """They are counted, with the reason."""
    world, _ = spread()
    facts = world.facts(exact=False)
    result = audit(facts, facts.pods)
    assert (result.wanting, result.aligned, result.misaligned) == (3, 0, ())
    assert {one.why for one in result.unknown} == {"the node has no exact report"}


def test_what_the_scheduler_expected_stands_beside_what_is() -> None:
    """From its flight recorder, in a bundle or live; odd documents are passed over."""
    world, _ = spread()
    predicted = {"zones": [{"ids": [1], "amounts": {"cpu": "4", "memory": "1Gi"}}]}
    events = [{"event": "reserved", "node": "node-a", "predicted": predicted}, {"event": 1}]
    flight = {"uid": "wide", "attempts": [{"events": events}, "odd"]}
    told = {"attempts": {"items": [flight, None]}}
    facts = world.facts(schedulers={"s": SchedulerFacts("s", told), "o": SchedulerFacts("o", {})})
    assert found(facts)["wide"].predicted == "zone 1: cpu 4, memory 1Gi"
