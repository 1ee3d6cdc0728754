"""From the exporter's report to the bound pod: GPUs and network cards behind one switch."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.kubelet.device_pairs import pairing
from numakube.kubelet.machine import Closeness
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import pod_document
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.nodes.node_documents import NodePlan
from numakube_lab.testing import LabCluster, lab_cluster

pytestmark = pytest.mark.timeout(180)

GPU, NIC = "vendor.example/gpu", "vendor.example/nic"
SHAPE = "2 sockets, 8 cores, 32Gi, gpu 2, nic 2"


def plans() -> tuple[NodePlan, ...]:
    """Return nodes without a word on switches, with none, and with two on each NUMA node."""
    return tuple(
        plan
        for number, more in enumerate(("", ", 2 slots", ", 2 switches"))
        for plan in uniform_plans(
            1, from_shape(SHAPE + more), "policy=single-numa-node", "1.35", first=number
        )
    )


def training(name: str) -> dict[str, Any]:
    """Return a pod with two GPUs and two cards that are to be behind the same switches."""
    tree = pod_document(name, "2")
    tree["metadata"]["annotations"] = {"numakube.dev/closeness": "same-switch"}
    limits = tree["spec"]["containers"][0]["resources"]["limits"]
    limits |= {GPU: "2", NIC: "2"}
    tree["spec"]["containers"][0]["resources"]["requests"] = dict(limits)
    return tree


def closeness(world: LabCluster, name: str) -> Closeness | None:
    """Return how close the devices are that the kubelet has given a pod."""
    pod = world.pod(name)
    admission = world.pool.kubelets[pod.spec.node_name].admission
    assert admission is not None
    model = admission.model
    (container,) = pod.spec.containers
    held = model.placement(pod.metadata.uid, container.name).devices
    groups = [
        tuple(device.pci for device in model.devices.devices_of(resource) if device.id in ids)
        for resource, ids in held.items()
    ]
    return pairing(model.machine.tree, groups)


async def test_pods_that_ask_for_one_switch_run_only_where_they_get_it() -> None:
    """Two fit on the one node that has switches; the third waits and knows why."""
    async with lab_cluster(plans=plans()) as world:
        await world.start()
        await world.create(training("one"), training("two"))
        await world.runs("one", "two")
        for name in ("one", "two"):
            assert world.pod(name).spec.node_name == "node-2"
            assert closeness(world, name) is Closeness.PIX
        await world.create(training("three"))
        words = await world.refuses("three", "devices not close enough")
        assert "not known how devices are connected" in words
        assert f"{GPU} and {NIC} would be NODE" in words
