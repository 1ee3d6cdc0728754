"""Many nodes at once, and what the API shows of them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from tests.lab.nodes.build import Lab, plan, pod_document

from kube_lab_server import ApiServer
from numakube.api.affinity_and_taints import Taint
from numakube.errors import ConfigError
from numakube.kube.catalog import LEASES, NODES, PODS
from numakube.kube.client import Client, merge_patch
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.kubelet.machine import Device
from numakube.values.times import parse_time
from numakube_lab.inprocess_transport import InProcess
from numakube_lab.nodes.lease_heartbeats import interval_for, lease_seconds_for
from numakube_lab.nodes.node_pool import NodePool


async def test_a_node_registers_with_everything_that_kubectl_shows(lab: Lab) -> None:
    """Labels, resources, conditions, addresses and versions."""
    await lab.node(kubernetes="1.36")
    node = await lab.node_document()
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n1"
    status = node["status"]
    assert status["capacity"] == {
        "cpu": "16",
        "memory": "32Gi",
        "pods": "110",
        "ephemeral-storage": "100Gi",
    }
    assert status["allocatable"]["cpu"] == "14"
    assert {condition["type"]: condition["status"] for condition in status["conditions"]} == {
        "MemoryPressure": "False",
        "DiskPressure": "False",
        "PIDPressure": "False",
        "Ready": "True",
    }
    assert status["nodeInfo"]["kubeletVersion"] == "v1.36.0"
    assert {"type": "InternalIP", "address": "172.16.0.2"} in status["addresses"]
    lease = await lab.client.get(LEASES, "n1", namespace="kube-node-lease")
    assert (lease.spec.holder_identity, lease.spec.lease_duration_seconds) == ("n1", 40)
    assert lease.metadata.owner_references[0].uid == node["metadata"]["uid"]


async def test_devices_of_the_machine_are_offered(lab: Lab) -> None:
    """As if their plugins had registered."""
    base = plan("n1")
    devices = {"vendor.example/gpu": (Device("a", (0,)), Device("b", (1,), healthy=False))}
    await lab.pool.add(replace(base, machine=replace(base.machine, devices=devices)))
    status = (await lab.node_document())["status"]
    assert status["capacity"]["vendor.example/gpu"] == "2"
    assert status["allocatable"]["vendor.example/gpu"] == "1"
    await lab.create("a", limits={"vendor.example/gpu": "1"})
    await lab.runs("a")
    (held,) = lab.pool.kubelet("n1").pod_resources()
    assert held.containers[0].devices[0].ids == ("a",)


async def test_a_node_is_registered_with_its_taints(lab: Lab) -> None:
    """Besides the one that says that it is new."""
    base = plan("n1")
    taint = Taint(key="dedicated", value="gpu", effect="NoSchedule")
    await lab.pool.add(replace(base, taints=(taint,)))
    assert taint in (await lab.client.get(NODES, "n1")).spec.taints


async def test_labels_that_others_set_count(lab: Lab) -> None:
    """A pod's selector is compared with the node as the API shows it."""
    await lab.node()
    change = merge_patch({"metadata": {"labels": {"disk": "ssd"}}})
    await lab.client.patch(NODES, "n1", change)
    await lab.settle()
    await lab.create("a", nodeSelector={"disk": "ssd"})
    await lab.runs("a")


async def test_leases_are_renewed_every_ten_seconds(lab: Lab) -> None:
    """And the status every five minutes."""
    await lab.node()
    for _ in range(6):
        await lab.clock.advance(60)
        lease = await lab.client.get(LEASES, "n1", namespace="kube-node-lease")
        assert lease.spec.renew_time is not None
        age = lab.clock.now() - parse_time(lease.spec.renew_time)
        assert age.total_seconds() <= 12
    beat = (await lab.node_document())["status"]["conditions"][0]["lastHeartbeatTime"]
    assert beat >= "2026-01-01T00:05:00Z"


def test_many_nodes_are_renewed_less_often() -> None:
    """Twice within a lease; leases are longer where a hundred renewals a second do not suffice."""
    assert interval_for(1) == pytest.approx(10, abs=0.1)
    assert interval_for(1000) == interval_for(2000) == 20
    assert interval_for(30_000) == 300
    assert [lease_seconds_for(nodes) for nodes in (1, 2000, 30_000)] == [40, 40, 600]


async def test_a_name_can_be_had_once(lab: Lab) -> None:
    """Two nodes of one name would fight over one object."""
    await lab.node()
    with pytest.raises(ConfigError, match="node 'n1' is there already"):
        await lab.node()


async def test_a_node_that_the_api_knows_is_taken_over(lab: Lab) -> None:
    """A lab that keeps its data starts again with the nodes it had."""
    await lab.node()
    await lab.create("a")
    await lab.runs("a")
    uid = (await lab.node_document())["metadata"]["uid"]
    async with NodePool(lab.client) as second:
        await second.add(plan("n1"))
        assert (await lab.node_document())["metadata"]["uid"] == uid
        assert [pod.name for pod in second.kubelet("n1").pod_resources()] == ["a"]


async def test_a_pod_of_an_unknown_node_is_nobodys_business(lab: Lab) -> None:
    """It waits for its node to come."""
    await lab.node()
    await lab.create("a", node="elsewhere")
    await lab.settle()
    assert await lab.phase("a") == "Pending"
    await lab.node("elsewhere")
    await lab.runs("a")


async def test_fifty_nodes_run_three_hundred_pods(lab: Lab) -> None:
    """None is lost, and no CPU is given out twice."""
    await lab.pool.add(*(plan(f"n{number}") for number in range(50)))
    for number in range(300):
        document = pod_document(f"p{number}", node=f"n{number % 50}", cpu="2")
        await lab.client.create(PODS, document)
    for number in range(300):
        await lab.runs(f"p{number}")
    for kubelet in lab.pool.kubelets.values():
        cpus = [cpu for pod in kubelet.pod_resources() for cpu in pod.containers[0].cpu_ids]
        assert len(cpus) == len(set(cpus)) == 12


async def test_kubelets_work_over_http() -> None:
    """Nothing depends on being in the server's process."""
    async with ApiServer(rng=Random(7)) as server:
        user = Client(InProcess(server), rate=0)
        async with (
            connect(ClusterConfig(server=server.url)) as client,
            NodePool(client) as pool,
        ):
            lab = Lab(server, user, None, pool)  # type: ignore[arg-type]
            await lab.node()
            await lab.create("a")
            await lab.create("b", cpu="9")
            await lab.runs("a")
            assert (await lab.fails("b"))[0] == "TopologyAffinityError"
