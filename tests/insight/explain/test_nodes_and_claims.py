"""Explanations of a node, and of a resource claim."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.insight.explain.claim_cases import claim, two_nodes, with_devices

from numakube.api.codec import convert
from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node
from numakube.api.pod import Pod, PodResourceClaim
from numakube.insight.collected import RESOURCE_CLAIMS
from numakube.insight.explain import Explanation, Subject, explain
from numakube.insight.explain.claim_explanation import (
    ClaimExplanation,
    claim_lines,
    explain_claim,
)
from numakube.insight.explain.explanation_text import joined
from numakube.insight.explain.pod_explanation import ExplainOptions
from numakube.insight.facts import ClusterFacts
from numakube.insight.list_reading import Unreadable
from numakube.insight.node_explanation import (
    MOST_TRIED,
    NodeExplanation,
    explain_node,
    node_lines,
)
from numakube.insight.scheduler_engine import engine_of
from numakube.testing import World, pod
from numakube.topology import nrt_names


def of_node(facts: ClusterFacts, name: str = "node-a") -> NodeExplanation:
    """Explain a node as the command does."""
    engine, options = engine_of(facts), ExplainOptions(node=name, changes=False)
    return explain_node(facts, name, lambda subject: explain(facts, engine, subject, options))


def of_claim(facts: ClusterFacts, name: str = "mine") -> ClaimExplanation:
    """Explain a claim as the command does."""

    def explained(subject: Subject) -> Explanation:
        return explain(facts, engine_of(facts), subject)

    return explain_claim(facts, facts.objects.resource_claims[f"default/{name}"], explained)


def changed(world: World, name: str, **parts: Any) -> None:
    """Give a node other fields."""
    tree = msgspec.to_builtins(world.nodes[name])
    world.nodes[name] = convert(Node, {**tree, **parts})


def one_node(**spec: Any) -> World:
    world = World()
    world.add_node("node-a", **spec)
    return world


def using(name: str = "user", claim: str = "mine", **parts: Any) -> Pod:
    """Return a pod that uses a claim."""
    uses = (PodResourceClaim(name="gpu", resource_claim_name=claim),)
    return pod(name, cpu="1", resource_claims=uses, **parts)


def test_a_node_that_takes_pods_says_how_its_kubelet_aligns_them() -> None:
    world = one_node()
    world.run(pod("runs", cpu="4"), "node-a")
    found = of_node(world.facts())
    assert (found.verdict, found.pods, found.data) == ("open", 1, "exact")
    assert found.summary == "node-a takes pods; its kubelet aligns them."
    assert [(zone.zone, zone.free["cpu"]) for zone in found.zones] == [(0, "3"), (1, "8")]
    assert found.zones[1].largest == "8 CPU + 16Gi"


def test_a_kubelet_without_a_policy_aligns_nothing() -> None:
    world = World()
    world.add_node("node-a", "none")
    assert of_node(world.facts()).summary == "node-a takes pods; its kubelet aligns none of them."


def test_a_node_that_is_cordoned_or_not_ready_is_closed() -> None:
    world = one_node(unschedulable=True)
    not_ready = {"type": "Ready", "status": "Unknown"}
    status = msgspec.to_builtins(world.nodes["node-a"].status) | {"conditions": [not_ready]}
    assert of_node(world.facts()).summary == "node-a takes no new pods: SchedulingDisabled."
    changed(world, "node-a", status=status)
    found = of_node(world.facts())
    assert found.verdict == "closed"
    assert found.summary == "node-a takes no new pods: NotReady, SchedulingDisabled."


def test_a_taint_says_who_may_come() -> None:
    world = one_node()
    taints = [
        {"key": "team", "value": "ran", "effect": "NoSchedule"},
        {"key": "soft", "effect": "PreferNoSchedule"},
        {"key": "node.kubernetes.io/memory-pressure", "effect": "NoSchedule"},
    ]
    changed(world, "node-a", spec={"taints": taints})
    found = of_node(world.facts())
    assert found.summary.startswith("node-a takes pods that tolerate team=ran:NoSchedule; ")
    assert len(found.taints) == 1


def test_without_a_report_the_zones_are_unknown_and_so_is_who_fits() -> None:
    world = one_node()
    world.pods.append(pod("aligned", cpu="2"))
    facts = world.facts()
    blind = ClusterFacts(nodes=facts.nodes, pods=facts.pods, taken_at=facts.taken_at)
    found = of_node(blind)
    assert (found.verdict, found.data, found.zones) == ("unknown", "none", ())
    assert "nothing is known of its NUMA zones" in found.summary
    (aligned,) = found.waiting
    assert aligned.verdict == "unknown"
    assert "nothing is known of any NUMA zone" in aligned.reason


def test_pods_that_wait_are_tried_on_the_node_the_most_important_first() -> None:
    world = one_node()
    world.add_node("node-b")
    world.run(pod("runs", cpu="6"), "node-a")
    world.pods += [
        pod("small", cpu="1"),
        pod("large", cpu="9"),
        pod("urgent", cpu="8", priority=10),
        pod("middle", cpu="8", priority=5),
    ]
    found = of_node(world.facts())
    assert [(entry.pod, entry.verdict) for entry in found.waiting] == [
        ("default/urgent", "fits"),
        ("default/middle", "fits"),
        ("default/large", "refused"),
        ("default/small", "fits"),
    ]
    large = found.waiting[2]
    assert large.plugin == "NodeResourceTopologyMatch"
    assert "best zone has 8 of 9" in large.reason
    text = joined(node_lines(found))
    assert "4 pods without a node; 3 would fit here alone:" in text


def test_a_report_that_is_out_of_date_is_no_knowledge() -> None:
    world = one_node()
    found = of_node(world.facts(attributes={"node-a": {nrt_names.STALE: "kubelet away"}}))
    assert (found.verdict, found.data) == ("unknown", "stale")
    assert "out of date" in found.summary


def test_what_could_not_be_read_is_not_left_out_in_silence() -> None:
    world = two_nodes()
    claim(world, "mine")
    refused = Unreadable(RESOURCE_CLAIMS, "not allowed")
    unread = world.facts(claims_known=False, unreadable=(refused,))
    world.pods.append(using())
    waiting = world.facts(claims_known=False, unreadable=(refused,))
    for notes in (of_node(waiting).notes, of_claim(unread).pod.notes):  # type: ignore[union-attr]
        assert any("Not taken into account" in note for note in notes)
    assert [entry.verdict for entry in of_node(waiting).waiting] == ["unknown"]
    assert of_node(world.facts(claims_known=True)).waiting[0].verdict == "fits"


def test_only_so_many_pods_are_tried() -> None:
    world = one_node()
    world.pods += [pod(f"p{number:02}", cpu="1") for number in range(MOST_TRIED + 3)]
    found = of_node(world.facts())
    assert (len(found.waiting), found.more_waiting) == (MOST_TRIED, 3)
    assert f"{MOST_TRIED + 3} pods without a node, of which {MOST_TRIED} were tried here; " in (
        joined(node_lines(found))
    )


def test_what_the_doctor_finds_about_the_node_is_there_with_its_remedy() -> None:
    world = one_node()
    world.run(pod("runs", cpu="4"), "node-a")
    facts = world.facts()
    gone = ClusterFacts(
        nodes=facts.nodes,
        topologies={"node-a": replace(facts.topologies["node-a"], zones=())},
    )
    found = of_node(gone)
    assert found.verdict == "unknown"
    assert found.data == "unusable"
    rules = [finding.rule for finding in found.findings]
    assert "NUMA-NRT-UNUSABLE" in rules
    assert "kubectl numa check reports node-a" in joined(node_lines(found))


def test_hostile_names_do_not_reach_the_terminal() -> None:
    world = one_node()
    world.pods.append(pod("a\x1b[31m", cpu="1"))
    assert "\x1b" not in joined(node_lines(of_node(world.facts())))


def test_a_claim_with_devices_says_which_where_and_for_whom() -> None:
    world = two_nodes()
    claim(world, "mine", held="node-b/gpu-1")
    found = of_claim(world.facts())
    (device,) = found.devices
    assert found.verdict == "allocated"
    assert (device.node, device.numa_nodes, device.admin_access) == ("node-b", (1,), False)
    (user,) = found.users
    assert (user.pod, user.state, user.reserved) == ("default/mine-user", "gone", True)
    assert "kept for pods that are gone" in found.summary


def test_the_nodes_of_a_claim_are_those_of_its_allocation() -> None:
    world = two_nodes()
    claim(world, "mine", held="node-b/gpu-1")
    key = "default/mine"
    tree = msgspec.to_builtins(world.objects.resource_claims[key])
    field = {"key": "metadata.name", "operator": "In", "values": ["node-b"]}
    tree["status"]["allocation"]["nodeSelector"] = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    world.objects.resource_claims[key] = convert(type(world.objects.resource_claims[key]), tree)
    world.pods.append(replace(using("mine-user"), metadata=ObjectMeta(
        name="mine-user", namespace="default", uid="mine"
    )))  # fmt: skip
    found = of_claim(world.facts())
    assert found.nodes == ("node-b",)
    assert found.summary == "It has 1 device on node-b, reserved for 1 pod."
    assert [(user.pod, user.state) for user in found.users] == [("default/mine-user", "waiting")]
    assert "  one      gpu.example  node-b/gpu-1  node-b  zone 1\n" in joined(claim_lines(found))


def test_a_claim_without_devices_is_explained_by_the_pod_that_waits_with_it() -> None:
    world = two_nodes()
    claim(world, "other", held="node-b/gpu-0")
    claim(world, "mine", count=3)
    world.pods += [pod("bystander", cpu="1"), using("first"), using("second", priority=9)]
    found = of_claim(world.facts())
    assert (found.verdict, found.planned) == ("refused", False)
    assert found.pod is not None
    assert found.pod.pod.name == "second"
    assert found.summary.endswith("it gets them when pod default/second is placed.")
    assert {user.pod for user in found.users} == {"default/first", "default/second"}
    assert "no node can serve it" in joined(claim_lines(found))


@pytest.mark.parametrize(("count", "verdict"), [(2, "fits"), (3, "refused")])
def test_a_claim_that_no_pod_uses_is_tried_alone(count: int, verdict: str) -> None:
    world = two_nodes()
    claim(world, "mine", count=count)
    found = of_claim(world.facts())
    assert (found.verdict, found.planned, found.users) == (verdict, True, ())
    text = joined(claim_lines(found))
    assert "A pod that asks for the claim and nothing else:" in text
    assert "Note:" not in text
    told = {
        "fits": "since no pod uses it. 2 nodes could serve it.",
        "refused": "and no pod uses it. As things are, no node is known that could serve it.",
    }
    assert told[verdict] in found.summary


def test_pods_of_other_namespaces_do_not_use_the_claim() -> None:
    world = two_nodes()
    claim(world, "mine")
    stranger = using("stranger")
    world.pods.append(replace(stranger, metadata=replace(stranger.metadata, namespace="elsewhere")))
    assert of_claim(world.facts()).users == ()


def test_devices_that_nobody_offers_any_more_have_no_place() -> None:
    world = World()
    world.add_node("node-a")
    with_devices(world, "node-a")
    claim(world, "mine", held="node-a/gpu-7")
    (device,) = of_claim(world.facts()).devices
    assert (device.node, device.numa_nodes) == ("", ())
    assert "not known" in joined(claim_lines(of_claim(world.facts())))


def test_most_users_are_counted_and_wide_lists_them_all() -> None:
    world = two_nodes()
    claim(world, "mine", held="node-a/gpu-0")
    world.pods += [using(f"u{number:02}") for number in range(25)]
    found = of_claim(world.facts())
    assert len(found.users) == 26
    assert "and 6 more pods; -o wide lists all" in joined(claim_lines(found))
    assert "more pods" not in joined(claim_lines(found, wide=True))
