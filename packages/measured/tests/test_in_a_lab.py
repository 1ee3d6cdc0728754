"""From the counters of a kernel to an answer: everything as it is deployed, in a lab."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from numakube.api.nrt import NodeResourceTopology
from numakube.errors import NotFound
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    CONFIG_MAPS,
    DAEMON_SETS,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
    ROLE_BINDINGS,
    ROLES,
    SERVICE_ACCOUNTS,
)
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.exporter import ExporterManifest
from numakube.testing import until
from numakube.topology.exact_report import uid_hash
from numakube_lab.testing import LabCluster, lab_cluster, uniform_plans
from numakube_measured.measurement import Measurement, read_measurement

pytestmark = pytest.mark.timeout(240)

NODE = "node-0"
SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
KINDS: dict[str, Any] = {
    "ServiceAccount": SERVICE_ACCOUNTS,
    "ClusterRole": CLUSTER_ROLES,
    "ClusterRoleBinding": CLUSTER_ROLE_BINDINGS,
    "Role": ROLES,
    "RoleBinding": ROLE_BINDINGS,
    "ConfigMap": CONFIG_MAPS,
    "DaemonSet": DAEMON_SETS,
}
DB: dict[str, Any] = {
    "metadata": {
        "name": "db",
        "annotations": {"lab.numakube.dev/uses-memory": "0=930,1=70"},
    },
    "spec": {
        "nodeName": NODE,
        "containers": [
            {
                "name": "app",
                "image": "example/db",
                "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
            }
        ],
    },
}


@pytest.fixture
async def lab() -> AsyncIterator[LabCluster]:
    """A lab of one node in which rights count, without an exporter."""
    plans = uniform_plans(1, from_shape(SHAPE), "policy=single-numa-node", "1.35")
    async with lab_cluster(plans=plans, rbac=True, exporters=False) as lab:
        await lab.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        yield lab


async def test_memory_elsewhere_than_promised_is_published(lab: LabCluster) -> None:
    """With the rights and the mounts of the manifests that we ship."""
    created = await lab.client.create(PODS, DB, namespace="default")
    await until(lambda: _phase(lab), holds=lambda phase: phase == "Running")
    for document in ExporterManifest(measure=True).objects():
        kind = KINDS.get(document["kind"])
        if kind is not None:
            await lab.client.create(
                kind, document, namespace=document["metadata"].get("namespace", "")
            )

    def is_seen(measurement: Measurement | None) -> bool:
        return measurement is not None and any(
            pod.uid == uid_hash(created.metadata.uid) and pod.memory_mi for pod in measurement.pods
        )

    found = await until(lambda: _measured(lab), holds=is_seen, within=120)
    assert found is not None
    (db,) = (pod for pod in found.pods if pod.uid == uid_hash(created.metadata.uid))
    assert db.memory_mi == {0: 930, 1: 70}
    assert db.local in (pytest.approx(0.93), pytest.approx(0.07))
    assert db.near_threads == 1.0
    assert db.confined


async def _phase(lab: LabCluster) -> str:
    pod = await lab.client.get(PODS, "db", namespace="default")
    return pod.status.phase if pod.status is not None else ""


async def _measured(lab: LabCluster) -> Measurement | None:
    try:
        report: NodeResourceTopology = await lab.client.get(NODE_RESOURCE_TOPOLOGIES, NODE)
    except NotFound:
        return None
    found = read_measurement(report)
    return found if isinstance(found, Measurement) else None
