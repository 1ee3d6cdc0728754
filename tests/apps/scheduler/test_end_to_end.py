"""The scheduler on a whole cluster: API server, kubelets and exporters, over HTTP and gRPC."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec
import pytest

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.kube.catalog import PODS, PRIORITY_CLASSES
from numakube.kube.client import merge_patch
from numakube.kubelet.admission_outcome import Rejected
from numakube.scheduling.assembly import default_configuration
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(180)


@pytest.fixture
async def world(sites: Opener) -> AsyncIterator[LabCluster]:
    """Three nodes of two NUMA nodes with 16 CPUs each."""
    async with lab_cluster(3, on=sites) as world:
        yield world


async def test_every_pod_that_fits_runs_and_no_kubelet_rejects_one(world: LabCluster) -> None:
    """As many as the zones hold: after that, each refusal is one that the kubelets confirm."""
    await world.start()
    await world.create(*(pod_document(f"p{number}", "6") for number in range(14)))
    # Two CPUs of a node are reserved: two pods of 6 CPUs fit each NUMA node.
    await world.until(lambda: len(world.by_phase("Running")) == 12)
    await world.settled()
    assert world.by_phase("Failed") == set()
    for name in world.by_phase("Pending"):
        for node, kubelet in world.pool.kubelets.items():
            assert kubelet.admission is not None
            outcome = kubelet.admission.model.clone().admit(world.pod(name))
            assert isinstance(outcome, Rejected), f"{name} would fit {node}"


async def test_a_refusal_says_what_is_missing(world: LabCluster) -> None:
    """In the event and in the condition, in words that one can act on."""
    await world.start()
    await world.create(pod_document("wide", "20"))
    text = await world.refuses("wide")
    assert text == (
        "0/3 nodes are available: "
        "3 cannot align container (cpu: best zone has 16 of 20 even if idle). "
        "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling."
    )
    assert await world.some_events("FailedScheduling") == [text]


async def test_c33_the_event_names_the_container_that_does_not_fit(world: LabCluster) -> None:
    """If the pod has others, which fit; nodes still add up to one line."""
    await world.start()
    pair = pod_document("pair", "2")
    (small,) = pair["spec"]["containers"]
    wanted = {"cpu": "20", "memory": "1Gi"}
    big = {**small, "name": "big", "resources": {"requests": wanted, "limits": wanted}}
    pair["spec"]["containers"] = [small, big]
    await world.create(pair)
    text = await world.refuses("pair")
    assert "3 cannot align container big (cpu: best zone has 16 of 20 even if idle)." in text
    assert await world.some_events("FailedScheduling") == [text]


async def test_a_waiting_pod_runs_as_soon_as_room_appears(world: LabCluster) -> None:
    """Within one report, not after minutes."""
    await world.start()
    await world.create(*(pod_document(f"p{number}", "14") for number in range(6)))
    await world.until(lambda: len(world.by_phase("Running")) == 6)
    await world.create(pod_document("waits", "10"))
    await world.refuses("waits")
    await world.delete("p3")
    await world.runs("waits")


async def test_a_pod_of_higher_priority_takes_the_room_of_the_fewest(world: LabCluster) -> None:
    """One victim in the right zone, with its event and condition."""
    await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
    await world.start()
    await world.create(*(pod_document(f"p{number}", "14") for number in range(6)))
    await world.until(lambda: len(world.by_phase("Running")) == 6)
    await world.create(pod_document("urgent", "12", priorityClassName="urgent"))
    await world.runs("urgent")
    await world.until(lambda: len(world.by_phase("Running")) == 6)
    (text,) = await world.some_events("Preempted")
    assert text.startswith("Preempted by pod ")
    assert world.by_phase("Failed") == set()


async def test_a_scheduler_that_is_killed_is_replaced_without_loss(world: LabCluster) -> None:
    """Nothing is bound twice, nothing is lost, nothing is double-booked."""
    first = await world.start()
    await world.create(*(pod_document(f"p{number}", "6") for number in range(6)))
    await first.kill()
    await world.create(*(pod_document(f"q{number}", "6") for number in range(6)))
    await world.start()
    await world.until(lambda: len(world.by_phase("Running")) == 12)
    assert world.by_phase("Failed") == set()


async def test_pods_of_others_are_left_alone_but_counted(world: LabCluster) -> None:
    """The default scheduler is at work on the same nodes."""
    await world.start()
    foreign = [
        pod_document(f"f{number}", "4", schedulerName="default-scheduler") for number in range(6)
    ]
    await world.create(*foreign)
    await world.until(lambda: len(world.by_phase("Running") | world.by_phase("Failed")) == 6)
    failed = world.by_phase("Failed")
    await world.create(*(pod_document(f"p{number}", "8") for number in range(6)))
    await world.settled()
    assert world.by_phase("Failed") == failed


async def test_a_gate_keeps_a_pod_back_until_it_is_removed(world: LabCluster) -> None:
    """Nothing is said about a pod that is not to be scheduled yet."""
    running = await world.start()
    await world.create(pod_document("gated", schedulingGates=[{"name": "example.com/quota"}]))
    await world.until(lambda: any(entry.gate.message for entry in running.process.scheduler.queue))
    assert not world.pod("gated").spec.node_name
    patch = merge_patch({"spec": {"schedulingGates": []}})
    await world.client.patch(PODS, "gated", patch, namespace="default")
    await world.runs("gated")


async def test_a_cordoned_node_gets_no_pods_until_it_is_uncordoned(world: LabCluster) -> None:
    """The change of the node wakes the pod."""
    await world.start()
    for number in range(3):
        await world.change_node(f"node-{number}", {"spec": {"unschedulable": True}})
    await world.create(pod_document("waits"))
    await world.refuses("waits", "3 node(s) were unschedulable")
    await world.change_node("node-1", {"spec": {"unschedulable": None}})
    await world.runs("waits")
    assert world.pod("waits").spec.node_name == "node-1"


async def test_two_schedulers_agree_on_one_that_works(world: LabCluster) -> None:
    """When the leader is killed the other takes over, and nothing is bound twice."""
    config = default_configuration(SCHEDULER_NAME)
    election = msgspec.structs.replace(
        config.leader_election, lease_duration="6s", renew_deadline="5s", retry_period="500ms"
    )
    config = msgspec.structs.replace(config, leader_election=election)
    one, two = await world.start(config), await world.start(config)
    await world.create(*(pod_document(f"p{number}", "6") for number in range(4)))
    await world.until(lambda: len(world.by_phase("Running")) == 4)
    await world.until(lambda: one.process.leading is not two.process.leading)
    leader, other = (one, two) if one.process.leading else (two, one)
    await leader.kill()
    await world.create(*(pod_document(f"q{number}", "6") for number in range(4)))
    await world.until(lambda: len(world.by_phase("Running")) == 8)
    await world.until(lambda: other.process.leading)
    assert world.by_phase("Failed") == set()


async def test_it_stops_when_it_is_told_to(world: LabCluster) -> None:
    """With exit code 0 and its last events written."""
    running = await world.start()
    await world.create(pod_document("a"))
    await world.runs("a")
    assert await running.end() == 0
    assert len(await world.events("Scheduled")) == 1
