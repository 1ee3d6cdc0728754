"""``numakube demo``: the point of it all in under a minute, on a lab in this process.

The story of the demo: the same pods by a scheduler that counts per node, and by ours.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from numakube.annexes import Group, load
from numakube.apps.gathering import SCHEDULING, gather
from numakube.cli.shared import print_drawing
from numakube.cli.shared.log_options import configure_logs
from numakube.cli.shared.output_option import can_draw, make_console
from numakube.errors import NumakubeError
from numakube.insight import engine_of, facts_of
from numakube.insight.explain import explain, pod_subject, render
from numakube.insight.node_map import (
    DEFAULT_WIDTH,
    node_picture,
    picture_of_model,
    zone_lines,
)
from numakube.kube.catalog import DEPLOYMENTS, resource_of
from numakube.manifests.scheduler import NAME, SchedulerManifest
from numakube.topology import NodeTopology
from numakube_lab.processes.program_table import OWN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numakube.api.pod import Pod
    from numakube.insight import ClusterFacts
    from numakube.kube import Client, Store
    from numakube_lab.lab_cluster import Lab
    from numakube_lab.nodes.lab_kubelet import LabKubelet


@click.command("demo")
def command() -> None:
    """Place the same pods with and without NUMA awareness."""
    configure_logs("error", "text")
    asyncio.run(_demo())


async def _demo() -> None:
    from numakube.kube import Reflector, reflecting
    from numakube.kube.catalog import PODS
    from numakube.kubelet import from_shape
    from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
    from numakube_lab.run_folder import RunDir

    plans = uniform_plans(NODES, from_shape(SHAPE), "", "1.35")
    with tempfile.TemporaryDirectory(prefix="nk-") as path:
        folder = RunDir(Path(path) / "demo")
        folder.create()
        async with Lab(LabOptions(name="demo", plans=plans, exporters=True), folder) as lab:
            pods = Reflector(lab.client, PODS)
            async with reflecting(pods):
                await Story(lab, pods.store).tell()


T = TypeVar("T")

SHAPE: Final = "2 sockets, 8 cores, smt 2, 32Gi, gpu 2"
NODES: Final = 3
REPLICAS: Final = 8
FITTING: Final = 6
"""One pod of 10 CPUs fits into each NUMA node of 16, and each node has two of them."""

_SECONDS: Final = 60.0
# How long a deployment that cannot run as a whole is watched.
_WATCHED: Final = 5.0
_REASON: Final = "TopologyAffinityError"
_NAMESPACE: Final = "numakube"


class DemoFailed(NumakubeError):
    """The lab did not do in time what the demo shows."""


class Story:
    """Tells the story on *lab*, whose pods *pods* mirrors."""

    def __init__(self, lab: Lab, pods: Store[Pod]) -> None:
        self._lab = lab
        self._pods = pods
        self._map = ""

    async def tell(self) -> None:
        """Tell it."""
        _say(f"A cluster of {NODES} nodes in this process: {SHAPE}")
        _say("Every kubelet aligns containers on single NUMA nodes (single-numa-node).")
        _say("An exporter on each node publishes what its NUMA zones have left.\n")
        await self._blind()
        await self._aligned()
        await self._impossible()

    async def _blind(self) -> None:
        _say(f"1. {REPLICAS} pods of 10 CPUs and a GPU, by a scheduler that counts per node only.")
        await self._apply("blind", "default-scheduler", replicas=REPLICAS, cpu="10", gpu="1")
        await self._until(lambda: self._running("blind", FITTING))
        await asyncio.sleep(_WATCHED)
        rejected = self._rejected("blind")
        _say(f"   {FITTING} run. It keeps sending the others to nodes that cannot align them:")
        _say(f"   {len(rejected)} pods were rejected by kubelets in {_WATCHED:.0f} seconds.")
        for pod in rejected[:1]:
            message = pod.status.message if pod.status else ""
            _say(f"   {pod.metadata.name} Failed: {_REASON}: {message}")
        await self._remove("blind")

    async def _aligned(self) -> None:
        _say(f"\n2. The same pods by {NAME}, which runs as a pod of this cluster.")
        await self._deploy_scheduler()
        await self._apply("aligned", NAME, replicas=REPLICAS, cpu="10", gpu="1")
        pods = await self._until(lambda: self._running("aligned", FITTING))
        waiting = await self._until(lambda: self._refused("aligned", REPLICAS - FITTING))
        rejected = len(self._rejected("aligned"))
        _say(f"   {len(pods)} run, {len(waiting)} wait, {rejected} were rejected by kubelets.")
        _say(f"   {waiting[0].metadata.name} Pending:")
        _say(f"     {_refusal(waiting[0])}")
        name = min(pod.spec.node_name for pod in pods)
        _say(f"\n   {name}")
        draw_node(self._lab.pool.kubelet(name))
        self._map = write_map(await self._reported(name), name)
        await self._remove("aligned")

    async def _impossible(self) -> None:
        _say("\n3. A pod that fits on a node, but on none of its NUMA nodes: 20 CPUs.")
        await self._apply("too-wide", NAME, replicas=1, cpu="20")
        (pod,) = await self._until(lambda: self._refused("too-wide", 1))
        _say(f"   {pod.metadata.name} Pending:")
        _say(f"     {_refusal(pod)}")
        _say(f"\n   $ kubectl numa explain pod {pod.metadata.name}")
        print_explanation(await look(self._lab.client), pod)
        _say(f"\nThe node of part 2 as a map: {self._map}")

    async def _reported(self, node: str) -> ClusterFacts:
        """Return what is known once the node's report has all its pods."""
        deadline = time.monotonic() + _SECONDS
        while not is_reported(facts := await look(self._lab.client), node):
            if time.monotonic() > deadline:
                raise DemoFailed(f"{node} was not reported in {_SECONDS:.0f} s")
            await asyncio.sleep(0.1)
        return facts

    async def _deploy_scheduler(self) -> None:
        manifest = SchedulerManifest(namespace=_NAMESPACE, image=f"{OWN}:latest", replicas=1)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
        await create_objects(self._lab.client, [namespace, *manifest.objects()])
        await self._until(
            lambda: [
                pod
                for pod in self._pods
                if pod.metadata.namespace == _NAMESPACE and _phase(pod) == "Running"
            ]
        )

    async def _apply(
        self, name: str, scheduler: str, *, replicas: int, cpu: str, gpu: str | None = None
    ) -> None:
        document = deployment(name, scheduler, replicas=replicas, cpu=cpu, gpu=gpu)
        await self._lab.client.create(DEPLOYMENTS, document, namespace="default")

    async def _remove(self, name: str) -> None:
        """Remove a deployment, and wait until nothing of it holds anything."""
        await self._lab.client.delete(
            DEPLOYMENTS, name, namespace="default", propagation="Foreground"
        )
        await self._until(lambda: [] if self._of(name) else [None])

    def _of(self, app: str) -> list[Pod]:
        pods = [pod for pod in self._pods if pod.metadata.labels.get("app") == app]
        return sorted(pods, key=lambda pod: pod.metadata.name)

    def _running(self, app: str, count: int) -> list[Pod]:
        running = [pod for pod in self._of(app) if _phase(pod) == "Running"]
        return running if len(running) == count else []

    def _refused(self, app: str, count: int) -> list[Pod]:
        refused = [pod for pod in self._of(app) if _phase(pod) == "Pending" and _refusal(pod)]
        return refused if len(refused) == count else []

    def _rejected(self, app: str) -> list[Pod]:
        return [pod for pod in self._of(app) if pod.status and pod.status.reason == _REASON]

    async def _until(self, look: Callable[[], list[T]]) -> list[T]:
        """Return what *look* finds as soon as it finds something."""
        deadline = time.monotonic() + _SECONDS
        while not (found := look()):
            if time.monotonic() > deadline:
                raise DemoFailed(f"the lab did not get there in {_SECONDS:.0f} s")
            await asyncio.sleep(0.05)
        return found


def _phase(pod: Pod) -> str:
    return pod.status.phase if pod.status else ""


def _refusal(pod: Pod) -> str:
    conditions = pod.status.conditions if pod.status else ()
    return next(
        (condition.message for condition in conditions if condition.type == "PodScheduled"), ""
    )


def _say(text: str) -> None:
    click.echo(text)


def deployment(
    name: str, scheduler: str, *, replicas: int, cpu: str, gpu: str | None = None
) -> dict[str, Any]:
    """Return a deployment of guaranteed pods."""
    limits = {"cpu": cpu, "memory": "4Gi"}
    if gpu is not None:
        limits["vendor.example/gpu"] = gpu
    container = {
        "name": "main",
        "image": "registry.example/main:1",
        "resources": {"limits": limits},
    }
    labels = {"app": name}
    return {
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "schedulerName": scheduler,
                    "terminationGracePeriodSeconds": 0,
                    "containers": [container],
                },
            },
        },
    }


async def create_objects(client: Client, documents: Iterable[dict[str, Any]]) -> None:
    """Create *documents* one after the other."""
    for document in documents:
        namespace = document["metadata"].get("namespace", "")
        await client.create(resource_of(document), document, namespace=namespace)


async def look(client: Client) -> ClusterFacts:
    """Return what is known of the cluster now."""
    return facts_of(await gather(client, what=SCHEDULING))


def print_explanation(facts: ClusterFacts, pod: Pod) -> None:
    """Print why *pod* waits, as ``kubectl numa explain pod`` does."""
    explanation = explain(facts, engine_of(facts), pod_subject(pod))
    for line in render(explanation).splitlines():
        click.echo(f"   {line}".rstrip())


def is_reported(facts: ClusterFacts, node: str) -> bool:
    """Tell whether the report of *node* has every pod that runs there."""
    view = facts.view(node)
    if not isinstance(view, NodeTopology) or view.report is None:
        return False
    return all(view.report.accounts_for(pod.metadata.uid) for pod in facts.pods_on(node))


def write_map(facts: ClusterFacts, node: str) -> str:
    """Draw *node* into a file that stays, and return its path."""
    handle, path = tempfile.mkstemp(prefix=f"numakube-{node}-", suffix=".svg")
    draw = load(Group.DRAWINGS, "svg")
    with os.fdopen(handle, "wb") as file:
        file.write(draw(node_picture(facts, node), dark=False))
    return path


def draw_node(kubelet: LabKubelet) -> None:
    """Print the zones of a node and who holds what of them."""
    if kubelet.admission is None:
        return
    names = {pod.metadata.uid: pod.metadata.key for pod in kubelet.admission.pods}
    picture = picture_of_model("", kubelet.admission.model, pods=names)
    console = make_console()
    width = console.width if console.is_terminal else DEFAULT_WIDTH
    plain = not can_draw(sys.stdout.encoding)
    print_drawing(console, zone_lines(picture, width=width, ascii_only=plain))
