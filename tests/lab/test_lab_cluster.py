"""A whole lab, as a user has it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from numakube.api.yaml_text import load_manifests
from numakube.errors import ConfigError
from numakube.kube.catalog import PODS
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.kubelet.machines.cadvisor_machine import to_cadvisor, write_devices
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube.topology.report_notation import write_tree
from numakube_lab.control_socket import ControlClient
from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
from numakube_lab.run_folder import LabInfo, RunDir

EXAMPLES = Path(__file__).parents[2] / "examples"
SHAPE = "2 sockets, 8 cores, smt 2, 32Gi, gpu 2"


@pytest.fixture
def folder() -> Iterator[RunDir]:
    """A folder with a short path, for sockets."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "test")
        folder.create()
        yield folder


@pytest.fixture
async def lab(folder: RunDir) -> AsyncIterator[Lab]:
    """A lab of two nodes."""
    plans = uniform_plans(2, from_shape(SHAPE), "", "1.35")
    async with Lab(LabOptions(name="test", plans=plans), folder) as lab:
        yield lab


async def pod_until(client: Client, name: str, phase: str) -> Any:
    """Return the pod once it is in *phase*."""
    return await until(
        lambda: client.get(PODS, name, namespace="default"),
        lambda pod: pod.status is not None and pod.status.phase == phase,
    )


def example(name: str) -> dict[str, Any]:
    """Return the object of an example, bound to a node."""
    (document,) = load_manifests((EXAMPLES / name).read_text(), name)
    return dict(document)


def bound(document: dict[str, Any], node: str) -> dict[str, Any]:
    """Bind a pod to a node before it is created."""
    return {**document, "spec": {**document["spec"], "nodeName": node}}


def lab_nodes(lab: Lab) -> Callable[[], Awaitable[Any]]:
    """Look at what the lab tells of its nodes, which it counts by its own watch."""

    async def look() -> Any:
        return (await lab.status())["nodes"]

    return look


async def test_the_kubelet_refuses_what_no_numa_node_can_hold(lab: Lab) -> None:
    """With the reason that a real one gives."""
    document = bound(example("too-wide-pod.yaml"), "node-0")
    await lab.client.create(PODS.raw, document, namespace="default")
    pod = await pod_until(lab.client, "too-wide", "Failed")
    assert pod.status.reason == "TopologyAffinityError"
    assert pod.status.message == (
        "Pod was rejected: Resources cannot be allocated with Topology locality"
    )
    (node, _) = await until(lab_nodes(lab), lambda nodes: nodes[0]["rejected"])
    assert (node["name"], node["rejected"]) == ("node-0", 1)


async def test_the_kubeconfig_reaches_the_lab_over_http(lab: Lab, folder: RunDir) -> None:
    """And what is created there runs."""
    config = load_config(kubeconfig=folder.kubeconfig, env={})
    async with connect(config) as client:
        document = bound(
            {
                "metadata": {"name": "web"},
                "spec": {
                    "containers": [
                        {
                            "name": "web",
                            "image": "registry.example/web:1",
                            "resources": {"limits": {"cpu": "2", "memory": "1Gi"}},
                        }
                    ]
                },
            },
            "node-1",
        )
        await client.create(PODS.raw, document, namespace="default")
        await pod_until(client, "web", "Running")
    node = (await lab.status())["nodes"][1]
    assert node["exclusiveCpus"] == 2
    assert [zone["cpusFree"] for zone in node["zones"]] == [12, 16]


async def test_the_dashboard_shows_every_node(lab: Lab) -> None:
    """Complete from the first visit on."""
    async with aiohttp.ClientSession() as session:
        async with session.get(lab.info().dashboard) as response:
            text = await response.text()
            assert response.status == 200
        assert "node-1" in text
        async with session.get(f"{lab.info().dashboard}nodes/node-1") as response:
            assert response.status == 200


async def test_a_running_lab_is_steered_over_its_socket(lab: Lab, folder: RunDir) -> None:
    """Nodes come, restart, fall silent and go; faults strike and are lifted; then it ends."""
    control = ControlClient(folder.control_socket)
    machine = from_shape("4 cores, 8Gi, gpu 1, nic 1, 1 switch")
    request = {
        "machine": to_cadvisor(machine),
        "devices": write_devices(machine.devices),
        "tree": msgspec.to_builtins(write_tree(machine.tree)),
    }
    assert await control.call("POST", "/nodes", request) == {"nodes": ["node-2"]}
    assert lab.pool.kubelets["node-2"].plan.machine == machine
    await control.call("POST", "/nodes/node-2/kill")
    await control.call("POST", "/nodes/node-2/start")
    await control.call("POST", "/nodes/node-2/restart")
    await control.call("POST", "/nodes/node-2/pause")
    states = {
        node["name"]: node["state"] for node in (await control.call("GET", "/status"))["nodes"]
    }
    assert states == {"node-0": "running", "node-1": "running", "node-2": "paused"}
    await control.call("POST", "/nodes/node-2/resume")
    await control.call("POST", "/nodes/node-2/remove")
    with pytest.raises(
        ConfigError, match="no node 'node-2' in this lab; there are: node-0, node-1"
    ):
        await control.call("POST", "/nodes/node-2/restart")
    fault = {"kind": "fail", "path": "/nodes", "code": 503, "times": None}
    assert await control.call("POST", "/faults", fault) == {"number": 1}
    assert list(await control.call("GET", "/faults")) == ["1"]
    await control.call("DELETE", "/faults")
    with pytest.raises(ConfigError, match="fault"):
        await control.call("POST", "/faults", {"kind": "explode"})
    await control.call("POST", "/history/expire")
    await control.call("POST", "/watches/drop")
    await control.call("POST", "/shutdown")
    assert lab.ended.is_set()


def test_a_second_lab_of_the_same_name_is_refused(folder: RunDir) -> None:
    """With the command that stops the first."""
    folder.write_info(LabInfo("test", os.getpid(), "http://x", "http://y", "/z"))
    with pytest.raises(ConfigError, match="numakube lab down --name test"):
        folder.create()
