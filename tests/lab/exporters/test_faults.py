"""Exporters that hang, lag or lie to order."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.exporters.truth import told_zones, true_zones

from numakube.errors import ConfigError, NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, PODS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.testing import until
from numakube.topology import nrt_names
from numakube_lab.control_socket import ControlClient
from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
from numakube_lab.run_folder import RunDir


@pytest.fixture
def folder() -> Any:
    """A folder with a short path, for sockets."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "t")
        folder.create()
        yield folder


@pytest.fixture
async def lab(folder: RunDir) -> AsyncIterator[Lab]:
    """A lab of two nodes with exporters, whose first reports are out."""
    plans = uniform_plans(2, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    async with Lab(LabOptions(name="t", plans=plans, exporters=True), folder) as lab:
        assert await is_true(lab, "node-0")
        assert await is_true(lab, "node-1")
        yield lab


def truth(lab: Lab, name: str) -> dict[str, dict[str, tuple[int, int]]]:
    """Return what the model's books say."""
    admission = lab.pool.kubelet(name).admission
    assert admission is not None
    return true_zones(admission.model)


async def told(lab: Lab, name: str) -> dict[str, dict[str, tuple[int, int]]]:
    """Return what is published."""
    try:
        return told_zones(await lab.client.get(NODE_RESOURCE_TOPOLOGIES, name))
    except NotFound:
        return {}


async def is_true(lab: Lab, name: str) -> bool:
    """Tell whether what is published is true."""
    return await told(lab, name) == truth(lab, name)


async def occupy(lab: Lab, node: str) -> None:
    """Put a pod on a node and wait until it holds its CPUs."""
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}}
    container = {"name": "main", "image": "registry.example/web:1", "resources": resources}
    document = {
        "metadata": {"name": f"on-{node}"},
        "spec": {"nodeName": node, "containers": [container]},
    }
    before = truth(lab, node)
    await lab.client.create(PODS.raw, document, namespace="default")
    await until(lambda: truth(lab, node), lambda found: found != before)


async def steer(folder: RunDir, **request: Any) -> None:
    """Ask the lab from another process, so to say."""
    await ControlClient(folder.control_socket).call("POST", "/exporters", request)


async def test_a_frozen_exporter_reports_nothing_until_it_is_thawed(
    lab: Lab, folder: RunDir
) -> None:
    """Others go on; after the thaw the report is true at once."""
    await steer(folder, action="freeze", nodes=["node-0"])
    before = await told(lab, "node-0")
    for name in ("node-0", "node-1"):
        await occupy(lab, name)
    await until(lambda: is_true(lab, "node-1"))
    assert await told(lab, "node-0") == before
    assert (await lab.list_faults())["exporters"] == {"node-0": {"frozen": True}}
    await steer(folder, action="thaw", nodes=["node-0"])
    await until(lambda: is_true(lab, "node-0"))
    assert await lab.list_faults() == {}


async def test_a_skewed_exporter_tells_so_much_more_or_less(lab: Lab, folder: RunDir) -> None:
    """Within what is possible, in one zone or in all; exact data would betray it."""
    amounts = {"cpu": "-3", "memory": "1Gi"}
    await steer(folder, action="skew", nodes=["node-1"], amounts=amounts, zone="node-0")
    real = truth(lab, "node-1")
    cpus, free = real["node-0"]["cpu"]
    lie = {**real, "node-0": {**real["node-0"], "cpu": (cpus, free - 3)}}
    await until(lambda: told(lab, "node-1"), lambda found: found == lie)
    nrt = await lab.client.get(NODE_RESOURCE_TOPOLOGIES, "node-1")
    assert nrt_names.EXACT_ANNOTATION not in nrt.metadata.annotations
    await lab.clear_faults()
    await until(lambda: is_true(lab, "node-1"))


async def test_a_late_exporter_tells_the_truth_of_some_time_ago(lab: Lab, folder: RunDir) -> None:
    """It is true again after the delay."""
    await steer(folder, action="skew", nodes=["node-0"], delay=0.3)
    begun = asyncio.get_running_loop().time()
    await occupy(lab, "node-0")
    await until(lambda: is_true(lab, "node-0"))
    assert asyncio.get_running_loop().time() - begun >= 0.3


@pytest.mark.parametrize(
    ("request_", "complaint"),
    [
        ({"action": "freeze", "nodes": ["node-9"]}, "no exporter runs for: node-9"),
        ({"action": "melt", "nodes": []}, "unknown action 'melt'"),
        ({"action": "freeze", "nodes": "node-0"}, "must be a list of node names"),
        ({"action": "skew", "nodes": ["node-0"], "amounts": {"cpu": "x"}}, "amount of cpu"),
        ({"action": "skew", "nodes": ["node-0"], "delay": "late"}, "cannot skew reports"),
    ],
)
async def test_mistakes_are_told(
    lab: Lab, folder: RunDir, request_: dict[str, Any], complaint: str
) -> None:
    """With the word that was wrong."""
    with pytest.raises(ConfigError, match=complaint):
        await steer(folder, **request_)


async def test_a_lab_without_exporters_says_so(folder: RunDir) -> None:
    """It has no definition of the objects either."""
    async with Lab(LabOptions(name="t"), folder):
        with pytest.raises(ConfigError, match="this lab runs no exporters"):
            await steer(folder, action="freeze", nodes=[])


async def test_a_paused_node_has_a_silent_exporter(lab: Lab) -> None:
    """A node that is cut off tells nothing, and does not count as stale either."""
    lab.pool.pause("node-0")
    await occupy(lab, "node-1")
    await until(lambda: is_true(lab, "node-1"))
    nrt = await lab.client.get(NODE_RESOURCE_TOPOLOGIES, "node-0")
    assert nrt_names.STALE not in {attribute.name for attribute in nrt.attributes}
    lab.pool.resume("node-0")
    await occupy(lab, "node-0")
    await until(lambda: is_true(lab, "node-0"))
