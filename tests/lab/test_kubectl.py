"""kubectl works with the lab unchanged."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import pytest

from kube_lab_server import ApiServer, User
from numakube.kubelet.machines.shape_text import from_shape
from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
from numakube_lab.run_folder import RunDir

# The one that belongs to the real server, if there is one, or else the user's.
KUBECTL = shutil.which("kubectl", path=os.environ.get("KUBEBUILDER_ASSETS", os.environ["PATH"]))
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="needs kubectl on the PATH")

TOKEN = "kubectl-test"

WEB = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, labels: {app: web}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: main
        image: img:1
        resources: {requests: {cpu: 100m}}
"""
OTHERS = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: p}}
spec: {containers: [{name: main, image: "img:1"}]}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {a: "1"}
---
apiVersion: v1
kind: Service
metadata: {name: s}
spec: {selector: {app: p}, ports: [{port: 80}]}
"""
NODE = '{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}'
TOPOLOGY = """
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: n1}
topologyPolicies: []
zones:
- name: node-0
  type: Node
  resources: [{name: cpu, capacity: "8", allocatable: "6", available: "2"}]
"""


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command left."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with *options* that name a server, with its caches and files in *directory*."""

    options: tuple[str, ...]
    directory: Path

    async def __call__(self, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        """Run it and return what it printed; it must succeed, or with *fails* it must not."""
        ended = await self.run(*arguments, stdin=stdin)
        assert (ended.code != 0) is fails, f"kubectl {' '.join(arguments)}: {ended}"
        return ended.err if fails else ended.out

    async def run(self, *arguments: str, stdin: str = "", editor: str = "false") -> Ended:
        """Run it to its end."""
        process = await self.start(*arguments, editor=editor)
        out, err = await process.communicate(stdin.encode())
        return Ended(process.returncode or 0, out.decode(), err.decode())

    async def start(self, *arguments: str, editor: str = "false") -> asyncio.subprocess.Process:
        """Start it."""
        assert KUBECTL is not None
        return await asyncio.create_subprocess_exec(
            KUBECTL,
            *self.options,
            f"--cache-dir={self.directory / 'cache'}",
            *arguments,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"KUBECONFIG": os.devnull, "HOME": str(self.directory), "EDITOR": editor}
            | {"PATH": os.environ["PATH"]},
        )

    def file(self, name: str, text: str) -> str:
        """Write a file and return its path."""
        path = self.directory / name
        path.write_text(text)
        return str(path)


def words(text: str) -> str:
    """Return *text* with single spaces, whatever its columns."""
    return " ".join(text.split())


@pytest.fixture
async def kubectl(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Run kubectl against a fresh server, as an administrator."""
    users = {TOKEN: User("admin", "u-admin", ("system:masters",))}
    # Over plain HTTP kubectl does not send tokens.
    async with ApiServer(users=users, rbac=True, tls=True) as server:
        assert server.authority is not None
        ca = tmp_path / "ca.crt"
        ca.write_bytes(server.authority.certificate)
        options = (f"--server={server.url}", f"--certificate-authority={ca}", f"--token={TOKEN}")
        yield Kubectl(options, tmp_path)


@pytest.fixture
async def in_lab(tmp_path: Path) -> AsyncIterator[Kubectl]:
    """Run kubectl with the kubeconfig of a lab of two nodes."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:  # short, for sockets
        folder = RunDir(Path(path) / "kubectl")
        folder.create()
        machine = from_shape("2 sockets, 8 cores, smt 2, 32Gi")
        plans = uniform_plans(2, machine, "", "1.35")
        async with Lab(LabOptions(name="kubectl", plans=plans, tls=True), folder):
            yield Kubectl((f"--kubeconfig={folder.kubeconfig}",), tmp_path)


async def test_apply_creates_changes_and_leaves_alone(kubectl: Kubectl) -> None:
    """The second time nothing changes, the third only what the file changed."""
    path = kubectl.file("all.yaml", f"{WEB}---{OTHERS}")
    created = await kubectl("apply", "-f", path)
    assert created.splitlines() == [
        "deployment.apps/web created",
        "pod/p created",
        "configmap/settings created",
        "service/s created",
    ]
    assert (await kubectl("apply", "-f", path)).count("unchanged") == 4
    path = kubectl.file("all.yaml", f"{WEB}---{OTHERS}".replace("img:1\n", "img:2\n"))
    assert "deployment.apps/web configured" in await kubectl("apply", "-f", path)
    assert (await kubectl.run("diff", "-f", path)).code == 0
    assert await kubectl("get", "deploy", "web", "-o", "jsonpath={..image}") == "img:2"


async def test_the_items_of_a_list_are_applied_and_checked(kubectl: Kubectl) -> None:
    """As kubectl itself prints several objects."""
    await kubectl("apply", "-f", "-", stdin=OTHERS)
    listed = await kubectl("get", "configmap,service", "-o", "yaml")
    assert (await kubectl("replace", "-f", "-", stdin=listed)).count("replaced") == 2
    wrong = json.loads(await kubectl("get", "configmap", "-o", "json"))
    wrong["items"][0]["dota"] = {}
    told = await kubectl("apply", "-f", "-", stdin=json.dumps(wrong), fails=True)
    assert 'unknown field "dota"' in told


async def test_apply_tells_of_mistakes_in_a_file(kubectl: Kubectl) -> None:
    """An unknown field is named, and nothing is created."""
    wrong = OTHERS.replace("containers", "contaners")
    told = await kubectl("apply", "-f", "-", stdin=wrong, fails=True)
    assert 'unknown field "spec.contaners"' in told
    assert 'pods "p" not found' in await kubectl("get", "pod", "p", fails=True)


async def test_apply_server_side_reports_conflicts(kubectl: Kubectl) -> None:
    """Who applies does not take away what another manager set, unless told to."""
    await kubectl("apply", "--server-side", "-f", "-", stdin=WEB)
    await kubectl("scale", "deploy", "web", "--replicas=5")
    told = await kubectl("apply", "--server-side", "-f", "-", stdin=WEB, fails=True)
    assert "conflict" in told
    assert ".spec.replicas" in told
    forced = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    assert "serverside-applied" in await kubectl(*forced, stdin=WEB)
    assert await kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "2"


async def test_get_prints_the_usual_columns(kubectl: Kubectl) -> None:
    """As tables, wide, as names, by selectors and in an order."""
    await kubectl("apply", "-f", "-", stdin=f"{WEB}---{OTHERS}")
    await kubectl("create", "-f", "-", stdin=NODE)
    pods = await kubectl("get", "pods")
    assert pods.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert pods.split()[5:8] == ["p", "0/1", "Pending"]
    assert "NOMINATED NODE" in await kubectl("get", "pods", "-o", "wide")
    assert "CONTAINERS" in await kubectl("get", "deploy", "-o", "wide")
    assert "INTERNAL-IP" in await kubectl("get", "nodes", "-o", "wide")
    assert await kubectl("get", "pods", "-l", "app=p", "-o", "name") == "pod/p\n"
    assert (
        await kubectl("get", "pods", "--field-selector", "status.phase=Running", "-o", "name") == ""
    )
    assert "service/s" in await kubectl("get", "all", "-A")


async def test_get_watch_prints_changes_as_they_happen(kubectl: Kubectl) -> None:
    """A line for what is there, and one for each change after it."""
    await kubectl("apply", "-f", "-", stdin=OTHERS)
    watching = await kubectl.start("get", "pods", "-w", "--no-headers", "--output-watch-events")
    assert watching.stdout is not None
    try:
        assert (await watching.stdout.readline()).split()[:2] == [b"ADDED", b"p"]
        await kubectl("label", "pod", "p", "turn=1")
        assert (await watching.stdout.readline()).split()[:2] == [b"MODIFIED", b"p"]
    finally:
        watching.terminate()
        await watching.communicate()


async def test_describe_finds_what_belongs_to_an_object(kubectl: Kubectl) -> None:
    """Of a pod, a node and a deployment."""
    await kubectl("apply", "-f", "-", stdin=f"{WEB}---{OTHERS}")
    await kubectl("create", "-f", "-", stdin=NODE)
    assert "QoS Class: BestEffort" in words(await kubectl("describe", "pod", "p"))
    assert "Replicas: 2 desired" in words(await kubectl("describe", "deploy", "web"))
    assert "Non-terminated Pods: (0 in total)" in words(await kubectl("describe", "node", "n1"))


async def test_objects_are_changed_by_patches_of_every_kind(kubectl: Kubectl) -> None:
    """Strategic, merge and JSON patches, labels, annotations, images, an editor, a whole file."""
    await kubectl("apply", "-f", "-", stdin=f"{WEB}---{OTHERS}")
    await kubectl("patch", "deploy", "web", "-p", '{"spec": {"replicas": 3}}')
    operations = json.dumps([{"op": "add", "path": "/data/b", "value": "2"}])
    await kubectl("patch", "cm", "settings", "--type=json", "-p", operations)
    await kubectl("patch", "cm", "settings", "--type=merge", "-p", '{"data": {"a": null}}')
    assert await kubectl("get", "cm", "settings", "-o", "jsonpath={.data}") == '{"b":"2"}'
    await kubectl("label", "pod", "p", "x=y")
    await kubectl("annotate", "pod", "p", "note=hello")
    shown = json.loads(await kubectl("get", "pod", "p", "-o", "json"))
    assert shown["metadata"]["labels"] == {"app": "p", "x": "y"}
    assert shown["metadata"]["annotations"]["note"] == "hello"
    await kubectl("set", "image", "deploy/web", "main=img:2")
    edited = await kubectl.run("edit", "deploy", "web", editor="sed -i s/img:2/img:3/")
    assert edited.out == "deployment.apps/web edited\n"
    assert await kubectl("get", "deploy", "web", "-o", "jsonpath={..image}") == "img:3"
    await kubectl("rollout", "restart", "deploy", "web")
    assert "replaced" in await kubectl("replace", "-f", "-", stdin=WEB)


async def test_delete_and_wait(kubectl: Kubectl) -> None:
    """By name, by file and by selector; waiting ends when the condition holds."""
    await kubectl("apply", "-f", "-", stdin=f"{WEB}---{OTHERS}")
    waited = await kubectl("wait", "--for=jsonpath={.data.a}=1", "cm/settings", "--timeout=120s")
    assert waited == "configmap/settings condition met\n"
    assert (await kubectl("delete", "pod", "p")).startswith('pod "p" deleted')
    await kubectl("wait", "--for=delete", "pod/p", "--timeout=120s")
    await kubectl("delete", "deploy", "-l", "app=web")
    await kubectl("delete", "cm", "settings", "--cascade=orphan", "--wait=false")
    assert "not found" in await kubectl("delete", "-f", "-", stdin=OTHERS, fails=True)
    assert await kubectl("delete", "pod", "p", "--ignore-not-found") == ""


async def test_scale_checks_what_it_expects(kubectl: Kubectl) -> None:
    """A deployment is scaled through its sub-resource."""
    await kubectl("apply", "-f", "-", stdin=WEB)
    await kubectl("scale", "deploy", "web", "--replicas=4", "--current-replicas=2")
    assert await kubectl("get", "deploy", "web", "-o", "jsonpath={.spec.replicas}") == "4"
    wrong = ("scale", "deploy", "web", "--replicas=1", "--current-replicas=2")
    assert "replicas" in await kubectl(*wrong, fails=True)


async def test_resources_and_versions_are_discovered(kubectl: Kubectl) -> None:
    """With short names, verbs and groups."""
    resources = await kubectl("api-resources", "--no-headers")
    assert ["deployments", "deploy", "apps/v1", "true", "Deployment"] in [
        line.split() for line in resources.splitlines()
    ]
    assert {"v1", "apps/v1", "scheduling.k8s.io/v1"} <= set((await kubectl("api-versions")).split())
    assert "Server Version: v1.35" in await kubectl("version")
    assert "is running at" in await kubectl("cluster-info")


async def test_explain_shows_the_fields_of_built_in_kinds(kubectl: Kubectl) -> None:
    """One level, or all."""
    explained = await kubectl("explain", "pod.spec")
    assert "containers\t<[]Container> -required-" in explained
    assert "matchLabels" in await kubectl("explain", "deploy.spec", "--recursive")


async def test_our_own_kind_is_served_like_any_other(kubectl: Kubectl) -> None:
    """Its definition is applied, established, explained, and its objects are checked."""
    definition = files("numakube.api.crds") / "topology.node.k8s.io_noderesourcetopologies.yaml"
    await kubectl("apply", "-f", str(definition))
    name = "crd/noderesourcetopologies.topology.node.k8s.io"
    await kubectl("wait", "--for=condition=established", name, "--timeout=120s")
    explained = await kubectl("explain", "noderesourcetopologies.zones.resources")
    assert "allocatable" in explained
    await kubectl("apply", "-f", "-", stdin=TOPOLOGY)
    assert "n1" in await kubectl("get", "noderesourcetopologies")
    wrong = TOPOLOGY.replace("type: Node", "type: 7")
    assert "zones[0].type" in await kubectl("apply", "-f", "-", stdin=wrong, fails=True)


async def test_create_makes_objects_without_a_file(kubectl: Kubectl) -> None:
    """Kubectl sends these as protobuf."""
    await kubectl("create", "namespace", "other")
    await kubectl("create", "configmap", "c", "--from-literal=a=b", "-n", "other")
    await kubectl("create", "secret", "generic", "s", "--from-literal=a=b")
    await kubectl("create", "deployment", "d", "--image=img", "--replicas=3")
    await kubectl("create", "job", "j", "--image=img")
    await kubectl("create", "cronjob", "cj", "--image=img", "--schedule=* * * * *")
    await kubectl("create", "service", "clusterip", "svc", "--tcp=80")
    await kubectl("create", "poddisruptionbudget", "b", "--selector=app=d", "--min-available=1")
    await kubectl("create", "priorityclass", "high", "--value=5")
    await kubectl("create", "role", "r", "--verb=get", "--resource=pods")
    await kubectl("create", "rolebinding", "rb", "--role=r", "--user=alice")
    await kubectl("create", "serviceaccount", "robot")
    assert (await kubectl("create", "token", "robot")).count(".") == 2
    await kubectl("run", "r", "--image=img")
    await kubectl("expose", "deploy", "d", "--port=80")
    assert await kubectl("get", "cm", "-n", "other", "c", "-o", "jsonpath={.data.a}") == "b"


async def test_rights_are_asked_for(kubectl: Kubectl) -> None:
    """One's own, and those of others."""
    assert await kubectl("auth", "can-i", "create", "pods") == "yes\n"
    assert (await kubectl.run("auth", "can-i", "create", "pods", "--as=alice")).out == "no\n"
    assert "admin" in await kubectl("auth", "whoami")


async def test_nodes_are_cordoned_tainted_and_drained(kubectl: Kubectl) -> None:
    """Draining evicts the pods of the node and waits until they are gone."""
    await kubectl("create", "-f", "-", stdin=NODE)
    await kubectl("cordon", "n1")
    assert await kubectl("get", "node", "n1", "-o", "jsonpath={.spec.unschedulable}") == "true"
    await kubectl("taint", "node", "n1", "a=b:NoSchedule")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}} | {
        "spec": {
            "nodeName": "n1",
            "terminationGracePeriodSeconds": 0,
            "containers": [{"name": "c", "image": "img"}],
        }
    }
    await kubectl("create", "-f", "-", stdin=json.dumps(pod))
    drained = await kubectl("drain", "n1", "--force", "--timeout=120s")
    assert "evicting pod default/p" in drained
    assert await kubectl("get", "pods", "-o", "name") == ""
    await kubectl("uncordon", "n1")


async def test_a_deployment_is_rolled_out_in_a_lab(in_lab: Kubectl) -> None:
    """Its pods run on the lab's nodes, and each change is followed to its end."""
    await in_lab("apply", "-f", "-", stdin=WEB)
    rolled_out = ("rollout", "status", "deploy/web", "--timeout=120s")
    assert "successfully rolled out" in await in_lab(*rolled_out)
    await in_lab("set", "image", "deploy/web", "main=img:2")
    assert "successfully rolled out" in await in_lab(*rolled_out)
    await in_lab("wait", "--for=condition=available", "deploy/web", "--timeout=120s")
    assert "2/2" in await in_lab("get", "deploy", "web")
    history = await in_lab("rollout", "history", "deploy/web")
    assert history.split()[-2:] == ["2", "<none>"]
    await in_lab("rollout", "undo", "deploy/web")
    assert await in_lab("get", "deploy", "web", "-o", "jsonpath={..image}") == "img:1"
    await in_lab("scale", "deploy", "web", "--replicas=0")
    await in_lab("wait", "--for=delete", "pod", "-l", "app=web", "--timeout=120s")
