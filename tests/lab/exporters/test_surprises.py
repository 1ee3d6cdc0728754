"""A scheduler and exporters that report only surprises, together."""

from __future__ import annotations

from functools import partial

from numakube.apps.scheduler.process import SchedulerProcess
from numakube.kube.catalog import NODE_RESOURCE_TOPOLOGIES, NODE_RESOURCE_TOPOLOGY_UPDATES, PODS
from numakube.kube.resource_types import KubeObject
from numakube.scheduling.numa.caches.model_belief import ExactBelief
from numakube.testing import pod_document
from numakube.topology.nrt_names import FORESEEN
from numakube_lab.exporters import ExporterPool
from numakube_lab.testing import LabCluster, lab_cluster

UPDATE = "NodeResourceTopologyUpdate node-0"


async def written(cluster: LabCluster) -> dict[str, str]:
    """Return the version of every report and of every update."""
    reports = (await cluster.client.list(NODE_RESOURCE_TOPOLOGIES)).items
    updates = (await cluster.client.list(NODE_RESOURCE_TOPOLOGY_UPDATES)).items
    found: tuple[KubeObject, ...] = (*reports, *updates)
    return {
        f"{type(one).__name__} {one.metadata.name}": one.metadata.resource_version for one in found
    }


def written_again(before: dict[str, str], after: dict[str, str]) -> set[str]:
    """Return what was written meanwhile."""
    return {name for name, version in after.items() if before.get(name) != version}


def believes_what_is_true(cluster: LabCluster, process: SchedulerProcess) -> bool:
    """Tell whether a scheduler knows the shared pool of every kubelet."""
    for name, kubelet in cluster.pool.kubelets.items():
        belief = process.mirror.cache.belief(name)
        model = belief.model() if isinstance(belief, ExactBelief) else None
        if kubelet.admission is None or model is None:
            return False
        if model.shared_cpus != kubelet.admission.model.shared_cpus:
            return False
    return True


def has_pods(cluster: LabCluster, count: int) -> bool:
    """Tell whether there are *count* pods."""
    return len(cluster.pods.store) == count


async def test_pods_that_come_and_go_as_foreseen_cost_no_report() -> None:
    """And the scheduler, or one that starts later, believes what is true."""
    async with (
        lab_cluster(2, exporters=False) as cluster,
        ExporterPool(cluster.client, cluster.pool, max_silence=300.0) as exporters,
    ):
        await exporters.reported(*cluster.pool.kubelets)
        first = await cluster.start()
        before = await written(cluster)
        for turn in range(3):
            names = [f"p{turn}-{number}" for number in range(4)]
            await cluster.create(*(pod_document(name, cpu="2") for name in names))
            await cluster.runs(*names)
            assert all(FORESEEN in cluster.pod(name).metadata.annotations for name in names)
            for name in names[:2]:
                await cluster.client.delete(PODS, name, namespace="default")
            await cluster.until(partial(has_pods, cluster, 2 * (turn + 1)))
        second = await cluster.start()
        for process in (first.process, second.process):
            await cluster.until(partial(believes_what_is_true, cluster, process))
        assert await written(cluster) == before


async def test_a_pod_for_which_nothing_was_foreseen_is_reported() -> None:
    """Such as one of another scheduler, or one that was deleted by force."""
    async with (
        lab_cluster(1, exporters=False) as cluster,
        ExporterPool(cluster.client, cluster.pool, max_silence=300.0) as exporters,
    ):
        await exporters.reported("node-0")
        scheduler = await cluster.start()
        before = await written(cluster)
        await cluster.create(pod_document("foreign", cpu="2", nodeName="node-0"))
        await cluster.runs("foreign")

        async def is_written() -> bool:
            return await written(cluster) != before

        await cluster.until(is_written)
        await cluster.until(lambda: believes_what_is_true(cluster, scheduler.process))
        assert written_again(before, await written(cluster)) == {UPDATE}
        before = await written(cluster)
        await cluster.delete("foreign")
        await cluster.until(is_written)
        await cluster.until(lambda: believes_what_is_true(cluster, scheduler.process))
        assert written_again(before, await written(cluster)) == {UPDATE}


async def test_a_report_that_is_deleted_is_written_again_in_whole() -> None:
    """And a new update with it: readers are not left with half of it."""
    async with (
        lab_cluster(1, exporters=False) as cluster,
        ExporterPool(cluster.client, cluster.pool, max_silence=300.0) as exporters,
    ):
        await exporters.reported("node-0")
        scheduler = await cluster.start()
        await cluster.create(pod_document("foreign", cpu="2", nodeName="node-0"))
        await cluster.runs("foreign")

        await cluster.until(lambda: believes_what_is_true(cluster, scheduler.process))
        before = await written(cluster)
        await cluster.client.delete(NODE_RESOURCE_TOPOLOGIES, "node-0")

        async def is_written_again() -> bool:
            after = await written(cluster)
            return after.keys() == before.keys() and written_again(before, after) == set(before)

        await cluster.until(is_written_again)
        await cluster.until(lambda: believes_what_is_true(cluster, scheduler.process))
