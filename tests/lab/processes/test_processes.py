"""Pods of numakube's image come alive in a whole lab."""

from __future__ import annotations

import asyncio
import re
import shutil
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from tests.lab.processes.build import (
    IMAGE,
    is_gone,
    log_with,
    pod_document,
    pod_in,
    pod_with,
)

from numakube.api.yaml_text import load_manifests
from numakube.errors import BadRequest
from numakube.kube.catalog import CONFIG_MAPS, DAEMON_SETS, PODS
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import load_config
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import follow_log, read_log
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube.version import VERSION
from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
from numakube_lab.processes.program_table import PROGRAMS
from numakube_lab.run_folder import RunDir

EXAMPLE = Path(__file__).parents[3] / "examples" / "probe-daemonset.yaml"


async def test_a_program_runs_to_its_end(lab: Lab) -> None:
    """Its output is in the log, and the pod has succeeded."""
    await lab.client.create(PODS, pod_document("v", "version", restart="Never"))
    pod = await pod_in(lab.client, "v", "Succeeded")
    assert pod.status.container_statuses[0].state.terminated.exit_code == 0
    log = await read_log(lab.client, ObjectKey("default", "v"))
    assert log == f"numakube, version {VERSION}\n"


async def test_a_container_sees_its_files_and_reaches_the_api(lab: Lab) -> None:
    """Over HTTPS, with the token of its service account."""
    settings = {"metadata": {"name": "settings", "namespace": "default"}, "data": {"a.yaml": "1"}}
    await lab.client.create(CONFIG_MAPS, settings)
    await lab.client.create(PODS, probe("p"))
    await pod_in(lab.client, "p", "Running")
    log = await log_with(lab.client, "p", "pods in the cluster")
    assert "lab-probe: on node node-0" in log
    assert "lab-probe: file /etc/settings/a.yaml" in log
    for name in ("token", "ca.crt", "namespace"):
        assert f"lab-probe: file /var/run/secrets/kubernetes.io/serviceaccount/{name}" in log
    assert "1 pods in the cluster at 127.0.0.1:" in log


async def test_a_daemon_set_comes_alive_on_every_node(lab: Lab) -> None:
    """As the operator's will; the example shows it."""
    (document,) = load_manifests(EXAMPLE.read_text(), EXAMPLE.name)
    await lab.client.create(DAEMON_SETS, document, namespace="default")

    async def ready() -> bool:
        status = (await lab.client.get(DAEMON_SETS, "probe", namespace="default"))["status"]
        return bool(status.get("numberReady") == 2)

    await until(ready)
    pods = (await lab.client.list(PODS, namespace="default")).items
    nodes = set()
    for pod in pods:
        await log_with(lab.client, pod.metadata.name, f"on node {pod.spec.node_name}")
        nodes.add(pod.spec.node_name)
    assert nodes == {"node-0", "node-1"}


async def test_deletion_lets_a_container_end_in_order(lab: Lab) -> None:
    """Who follows its log sees its last words."""
    await lab.client.create(PODS, pod_document("p", "lab-probe"))
    await log_with(lab.client, "p", "pods in the cluster")
    async with follow_log(lab.client, ObjectKey("default", "p")) as chunks:
        await lab.client.delete(PODS, "p", namespace="default")
        text = b"".join([chunk async for chunk in chunks])
    assert text.endswith(b"lab-probe: told to stop\n")
    await until(lambda: is_gone(lab.client, "p"))
    await until(lambda: not list(lab.runtime._folder.glob("*")))


async def test_an_unknown_program_fails_like_any_other(lab: Lab) -> None:
    """With the code of shells, a line that says why, and back-off."""
    await lab.client.create(PODS, pod_document("u", "numakube", "fly"))
    pod = await pod_with(lab.client, "u", waits("CrashLoopBackOff", "back-off 10s"))
    (status,) = pod.status.container_statuses
    assert status.last_state.terminated.exit_code == 127
    assert status.restart_count == 1
    assert status.state.waiting.message.startswith("back-off 10s restarting failed container=main")
    log = await read_log(lab.client, ObjectKey("default", "u"), previous=True)
    known = ", ".join(sorted(PROGRAMS))
    assert log == f"numakube: the lab has no program 'fly'; it can run: {known}\n"


async def test_containers_run_on_while_their_kubelet_restarts(lab: Lab) -> None:
    """It finds them again."""
    await lab.client.create(PODS, pod_document("p", "lab-probe"))
    await log_with(lab.client, "p", "pods in the cluster")
    before = await pod_in(lab.client, "p", "Running")
    process = lab.runtime.process(before.metadata.uid, "main")
    assert process is not None
    await lab.pool.kill("node-0")
    assert process.is_alive
    await lab.pool.start("node-0")
    after = await pod_in(lab.client, "p", "Running")
    assert after.status.container_statuses == before.status.container_statuses
    assert lab.runtime.process(before.metadata.uid, "main") is process


async def test_what_was_deleted_while_the_kubelet_was_away_is_killed(lab: Lab) -> None:
    """By the kubelet that comes next."""
    await lab.client.create(PODS, pod_document("p", "lab-probe"))
    pod = await pod_in(lab.client, "p", "Running")
    process = lab.runtime.process(pod.metadata.uid, "main")
    assert process is not None
    await lab.pool.kill("node-0")
    await lab.client.delete(PODS, "p", namespace="default", grace_seconds=0)
    assert process.is_alive
    await lab.pool.start("node-0")
    await until(lambda: not process.is_alive)


async def test_what_is_missing_is_named_and_waited_for(lab: Lab) -> None:
    """Variables by the container's reason, files by its creation that goes on."""
    env = [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "a"}}}]
    await lab.client.create(PODS, pod_document("e", "lab-probe", container={"env": env}))
    pod = await pod_with(lab.client, "e", waits("CreateContainerConfigError"))
    waiting = pod.status.container_statuses[0].state.waiting
    assert waiting.message == 'configmap "none" not found'
    with pytest.raises(BadRequest, match='"main" in pod "e" is waiting to start: CreateContainer'):
        await read_log(lab.client, ObjectKey("default", "e"))
    await lab.client.create(PODS, probe("f"))
    pod = await pod_with(lab.client, "f", waits("ContainerCreating", 'configmap "settings"'))
    assert pod.status.phase == "Pending"


async def test_a_simulated_container_says_that_it_is_one(lab: Lab) -> None:
    """Next to one that really runs."""
    document = pod_document("m", "lab-probe")
    document["spec"]["containers"].append({"name": "web", "image": "registry.example/web:1"})
    await lab.client.create(PODS, document)
    await pod_in(lab.client, "m", "Running")
    log = await read_log(lab.client, ObjectKey("default", "m"), container="web")
    assert log == "simulated by the lab: registry.example/web:1 does not really run\n"
    with pytest.raises(BadRequest, match="a container name must be specified for pod m"):
        await read_log(lab.client, ObjectKey("default", "m"))


async def test_init_containers_come_first(lab: Lab) -> None:
    """And a pod whose init container fails for good has failed."""
    init = [{"name": "first", "image": IMAGE, "args": ["version"]}]
    await lab.client.create(PODS, pod_document("a", "lab-probe", initContainers=init))
    pod = await pod_in(lab.client, "a", "Running")
    assert pod.status.init_container_statuses[0].state.terminated.exit_code == 0
    init = [{"name": "first", "image": IMAGE, "args": ["fly"]}]
    document = pod_document("b", "lab-probe", initContainers=init, restart="Never")
    await lab.client.create(PODS, document)
    pod = await pod_in(lab.client, "b", "Failed")
    assert pod.status.container_statuses[0].state.waiting.reason == "PodInitializing"


async def test_the_node_is_the_labs_own(lab: Lab) -> None:
    """What the kubelet keeps and sysfs are mounted from the node's folder."""
    mounts = {"volumeMounts": [{"name": "k", "mountPath": "/host/kubelet"}]}
    volumes = [{"name": "k", "hostPath": {"path": "/var/lib/kubelet", "type": "Directory"}}]
    document = pod_document("h", "lab-probe", container=mounts, volumes=volumes)
    await lab.client.create(PODS, document)
    log = await log_with(lab.client, "h", "pods in the cluster")
    assert "lab-probe: file /host/kubelet/cpu_manager_state" in log


async def test_parts_of_a_log_are_read_over_http(lab: Lab) -> None:
    """As kubectl asks for them."""
    await lab.client.create(PODS, pod_document("p", "lab-probe", "--every", "60"))
    log = await log_with(lab.client, "p", "pods in the cluster")
    url = f"{lab.url}/api/v1/namespaces/default/pods/p/log"

    async with aiohttp.ClientSession() as session:

        async def get(**query: str) -> tuple[int, str]:
            async with session.get(url, params=query) as response:
                return response.status, await response.text()

        assert await get() == (200, log)
        assert await get(tailLines="1") == (200, log.splitlines(keepends=True)[-1])
        assert await get(limitBytes="9") == (200, "lab-probe")
        assert await get(sinceSeconds="3600") == (200, log)
        assert await get(sinceTime="2100-01-01T00:00:00Z") == (200, "")
        (_, stamped) = await get(timestamps="true", tailLines="1")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:]{8}\.\d{9}Z lab-probe: .*\n", stamped)
        (status, text) = await get(previous="true")
        assert status == 400
        assert 'previous terminated container \\"main\\" in pod \\"p\\" not found' in text
        (status, text) = await get(container="x")
        assert status == 400
        assert "container x is not valid for pod p" in text


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="needs kubectl")
async def test_kubectl_shows_the_log(lab: Lab, folder: RunDir) -> None:
    """As that of any pod."""
    async with connect(load_config(kubeconfig=folder.kubeconfig, env={})) as client:
        await client.create(PODS, pod_document("v", "version", restart="Never"))
        await pod_in(client, "v", "Succeeded")
    command = ["kubectl", "--kubeconfig", str(folder.kubeconfig), "logs", "v", "--tail=1"]
    kubectl = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    output, _ = await kubectl.communicate()
    assert output.decode() == f"numakube, version {VERSION}\n"


def probe_container() -> dict[str, Any]:
    """Return a container that reports what it sees, its node's name included."""
    env = [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]
    return {"name": "main", "image": IMAGE, "args": ["lab-probe", "--every", "60"], "env": env}


def probe(name: str) -> dict[str, Any]:
    """Return a pod that reports what it sees, with a config map that is called settings."""
    mounts = {"volumeMounts": [{"name": "settings", "mountPath": "/etc/settings"}]}
    volumes = [{"name": "settings", "configMap": {"name": "settings"}}]
    return pod_document(name, container=probe_container() | mounts, volumes=volumes)


def waits(reason: str, message: str = "") -> Any:
    """Return whether a pod's first container waits for *reason*."""

    def check(pod: Any) -> bool:
        if not pod.status.container_statuses:
            return False
        waiting = pod.status.container_statuses[0].state.waiting
        return waiting is not None and waiting.reason == reason and message in waiting.message

    return check


async def test_rights_of_the_service_account_are_held_to(folder: RunDir) -> None:
    """In a lab with RBAC a pod may do what its account may, and its log says what it may not."""
    plans = uniform_plans(1, from_shape("4 cores, 8Gi"), "", "1.35")
    async with Lab(LabOptions(name="t", plans=plans, rbac=True, tls=True), folder) as lab:
        await lab.client.create(PODS, pod_document("p", "lab-probe", "--every", "60"))
        log = await log_with(lab.client, "p", "forbidden")
        assert "system:serviceaccount:default:default" in log


async def test_what_ran_when_the_lab_went_down_is_started_again(folder: RunDir) -> None:
    """A lab that keeps its data comes back like a machine after a power cut."""
    plans = uniform_plans(1, from_shape("4 cores, 8Gi"), "", "1.35")
    options = LabOptions(name="t", plans=plans, data=folder.path / "data")
    async with Lab(options, folder) as lab:
        await lab.client.create(PODS, pod_document("p", "lab-probe", "--every", "60"))
        await lab.client.create(PODS, pod_document("v", "version", restart="Never"))
        await pod_in(lab.client, "p", "Running")
        await pod_in(lab.client, "v", "Succeeded")
    async with Lab(options, folder) as lab:
        pod = await pod_with(
            lab.client, "p", lambda pod: pod.status.container_statuses[0].restart_count == 1
        )
        (status,) = pod.status.container_statuses
        assert status.last_state.terminated.exit_code == 255
        await log_with(lab.client, "p", "pods in the cluster")
        assert (await pod_in(lab.client, "v", "Succeeded")).status.container_statuses
