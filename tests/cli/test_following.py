"""``-w``: what is shown follows the cluster."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from numakube.api.containers import Container, ResourceRequirements
from numakube.api.meta import ObjectMeta
from numakube.api.pod import Pod, PodSpec
from numakube.cli.shared.watch_option import states
from numakube.errors import ClusterUnreachable
from numakube.kube.catalog import PODS
from numakube.kube.connect import connect
from numakube.kube.connection.cluster_config import ClusterConfig
from numakube.kubelet.machines.synthetic import from_shape
from numakube_lab.cluster import Lab, LabOptions, uniform_plans
from numakube_lab.rundir import RunDir


def guaranteed(name: str, node: str) -> Pod:
    """Return a pod that gets CPUs of its own, bound to *node*."""
    asked = ResourceRequirements(limits={"cpu": "2", "memory": "1Gi"})
    return Pod(
        metadata=ObjectMeta(name=name, namespace="default"),
        spec=PodSpec(
            containers=(Container(name="app", image="any", resources=asked),), node_name=node
        ),
    )


@contextlib.asynccontextmanager
async def lab() -> AsyncIterator[tuple[Lab, RunDir]]:
    """Run a lab of one node."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "test")
        folder.create()
        plans = uniform_plans(1, from_shape("2 sockets, 4 cores, 16Gi"), "", "1.35")
        async with Lab(LabOptions(name="test", plans=plans, exporters=True), folder) as running:
            yield running, folder


@pytest.mark.timeout(300)
async def test_every_change_is_shown() -> None:
    """Now, and when a pod has come."""
    async with lab() as (running, _), contextlib.aclosing(states(running.client, pause=0)) as shown:
        first = await anext(shown)
        assert set(first.nodes) == {"node-0"}
        assert first.pods == ()
        await running.client.create(PODS, guaranteed("new", "node-0"))
        async for facts in shown:
            view = facts.view("node-0")
            report = getattr(view, "report", None)
            if facts.pods and report and report.accounts_for(facts.pods[0].metadata.uid):
                break


async def test_a_cluster_that_is_not_there_is_told_at_once() -> None:
    """Rather than waited for in silence."""
    async with connect(ClusterConfig(server="http://127.0.0.1:9")) as client:
        with pytest.raises(ClusterUnreachable):
            await anext(states(client))
