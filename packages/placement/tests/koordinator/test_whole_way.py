"""The whole way: from a pod's manifest to what another scheduler reads of it after a crash."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st
from packages.placement.tests.strategies.nodes import facts_of_layout, layout_of

from numakube.api.codec import convert
from numakube.api.pod import Pod
from numakube.topology.allotments import Allotment
from numakube.values.topology_policy import POLICY_BY_API_NAME, TopologyScope
from numakube_placement.koordinator.allotments import allotment_of, annotations_for
from numakube_placement.koordinator.annotation_values import Arbiter
from numakube_placement.koordinator.node_facts import DevicePlace, NodeFacts
from numakube_placement.koordinator.node_ledger import NodeLedger
from numakube_placement.koordinator.placement_on_node import admit
from numakube_placement.koordinator.placement_rule import PlacementRefusal, rule_for
from numakube_placement.koordinator.read_pod import wish_of

DEVICES = tuple(
    DevicePlace(
        type=kind,
        minor=minor,
        id=f"{kind}-{minor}",
        numa=minor // 2,
        pcie=f"pci{minor // 2}",
        resources=resources,
        vfs=(f"0000:{minor}0:00.1", f"0000:{minor}0:00.2") if kind == "rdma" else (),
    )
    for kind, resources in (
        ("gpu", {"koordinator.sh/gpu-core": 100, "koordinator.sh/gpu-memory-ratio": 100}),
        ("rdma", {"koordinator.sh/rdma": 100}),
    )
    for minor in range(4)
)
NODE = facts_of_layout(layout_of("2x1x4x2"), reserved="0", devices=DEVICES)


@st.composite
def containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    """Draw a container that asks for a little of everything."""
    requests = {
        "cpu": draw(st.sampled_from(["1", "2", "4", "500m"])),
        "memory": draw(st.sampled_from(["1Gi", "3Gi"])),
        "koordinator.sh/gpu": draw(st.sampled_from(["0", "0", "50", "100"])),
        "koordinator.sh/rdma": draw(st.sampled_from(["0", "0", "100"])),
    }
    limits = draw(st.sampled_from([requests, requests, {**requests, "cpu": "8"}]))
    return {"name": name, "resources": {"requests": requests, "limits": limits}}


@st.composite
def pods(draw: st.DrawFn) -> Pod:
    """Draw a pod with any wish that can be written down without a mistake."""
    spec = {
        "numaTopologyPolicy": draw(st.sampled_from(["", *POLICY_BY_API_NAME])),
        "numaTopologyScope": draw(st.sampled_from(["", *TopologyScope])),
        "singleNUMANodeExclusive": draw(st.sampled_from(["", "Preferred", "Required"])),
        "numaAllocateStrategy": draw(st.sampled_from(["", "MostAllocated", "DistributeEvenly"])),
    }
    cpus = {
        "preferredCPUBindPolicy": draw(st.sampled_from(["", "Default", "SpreadByPCPUs"])),
        "preferredCPUExclusivePolicy": draw(st.sampled_from(["", "None", "PCPULevel"])),
    }
    init = draw(st.lists(containers("setup"), max_size=1))
    for one in init:
        one |= draw(st.sampled_from([{}, {"restartPolicy": "Always"}]))
    joint = {
        "deviceTypes": ["gpu", "rdma"],
        "requiredScope": draw(st.sampled_from(["", "SamePCIe"])),
    }
    annotations = {
        "scheduling.koordinator.sh/numa-topology-spec": json.dumps(spec),
        "scheduling.koordinator.sh/resource-spec": json.dumps(cpus),
        "scheduling.koordinator.sh/device-joint-allocate": json.dumps(joint),
    }
    qos = draw(st.sampled_from(["LSR", "LS"]))
    return convert(
        Pod,
        {
            "metadata": {"annotations": annotations, "labels": {"koordinator.sh/qosClass": qos}},
            "spec": {
                "initContainers": init,
                "containers": [draw(containers("main")), draw(containers("side"))],
            },
        },
    )


def bound(pod: Pod, facts: NodeFacts, ledger: NodeLedger) -> tuple[Pod, Allotment] | None:
    """Return *pod* as the API server has it after it was bound, and what it was given."""
    wish = wish_of(pod)
    rule = rule_for(wish, facts)
    if isinstance(rule, PlacementRefusal) or rule.arbiter is not Arbiter.SCHEDULER:
        return None
    answer = admit(ledger, wish, rule)
    if isinstance(answer, PlacementRefusal):
        return None
    written = pod.metadata.annotations | annotations_for(pod, wish, rule, answer, facts)
    metadata = msgspec.structs.replace(pod.metadata, annotations=written)
    return msgspec.structs.replace(pod, metadata=metadata), answer


@settings(max_examples=150, deadline=None)
@given(st.lists(pods(), min_size=1, max_size=4), st.sampled_from([None, *TopologyScope]))
def test_a_scheduler_that_starts_reads_what_the_last_one_gave(
    wanted: list[Pod], scope: TopologyScope | None
) -> None:
    """Pod by pod; so the ledger after a crash is the ledger before it."""
    facts = replace(NODE, label_scope=scope)
    before = NodeLedger.of(facts, {})
    after: dict[str, Allotment] = {}
    for number, pod in enumerate(wanted):
        done = bound(pod, facts, before)
        if done is None:
            continue
        stored, given_to_it = done
        before = before.with_pod(str(number), given_to_it)
        problems: list[str] = []
        read = allotment_of(stored, problems)
        assert problems == []
        assert (read or Allotment()) == given_to_it
        assert wish_of(stored).problems == ()
        if read is not None:
            after[str(number)] = read
    assert NodeLedger.of(facts, after).key == before.key
