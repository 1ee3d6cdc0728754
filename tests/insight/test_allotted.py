"""What a scheduler gave shows wherever a report does."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from tests.insight.node_map import nodes

from numakube.api.koordinator import keys
from numakube.api.pod import Pod
from numakube.insight.facts import ClusterFacts
from numakube.insight.node_map.picture_from_facts import node_picture
from numakube.insight.node_map.planned_picture import PlannedNode, planned
from numakube.insight.usage.pod_alignment import Alignment, pod_usages
from numakube.insight.usage.zone_usage import node_usage
from numakube.kubelet.kubelet_model import KubeletNode
from numakube.kubelet.machines.shape_text import from_shape
from numakube.kubelet.manager_settings import KubeletSettings

GIB = 1 << 30
STATUS = {
    "cpuset": "8-11",
    "numaNodeResources": [{"node": 1, "resources": {"cpu": "4", "memory": "2Gi"}}],
}


def given(name: str, status: Any) -> Pod:
    """Return a pod on the node with a result of the scheduler."""
    pod = nodes.on("n1", nodes.named(name, cpu="4", memory="2Gi"))
    metadata = msgspec.structs.replace(
        pod.metadata, annotations={keys.RESOURCE_STATUS: json.dumps(status)}
    )
    return msgspec.structs.replace(pod, metadata=metadata)


def cluster(*pods: Pod) -> ClusterFacts:
    """Return a node whose kubelet aligns nothing, with pods on it."""
    node = KubeletNode(from_shape("2 sockets, 8 cores, 16Gi"), KubeletSettings())
    nodes.admitted(node, *pods)
    return nodes.facts({"n1": node}, *pods)


def test_the_cpus_that_a_scheduler_gave_are_drawn() -> None:
    """With their owner, and the memory beside them."""
    picture = node_picture(cluster(given("a", STATUS), given("b", {})), "n1")

    (mark,) = picture.pods
    assert (mark.name, str(mark.cpus), mark.zones) == ("team/a", "8-11", (1,))
    assert mark.memory == {"memory": 2 * GIB}
    assert picture.sharing_pods == 1
    owned = {cpu.id for core in picture.zones[1].cores for cpu in core.cpus if cpu.owner == 0}
    assert owned == {8, 9, 10, 11}


def test_a_plan_keeps_them() -> None:
    """Nothing of them changes when another pod comes."""
    facts = cluster(given("a", STATUS))
    plan = planned(facts, "n1", arriving=[nodes.named("new", cpu="1", memory="1Gi")])

    assert isinstance(plan, PlannedNode)
    assert [(pod.name, str(pod.cpus)) for pod in plan.picture.pods] == [("team/a", "8-11")]
    assert plan.picture.sharing_pods == 1


def test_pods_are_told_to_be_aligned_or_spread() -> None:
    """By where the scheduler put them, whether their CPUs are bound or not."""
    near = {"numaNodeResources": [{"node": 0, "resources": {"cpu": "4", "memory": "2Gi"}}]}
    both = {"cpuset": "7-8"}
    pods = [given("a", STATUS), given("near", near), given("both", both), given("none", {})]

    found = list(pod_usages(cluster(*pods), pods))
    assert [(usage.alignment, usage.zones) for usage in found] == [
        (Alignment.ALIGNED, (1,)),
        (Alignment.ALIGNED, (0,)),
        (Alignment.SPREAD, (0, 1)),
        (Alignment.SHARED, ()),
    ]


def test_what_is_left_to_give_is_counted() -> None:
    """A kubelet without managers reports nothing of it."""
    _, zones = node_usage(cluster(given("a", STATUS)), "n1")
    assert [zone.free["cpu"] for zone in zones] == [8_000, 4_000]

    _, silent = node_usage(cluster(), "n1")
    assert [zone.free.get("cpu", 0) for zone in silent] == [0, 0]
