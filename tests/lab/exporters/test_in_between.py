"""What a kubelet shows while it admits a pod or starts is in no report."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.lab.exporters.truth import told_zones, true_zones
from tests.lab.nodes.build import Lab, pod_document
from tests.lab.nodes.conftest import lab

from numakube.api.nrt import NodeResourceTopology
from numakube.api.pod import Pod
from numakube.errors import NotFound
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, PODS
from numakube.kubelet.config_from_words import lab_configuration
from numakube.kubelet.machines.shape_text import from_shape
from numakube.topology.exact_report import uid_hash
from numakube.topology.nrt_names import STALE
from numakube.topology.topology_view import NodeTopology, view_of
from numakube.values.cpuset import CpuSet
from numakube_lab.exporters import ExporterPool
from numakube_lab.nodes.node_documents import NodePlan

__all__ = ["lab"]  # a fixture

STEP_SECONDS = 1.0
SHAPE = "2 sockets, 4 cores, smt 2, 16Gi, gpu 2"


def slow_node(kubernetes: str) -> NodePlan:
    """Return a node with static managers."""
    machine = from_shape(SHAPE)
    config = lab_configuration(machine, {"policy": "single-numa-node"})
    return NodePlan(name="n1", machine=machine, config=config, kubernetes=kubernetes)


async def published(lab: Lab, seconds: float) -> AsyncIterator[NodeResourceTopology]:
    """Yield each version of the node's report within the next *seconds*."""
    seen = ""
    for _ in range(round(seconds / 0.05)):
        await lab.clock.advance(0.05)
        try:
            nrt = await lab.client.get(NODE_RESOURCE_TOPOLOGIES, "n1")
        except NotFound:
            continue
        if nrt.metadata.resource_version != seen:
            seen = nrt.metadata.resource_version
            yield nrt


async def last_published(lab: Lab, seconds: float) -> NodeResourceTopology:
    """Return the node's report after *seconds*."""
    return [nrt async for nrt in published(lab, seconds)][-1]


def fingerprint(nrt: NodeResourceTopology) -> str | None:
    """Return the fingerprint of the pods that a report is of."""
    view = view_of(nrt)
    assert isinstance(view, NodeTopology)
    return view.fingerprint


def held_by(nrt: NodeResourceTopology, pod: Pod) -> CpuSet | None:
    """Return the CPUs that a report gives to *pod*; nothing if it does not name the pod."""
    view = view_of(nrt)
    assert isinstance(view, NodeTopology)
    assert view.report is not None, "there is no exact data"
    holding = view.report.pods.get(uid_hash(pod.metadata.uid))
    return None if holding is None else holding.cpus


def free_cpus(nrt: NodeResourceTopology) -> int:
    """Return how many CPUs all zones have left."""
    return sum(zone["cpu"][1] for zone in told_zones(nrt).values())


@pytest.mark.parametrize("kubernetes", ["1.32", "1.35"])
async def test_a_pod_that_is_being_admitted_is_in_no_report(lab: Lab, kubernetes: str) -> None:
    """It counts once it holds everything, for exact data, amounts and fingerprint alike."""
    await lab.pool.add(slow_node(kubernetes))
    async with ExporterPool(lab.client, lab.pool, period=0.2):
        before = await last_published(lab, STEP_SECONDS)
        lab.pool.slow_down("n1", STEP_SECONDS)
        pod = await lab.client.create(PODS, pod_document("p", cpu="2"))
        async for nrt in published(lab, 5 * STEP_SECONDS):
            cpus, taken = held_by(nrt, pod), free_cpus(before) - free_cpus(nrt)
            if cpus is None:
                assert (taken, fingerprint(nrt)) == (0, fingerprint(before))
            else:
                assert (len(cpus), taken) == (2, 2)
        assert held_by(nrt, pod) is not None
        assert told_zones(nrt) == true_zones(lab.model("n1"))


async def test_a_pod_is_listed_before_it_holds_anything(lab: Lab) -> None:
    """As by a real kubelet, and noted as admitted last of all."""
    await lab.pool.add(slow_node("1.35"))
    lab.pool.slow_down("n1", STEP_SECONDS)
    pod = await lab.client.create(PODS, pod_document("p", cpu="2"))
    kubelet, seen = lab.pool.kubelet("n1"), []
    for _ in range(60):
        await lab.clock.advance(0.05)
        assert kubelet.admission is not None
        cpus = [
            len(container.cpu_ids)
            for each in kubelet.pod_resources()
            for container in each.containers
        ]
        state = cpus, pod.metadata.uid in kubelet.admission.allocated
        if state not in seen:
            seen.append(state)
    assert seen == [([0], False), ([2], False), ([2], True)]


async def test_no_report_is_made_of_a_kubelet_that_has_just_started(lab: Lab) -> None:
    """It answers with nothing at first, then without its pods; the last report stands, marked."""
    await lab.pool.add(slow_node("1.35"))
    async with ExporterPool(lab.client, lab.pool, period=0.2) as exporters:
        pods = [await lab.client.create(PODS, pod_document(name, cpu="3")) for name in "ab"]
        right = await last_published(lab, 2 * STEP_SECONDS)
        assert all(held_by(right, pod) for pod in pods)
        lab.pool.slow_down("n1", STEP_SECONDS)
        await lab.pool.kill("n1")
        lab.pool.kubelet("n1").start()
        exporters.thaw(["n1"])
        marked = False
        async for nrt in published(lab, 12 * STEP_SECONDS):
            assert told_zones(nrt) == told_zones(right)
            assert [held_by(nrt, pod) for pod in pods] == [held_by(right, pod) for pod in pods]
            marked |= STALE in {attribute.name for attribute in nrt.attributes}
        assert marked
        assert STALE not in {attribute.name for attribute in nrt.attributes}
