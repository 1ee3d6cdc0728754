"""From a virtual function to a pod beside it: everything as it is deployed, in a lab.

The manifests that we ship are applied to a lab in which rights count. The plugin offers virtual
functions of a fake sysfs to the lab's kubelet, the exporter reports what it sees there, and the
scheduler places pods by that.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from packages.sriov.tests.build import pool

from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod
from numakube.errors import NotFound
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.exporter import ExporterManifest
from numakube.manifests.scheduler import SchedulerManifest
from numakube.node.pci.fake_pci import FakePci
from numakube.testing import refusal_of, until
from numakube_lab.testing import LabCluster, lab_cluster, uniform_plans
from numakube_sriov.manifest import NAME as SRIOV
from numakube_sriov.manifest import SriovManifest

pytestmark = pytest.mark.timeout(180)

VF = "intel.com/sriov"
NODE = "node-0"
CARDS = (("0000:10:00.0", "ens0f0"), ("0000:11:00.0", "ens1f0"))
SHAPE = "2 sockets, 4 cores, smt 2, 16Gi, hugepages-2Mi 512"
KINDS: dict[str, Any] = {
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
    "Role": ROLES,
    "RoleBinding": ROLE_BINDINGS,
    "ConfigMap": CONFIG_MAPS,
    "DaemonSet": DAEMON_SETS,
    "Deployment": DEPLOYMENTS,
}


@pytest.fixture
async def lab() -> AsyncIterator[LabCluster]:
    """A lab of one node whose cards have two virtual functions on NUMA node 0 and one on 1."""
    (plan,) = uniform_plans(1, from_shape(SHAPE), "", "1.35")
    plans = (replace(plan, virtual_functions=2),)
    async with lab_cluster(plans=plans, rbac=True, exporters=False) as lab:
        await lab.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        await lab.pool.folder(NODE)
        fake_pci(lab).vfs(CARDS[1][0], 1)
        yield lab


def fake_pci(lab: LabCluster) -> FakePci:
    """Return the PCI bus of the node."""
    sockets = lab.pool.sockets(NODE)
    assert sockets is not None
    return FakePci(sockets.registry.parent / "sys")


async def deploy(lab: LabCluster) -> None:
    """Apply what we ship, with a plugin that looks at its cards more often."""
    manifests = (
        ExporterManifest(),
        SriovManifest(pools=(pool("sriov"),)),
        replace(SchedulerManifest(), replicas=1),
    )
    for manifest in manifests:
        for document in manifest.objects():
            if document["kind"] not in KINDS:
                continue  # services and network policies: pods of the lab have no network
            if document["metadata"]["name"] == SRIOV and document["kind"] == "DaemonSet":
                (container,) = document["spec"]["template"]["spec"]["containers"]
                container["args"].append("--rescan-interval=200ms")
            namespace = document["metadata"].get("namespace", "")
            await lab.client.create(KINDS[document["kind"]], document, namespace=namespace)


async def available(lab: LabCluster) -> dict[str, int]:
    """Return how many virtual functions the node's report says are free, by zone."""
    try:
        report: NodeResourceTopology = await lab.client.get(NODE_RESOURCE_TOPOLOGIES, NODE)
    except NotFound:
        return {}
    return {
        zone.name: int(str(part.available))
        for zone in report.zones
        for part in zone.resources
        if part.name == VF
    }


async def reports(lab: LabCluster, **zones: int) -> None:
    """Wait until the report says so."""
    wanted = {name.replace("_", "-"): count for name, count in zones.items()}
    await until(lambda: available(lab), lambda found: found == wanted)


async def create(lab: LabCluster, name: str) -> None:
    """Create a pod that wants CPUs, hugepages and a virtual function of one NUMA node."""
    amounts = {"cpu": "2", "memory": "512Mi", "hugepages-2Mi": "64Mi", VF: "1"}
    container = {
        "name": "main",
        "image": "registry.example/dpdk:1",
        "resources": {"requests": amounts, "limits": amounts},
    }
    document = {
        "metadata": {"name": name},
        "spec": {"schedulerName": "numakube-scheduler", "containers": [container]},
    }
    await lab.client.create(PODS.raw, document, namespace="default")


async def get(lab: LabCluster, name: str) -> Pod:
    """Return a pod."""
    return await lab.client.get(PODS, name, namespace="default")


async def runs(lab: LabCluster, name: str) -> None:
    """Wait until a pod runs."""
    await until(
        lambda: get(lab, name),
        lambda pod: pod.status is not None and pod.status.phase == "Running",
    )


def zones_of(lab: LabCluster, name: str) -> set[int]:
    """Return the NUMA nodes of everything that a pod holds."""
    (held,) = (
        resource for resource in lab.pool.kubelet(NODE).pod_resources() if resource.name == name
    )
    (container,) = held.containers
    assert container.devices
    assert container.memory
    near = set(range(4)) | set(range(8, 12))
    zones = {0 if cpu in near else 1 for cpu in container.cpu_ids}
    zones |= {node for device in container.devices for node in device.numa_nodes}
    return zones | {node for memory in container.memory for node in memory.numa_nodes}


async def refusal(lab: LabCluster, name: str) -> str:
    """Wait until the scheduler has said why a pod cannot run; return it."""

    async def said() -> str:
        return refusal_of(await get(lab, name))

    return await until(said)


async def test_pods_get_cpus_hugepages_and_a_function_of_one_numa_node(lab: LabCluster) -> None:
    """As long as there is one beside the rest; then they wait, and are told what is missing."""
    await deploy(lab)
    await reports(lab, node_0=2, node_1=1)

    for name in ("a", "b", "c"):
        await create(lab, name)
        await runs(lab, name)
        assert len(zones_of(lab, name)) == 1
    await reports(lab, node_0=0, node_1=0)

    await create(lab, "d")
    assert VF in await refusal(lab, "d")

    # A new function on NUMA node 1 is offered, reported and used without a restart of anything.
    fake_pci(lab).vfs(CARDS[1][0], 2)
    await runs(lab, "d")
    assert zones_of(lab, "d") == {1}


async def test_the_last_aligned_function_counts_and_not_the_last_one(lab: LabCluster) -> None:
    """Functions are left, but not where the CPUs are: nobody binds the pod to its rejection."""
    fake = fake_pci(lab)
    fake.interface(*CARDS[1], operstate="down")
    await deploy(lab)
    await reports(lab, node_0=2)
    # All CPUs of NUMA node 0: three cores, since one is reserved.
    amounts = {"cpu": "6", "memory": "1Gi", VF: "1"}
    container = {
        "name": "main",
        "image": "registry.example/busy:1",
        "resources": {"requests": amounts, "limits": amounts},
    }
    busy = {"metadata": {"name": "busy"}, "spec": {"nodeName": NODE, "containers": [container]}}
    await lab.client.create(PODS.raw, busy, namespace="default")
    await runs(lab, "busy")
    assert zones_of_devices(lab, "busy") == {0}
    await reports(lab, node_0=1)

    await create(lab, "waits")
    assert "cannot align" in await refusal(lab, "waits")

    # The cable of the other card is plugged in: its functions are healthy, reported and used.
    fake.interface(*CARDS[1], operstate="up")
    await runs(lab, "waits")
    assert zones_of(lab, "waits") == {1}


def zones_of_devices(lab: LabCluster, name: str) -> set[int]:
    """Return the NUMA nodes of a pod's devices."""
    (held,) = (
        resource for resource in lab.pool.kubelet(NODE).pod_resources() if resource.name == name
    )
    return {node for device in held.containers[0].devices for node in device.numa_nodes}
