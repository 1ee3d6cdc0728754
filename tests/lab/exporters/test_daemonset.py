"""Exporters and the collector as pods of the lab, from an image, with rights of their own."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.exporters.truth import told_zones, true_zones

from numakube.errors import NotFound
from numakube.kube.catalog import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    DAEMON_SETS,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
    SERVICE_ACCOUNTS,
)
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube_lab.exporters import install_definition
from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
from numakube_lab.run_folder import RunDir

IMAGE = "registry.example/tools/numakube:0.1"
ACCOUNT = "exporter"
RULES = [
    {
        "apiGroups": ["topology.node.k8s.io"],
        "resources": ["noderesourcetopologies"],
        "verbs": ["get", "create", "patch"],
    },
    {"apiGroups": [""], "resources": ["pods"], "verbs": ["list", "watch"]},
    {"apiGroups": [""], "resources": ["pods/status"], "verbs": ["patch"]},
    {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]},
]


@pytest.fixture
async def lab() -> AsyncIterator[Lab]:
    """A lab of two nodes in which everybody needs rights."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "t")
        folder.create()
        plans = uniform_plans(2, from_shape("2 sockets, 4 cores, smt 2, 16Gi, gpu 2"), "", "1.35")
        async with Lab(LabOptions(name="t", plans=plans, rbac=True), folder) as lab:
            await install_definition(lab.client)
            yield lab


async def grant(lab: Lab) -> None:
    """Give the account the rights of an exporter, and no others."""
    client, role = lab.client, {"metadata": {"name": ACCOUNT}}
    await client.create(SERVICE_ACCOUNTS, role, namespace="default")
    await client.create(CLUSTER_ROLES, {**role, "rules": RULES})
    subject = {"kind": "ServiceAccount", "name": ACCOUNT, "namespace": "default"}
    reference = {
        "apiGroup": "rbac.authorization.k8s.io",
        "kind": "ClusterRole",
        "name": ACCOUNT,
    }
    await client.create(
        CLUSTER_ROLE_BINDINGS, {**role, "subjects": [subject], "roleRef": reference}
    )


def daemon_set() -> dict[str, Any]:
    """Return the exporter as it is deployed: the kubelet's folder, /sys, and its own name."""
    labels = {"app": "exporter"}

    def field(name: str, path: str) -> dict[str, Any]:
        return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}

    def mount(name: str, host: str) -> tuple[dict[str, Any], dict[str, Any]]:
        return (
            {"name": name, "mountPath": f"/host{host}"},
            {"name": name, "hostPath": {"path": host}},
        )

    mounts, volumes = zip(mount("sys", "/sys"), mount("kubelet", "/var/lib/kubelet"), strict=True)
    container = {
        "name": "exporter",
        "image": IMAGE,
        "args": [
            "exporter",
            "--sysfs=/host/sys",
            "--kubelet-state-dir=/host/var/lib/kubelet",
            "--kubelet-config-file=/host/var/lib/kubelet/config.yaml",
            "--podresources-socket=unix:///host/var/lib/kubelet/pod-resources/kubelet.sock",
        ],
        "env": [
            field("NODE_NAME", "spec.nodeName"),
            field("REFERENCE_NAMESPACE", "metadata.namespace"),
            field("REFERENCE_POD_NAME", "metadata.name"),
        ],
        "volumeMounts": list(mounts),
    }
    spec = {
        "serviceAccountName": ACCOUNT,
        "containers": [container],
        "volumes": list(volumes),
        "readinessGates": [
            {"conditionType": "PodresourcesFetched"},
            {"conditionType": "NodeTopologyUpdated"},
        ],
    }
    return {
        "metadata": {"name": "exporter", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


async def is_reported(lab: Lab) -> bool:
    """Tell whether every node's object says what the model's books say."""
    for name, kubelet in lab.pool.kubelets.items():
        try:
            found = await lab.client.get(NODE_RESOURCE_TOPOLOGIES, name)
        except NotFound:
            return False
        assert kubelet.admission is not None
        if told_zones(found) != true_zones(kubelet.admission.model):
            return False
    return True


async def test_a_daemon_set_of_exporters_reports_every_node(lab: Lab) -> None:
    """With the least rights, and with conditions on its pods that make them ready."""
    await grant(lab)
    await lab.client.create(DAEMON_SETS, daemon_set())
    await until(lambda: is_reported(lab))
    resources = {"limits": {"cpu": "2", "memory": "1Gi", "vendor.example/gpu": "1"}}
    container = {"name": "main", "image": "registry.example/web:1", "resources": resources}
    document = {
        "metadata": {"name": "web"},
        "spec": {"nodeName": "node-1", "containers": [container]},
    }
    await lab.client.create(PODS.raw, document, namespace="default")

    async def holds() -> bool:
        admission = lab.pool.kubelet("node-1").admission
        return admission is not None and len(list(admission.pods)) == 2

    await until(holds)
    await until(lambda: is_reported(lab))

    async def has_conditions() -> bool:
        pods = await lab.client.list(PODS, labels="app=exporter", namespace="default")
        wanted = {
            (name, "True") for name in ("PodresourcesFetched", "NodeTopologyUpdated", "Ready")
        }
        return len(pods.items) == 2 and all(
            pod.status is not None
            and wanted
            <= {(condition.type, condition.status) for condition in pod.status.conditions}
            for pod in pods.items
        )

    await until(has_conditions)
