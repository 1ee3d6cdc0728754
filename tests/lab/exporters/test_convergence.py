"""Whatever comes and goes on whatever machine: reports end up as the model's own books."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest
from tests.lab.exporters.truth import told_zones, true_zones
from tests.lab.nodes.build import Lab, pod_document
from tests.lab.nodes.conftest import lab

from numakube.errors import ConfigError, NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODES, PODS
from numakube.kubelet.config_from_words import lab_configuration
from numakube.kubelet.machines.shape import PRESETS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.topology.exact_report import ExactReport, uid_hash
from numakube.topology.model_report import report_of
from numakube.topology.topology_view import Unusable, view_of
from numakube.values.resources import hugepage_name
from numakube_lab.exporters import ExporterPool
from numakube_lab.nodes.node_documents import NodePlan

__all__ = ["lab"]  # a fixture

SHAPES = {
    **PRESETS,
    "one-node": "1 socket, 4 cores, smt 2, 16Gi",
    "no-smt": "2 sockets, 6 cores, 16Gi",
    "devices": "2 sockets, 8 cores, smt 2, 32Gi, gpu 2, vendor.example/nic 3",
    "hugepages": "2 sockets, 4 cores, smt 2, 32Gi, hugepages-2Mi 512, hugepages-1Gi 4",
    "four-nodes": "4 sockets, 4 cores, smt 2, 8Gi, gpu 1",
    "eight-nodes": "2 sockets, 4 numa each, 4 cores, smt 2, 8Gi",
    "holes": "2 sockets, 4 cores, smt 2, 16Gi, ids 0 4",
    "holes-three": "3 sockets, 4 cores, 16Gi, ids 1 3 9",
    "cxl": "2 sockets, 4 cores, smt 2, 16Gi, 1 cxl 32Gi",
    "small": "2 sockets, 2 cores, smt 2, 4Gi",
    "uncore": "1 socket, 16 cores, smt 2, uncore 4, 32Gi",
    "adjacent": "2 sockets, 8 cores, smt 2, numbering adjacent, 32Gi, gpu 2",
}
POLICIES = ("single-numa-node", "restricted", "best-effort", "none")


def plan(name: str, shape: str, rng: Random) -> NodePlan:
    """Return a node of *shape* with static managers and some policy."""
    machine = from_shape(shape)
    words = {"policy": rng.choice(POLICIES), "scope": rng.choice(["container", "pod"])}
    return NodePlan(name=name, machine=machine, config=lab_configuration(machine, words))


def holdings(report: ExactReport) -> dict[str, Any]:
    """Return what pods hold, whichever of their containers comes first."""
    return {
        uid: (held.cpus, Counter(held.memory), dict(held.devices))
        for uid, held in report.pods.items()
        if not held.empty
    }


async def wrong_exact_data(lab: Lab, name: str) -> str:
    """Say what is wrong with the exact data of a node, or nothing.

    The model of a fresh report of the node itself is the truth.
    """
    view = view_of(await lab.client.get(NODE_RESOURCE_TOPOLOGIES, name))
    assert not isinstance(view, Unusable)
    if view.report is None:
        return "there is none"
    truth = report_of(lab.model(name))
    admission = lab.pool.kubelet(name).admission
    assert admission is not None
    active = {uid_hash(pod.metadata.uid) for pod in admission.pods}
    if set(view.report.pods) != active:
        return f"accounts for {set(view.report.pods)} instead of {active}"
    told_pods, true_pods = holdings(view.report), holdings(truth)
    if told_pods != true_pods:
        return f"pods hold {told_pods} instead of {true_pods}"
    told_rest = view.report.shared_cpus, dict(view.report.memory), dict(view.report.devices)
    true_rest = truth.shared_cpus, dict(truth.memory), dict(truth.devices)
    return "" if told_rest == true_rest else f"{told_rest} instead of {true_rest}"


async def told(lab: Lab, name: str) -> dict[str, dict[str, tuple[int, int]]]:
    """Return what is published about a node."""
    try:
        return told_zones(await lab.client.get(NODE_RESOURCE_TOPOLOGIES, name))
    except NotFound:
        return {}


async def converge(lab: Lab) -> None:
    """Let time pass until every report says what is true, or fail."""
    wrong: dict[str, object] = {}
    for _ in range(40):
        await lab.clock.advance(0.05)
        wrong = {}
        for name in lab.pool.kubelets:
            truth, found = true_zones(lab.model(name)), await told(lab, name)
            if truth != found:
                wrong[name] = truth, found
        if not wrong:
            break
    else:
        raise AssertionError(f"never converged: {wrong}")
    for name in lab.pool.kubelets:
        assert await wrong_exact_data(lab, name) == ""


async def come_and_go(lab: Lab, rng: Random, number: int) -> None:
    """Create a pod on some node, or delete one."""
    pods = (await lab.client.list(PODS)).items
    if pods and rng.random() < 0.4:
        pod = rng.choice(pods)
        await lab.client.delete(PODS, pod.metadata.name, namespace="default", grace_seconds=0)
        return
    node = rng.choice(sorted(lab.pool.kubelets))
    await lab.client.create(PODS, some_pod(lab, rng, f"p{number}", node))


def some_pod(lab: Lab, rng: Random, name: str, node: str) -> dict[str, Any]:
    """Return a pod of some shape: with or without more containers, sidecars and devices."""
    document = pod_document(name, node=node)
    spec = document["spec"]
    spec["containers"] = [
        container(lab, rng, f"c{number}", node) for number in range(rng.choice([1, 1, 1, 2]))
    ]
    if rng.random() < 0.4:
        first = container(lab, rng, "init", node)
        if rng.random() < 0.5:
            first["restartPolicy"] = "Always"
        spec["initContainers"] = [first]
    return document


def container(lab: Lab, rng: Random, name: str, node: str) -> dict[str, Any]:
    """Return a container that asks for this and that."""
    limits = {
        "cpu": rng.choice(["1", "2", "3", "500m", "4"]),
        "memory": rng.choice(["512Mi", "1Gi", "3Gi"]),
    }
    model = lab.model(node)
    devices = list(model.devices.resources())
    if devices and rng.random() < 0.5:
        limits[rng.choice(devices)] = "1"
    pages = {
        hugepage_name(hugepage.page_bytes)
        for part in model.machine.nodes
        for hugepage in part.hugepages
    }
    if pages and rng.random() < 0.3:
        limits[rng.choice(sorted(pages))] = "1Gi"
    return {"name": name, "image": "registry/app:1", "resources": {"limits": limits}}


@pytest.mark.parametrize("seed", range(3))
async def test_reports_end_up_as_the_models_own_books(lab: Lab, seed: int) -> None:
    """On more than twenty machines at once."""
    rng = Random(seed)
    plans = [plan(name, shape, rng) for name, shape in SHAPES.items()]
    assert len(plans) > 20
    await lab.pool.add(*plans)
    async with ExporterPool(lab.client, lab.pool):
        await converge(lab)
        for number in range(60):
            await come_and_go(lab, rng, number)
            if rng.random() < 0.3:
                await lab.clock.advance(rng.random())
            if number % 20 == 19:
                await converge(lab)
        await converge(lab)


@pytest.mark.parametrize("seed", range(4))
async def test_exporters_killed_at_any_moment_leave_nothing_wrong(lab: Lab, seed: int) -> None:
    """Not even if it happens between reading, computing and writing."""
    rng = Random(seed)
    await lab.pool.add(*(plan(f"n{n}", SHAPES["devices"], rng) for n in range(3)))
    number = 0
    for _ in range(8):
        async with ExporterPool(lab.client, lab.pool):
            for _ in range(rng.randrange(1, 6)):
                number += 1
                await come_and_go(lab, rng, number)
                for _ in range(rng.randrange(40)):
                    await lab.clock.advance(rng.choice([0, 0, 0.01]))
        for _ in range(rng.randrange(3)):
            number += 1
            await come_and_go(lab, rng, number)
    async with ExporterPool(lab.client, lab.pool):
        await converge(lab)


async def test_a_restarted_kubelet_is_picked_up(lab: Lab) -> None:
    """And marked stale while it is away for long."""
    rng = Random(1)
    await lab.pool.add(plan("n1", SHAPES["devices"], rng))
    async with ExporterPool(lab.client, lab.pool):
        await lab.client.create(PODS, pod_document("p", cpu="2"))
        await converge(lab)
        await lab.pool.kill("n1")
        for _ in range(60):
            await lab.clock.advance(0.25)
        nrt = await lab.client.get(NODE_RESOURCE_TOPOLOGIES, "n1")
        assert "topology.numakube.dev/stale" in {attribute.name for attribute in nrt.attributes}
        await lab.pool.start("n1")
        await converge(lab)
        nrt = await lab.client.get(NODE_RESOURCE_TOPOLOGIES, "n1")
        assert "topology.numakube.dev/stale" not in {attribute.name for attribute in nrt.attributes}


async def test_a_deleted_report_is_written_again(lab: Lab) -> None:
    """Also if its Node was deleted and has registered again with another uid."""
    await lab.pool.add(plan("n1", SHAPES["small"], Random(1)))
    async with ExporterPool(lab.client, lab.pool):
        await converge(lab)
        await lab.client.delete(NODE_RESOURCE_TOPOLOGIES, "n1")
        await converge(lab)
        document = await lab.client.get(NODES.raw, "n1")
        await lab.client.delete(NODES, "n1")
        fresh = {"metadata": {"name": "n1"}, "status": document["status"]}
        node = await lab.client.create(NODES, fresh)
        await lab.client.delete(NODE_RESOURCE_TOPOLOGIES, "n1")
        await converge(lab)
        (owner,) = (await lab.client.get(NODE_RESOURCE_TOPOLOGIES, "n1")).metadata.owner_references
        assert owner.uid == node.metadata.uid


async def test_nodes_that_come_are_reported_and_those_that_go_vanish(lab: Lab) -> None:
    """The exporter goes with its node; the object belongs to the Node."""
    rng = Random(1)
    async with ExporterPool(lab.client, lab.pool) as exporters:
        await lab.pool.add(plan("n1", SHAPES["small"], rng), plan("n2", SHAPES["small"], rng))
        await converge(lab)
        await lab.pool.remove("n1")
        with pytest.raises(ConfigError, match="no exporter runs for: n1"):
            exporters.freeze(["n1"])
        (owner,) = (await lab.client.get(NODE_RESOURCE_TOPOLOGIES, "n2")).metadata.owner_references
        assert (owner.kind, owner.name) == ("Node", "n2")


async def test_an_update_reaches_the_api_within_300_milliseconds(lab: Lab) -> None:
    """Of the kubelet's change."""
    await lab.pool.add(plan("n1", SHAPES["small"], Random(1)))
    async with ExporterPool(lab.client, lab.pool):
        await converge(lab)
        await lab.clock.advance(5)
        await lab.client.create(PODS, pod_document("p", cpu="1"))
        await lab.runs("p")
        await lab.clock.advance(0.3)
        assert await told(lab, "n1") == true_zones(lab.model("n1"))
