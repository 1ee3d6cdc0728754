"""``numakube demo``: the point of it all in under a minute, on a lab in this process."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from numakube.cli.logs import configure_logs
from numakube.errors import NumakubeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numakube.api.core import Pod
    from numakube.kubelet.node import KubeletNode
    from numakube.kubelet.outcome import Admitted
    from numakube.lab.cluster import Lab
    from numakube.lab.nodes.kubelet import LabKubelet

SHAPE: Final = "2 sockets, 8 cores, smt 2, 32Gi, gpu 2"
NODES: Final = 3
_SECONDS: Final = 45.0
# How long the deployment that cannot run is watched.
_WATCHED: Final = 6.0
_REASON: Final = "TopologyAffinityError"


class DemoFailed(NumakubeError):
    """The lab did not do in time what the demo shows."""


@click.command("demo")
def command() -> None:
    """Show a lab, a workload that fits and one that does not."""
    configure_logs("error", "text")
    asyncio.run(_demo())


async def _demo() -> None:
    from numakube.kubelet.machines.synthetic import from_shape
    from numakube.lab.cluster import Lab, LabOptions, uniform_plans
    from numakube.lab.rundir import RunDir

    plans = uniform_plans(NODES, from_shape(SHAPE), "", "1.35")
    with tempfile.TemporaryDirectory(prefix="nk-") as path:
        folder = RunDir(Path(path) / "demo")
        folder.create()
        async with Lab(LabOptions(name="demo", plans=plans), folder) as lab:
            _say(f"A cluster of {NODES} nodes in this process: {SHAPE}")
            _say("Every kubelet aligns containers on single NUMA nodes (single-numa-node).\n")
            await _fitting(lab)
            await _impossible(lab)


async def _fitting(lab: Lab) -> None:
    _say("1. A deployment whose pods fit into a NUMA node: 6 CPUs, 8Gi and a GPU each.")
    await _apply(lab, _deployment("aligned", replicas=4, cpu="6", memory="8Gi", gpu="1"))
    pods = await _until(lambda: _running(lab, "aligned", 4))
    for pod in pods:
        _say(f"   {pod.metadata.name} Running on {pod.spec.node_name}")
    for name in sorted({pod.spec.node_name for pod in pods}):
        _say(f"\n   {name}")
        _draw(lab.pool.kubelet(name))


async def _impossible(lab: Lab) -> None:
    _say("\n2. One pod that fits on a node, but on none of its NUMA nodes: 20 CPUs, 20Gi.")
    await _apply(lab, _deployment("too-wide", replicas=1, cpu="20", memory="20Gi"))
    await _until(lambda: _rejected(lab, "too-wide"))
    await asyncio.sleep(_WATCHED)
    rejected = _rejected(lab, "too-wide")
    message = rejected[0].status.message if rejected[0].status else ""
    _say(f"   {rejected[0].metadata.name} Failed: {_REASON}: {message}")
    _say(
        "\n   The scheduler of this lab counts per node, as Kubernetes does, and keeps sending it:"
    )
    count = len(rejected)
    _say(f"   {count} pods were rejected by kubelets in {_WATCHED:.0f} seconds, none can run.")


def _deployment(
    name: str, *, replicas: int, cpu: str, memory: str, gpu: str | None = None
) -> dict[str, Any]:
    limits = {"cpu": cpu, "memory": memory}
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
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


async def _apply(lab: Lab, deployment: dict[str, Any]) -> None:
    from numakube.lab.controllers.types.apps import DEPLOYMENTS

    await lab.client.create(DEPLOYMENTS.raw, deployment, namespace="default")


def _of(lab: Lab, app: str) -> list[Pod]:
    return [pod for pod in lab.pool.pods if pod.metadata.labels.get("app") == app]


def _running(lab: Lab, app: str, count: int) -> list[Pod]:
    running = [pod for pod in _of(lab, app) if pod.status and pod.status.phase == "Running"]
    return sorted(running, key=lambda pod: pod.metadata.name) if len(running) == count else []


def _rejected(lab: Lab, app: str) -> list[Pod]:
    return [pod for pod in _of(lab, app) if pod.status and pod.status.reason == _REASON]


async def _until(look: Callable[[], list[Pod]]) -> list[Pod]:
    """Return what *look* finds as soon as it finds something."""
    deadline = time.monotonic() + _SECONDS
    while not (found := look()):
        if time.monotonic() > deadline:
            raise DemoFailed(f"the lab did not get there in {_SECONDS:.0f} s")
        await asyncio.sleep(0.05)
    return found


def _draw(kubelet: LabKubelet) -> None:
    from numakube.cli.admit import drawing
    from numakube.cli.admit.verdicts import Verdict
    from numakube.cli.admit.zones import zones_of
    from numakube.cli.output import can_draw, make_console

    if kubelet.admission is None:
        return
    model = kubelet.admission.model
    verdicts = [Verdict(pod, _placed(model, pod)) for pod in kubelet.admission.pods]
    console = make_console()
    glyphs = drawing.UNICODE if can_draw(sys.stdout.encoding) else drawing.ASCII
    marks = drawing.marks_of(verdicts)
    for part in drawing.draw_zones(zones_of(model, verdicts), marks, glyphs):
        console.print(part)


def _placed(model: KubeletNode, pod: Pod) -> Admitted:
    from numakube.kubelet.outcome import Admitted

    uid = pod.metadata.uid
    containers = (*(pod.spec.init_containers or ()), *pod.spec.containers)
    placements = {one.name: model.placement(uid, one.name) for one in containers}
    return Admitted(placements, model.shared_cpus)


def _say(text: str) -> None:
    click.echo(text)
