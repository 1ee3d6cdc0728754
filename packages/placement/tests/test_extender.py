"""E12: pods that ask for alignment by annotations get it behind a stock kube-scheduler too."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from packages.placement.tests.plugins.test_scheduling import SHAPE, SINGLE, aligned, given
from tests.apps.extender.place import binding
from tests.apps.extender.test_end_to_end import NAME, extended

from numakube.api.koordinator import keys
from numakube.apps.extender.process import ExtenderOptions, ExtenderProcess
from numakube.kube.catalog import NAMESPACES, NODES, PODS, PRIORITY_CLASSES
from numakube.kube.client import merge_patch
from numakube.kubelet.config_from_words import UNALIGNED
from numakube.testing import pod_document
from numakube_lab.testing import LabCluster, Opener, lab_cluster

pytestmark = pytest.mark.timeout(180)


@contextlib.asynccontextmanager
async def unaligned(sites: Opener, nodes: int) -> AsyncIterator[LabCluster]:
    """Nodes of two NUMA nodes with eight CPUs each, whose kubelets align nothing."""
    async with lab_cluster(nodes, SHAPE, UNALIGNED, on=sites) as world:
        await world.client.create(NAMESPACES, {"metadata": {"name": "numakube"}})
        yield world


def wish(name: str, cpu: str, spec: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """Return a pod for kube-scheduler that wants one NUMA node, and CPUs of its own."""
    return aligned(name, cpu, spec or SINGLE, schedulerName=NAME, **more)


def apart(world: LabCluster, *names: str) -> int:
    """Check that pods share no CPU; return how many they have together."""
    taken: dict[str, int] = {}
    for name in names:
        share, node = given(world, name).total, world.pod(name).spec.node_name
        assert share.mask.bit_count() == 1
        assert not taken.get(node, 0) & share.cpus
        taken[node] = taken.get(node, 0) | share.cpus
    return sum(cpus.bit_count() for cpus in taken.values())


async def test_the_binding_writes_what_the_pod_is_given(sites: Opener) -> None:
    """Two replicas give nothing twice, and a pod that waits runs as soon as another goes."""
    async with unaligned(sites, 2) as world, extended(world, replicas=2):
        versions: list[tuple[str, bool]] = []

        def note(change: Any) -> None:
            has = keys.RESOURCE_STATUS in change.object.metadata.annotations
            versions.append((change.object.spec.node_name, has))

        world.pods.store.subscribe(note)
        names = [f"p{index}" for index in range(4)]
        await world.create(*(wish(name, "5") for name in names))
        await world.until(lambda: world.by_phase("Running") == set(names))
        assert all(bool(node) is has for node, has in versions)
        assert apart(world, *names) == 20
        # Each node has four CPUs left, and no NUMA node has more than three of them.
        await world.create(wish("late", "4"))
        await world.refuses("late", "2 NUMA: ")
        await world.delete("p0")
        await world.until(lambda: "late" in world.by_phase("Running"))
        assert apart(world, "late", *names[1:]) == 19


async def test_labels_of_nodes_and_scopes_count_as_with_our_scheduler(sites: Opener) -> None:
    """Two containers of five CPUs fit no NUMA node together, and one each."""
    async with unaligned(sites, 1) as world:
        labels = {keys.NODE_POLICY: "SingleNUMANode", keys.NODE_SCOPE: "container"}
        patch = merge_patch({"metadata": {"labels": labels}})
        await world.client.patch(NODES, next(iter(world.pool.kubelets)), patch)
        async with extended(world):
            pair = pod_document("pair", "5", schedulerName=NAME)
            (one,) = pair["spec"]["containers"]
            pair["spec"]["containers"] = [{**one, "name": name} for name in ("one", "two")]
            await world.create(pair)
            await world.runs("pair")
            shares = given(world, "pair").containers
            assert {name: share.mask.bit_count() for name, share in shares.items()} == {
                "one": 1,
                "two": 1,
            }


async def test_a_wish_that_cannot_be_read_is_told(sites: Opener) -> None:
    """In the pod's condition, with key and field; a pod without wishes runs."""
    async with unaligned(sites, 1) as world, extended(world):
        wrong = wish("wrong", "2", {"numaTopologyPolicy": "SingleNumaNode"})
        await world.create(wrong, pod_document("plain", "2", schedulerName=NAME))
        await world.refuses("wrong", "numaTopologyPolicy")
        await world.runs("plain")
        assert keys.RESOURCE_STATUS not in world.pod("plain").metadata.annotations


async def test_preemption_frees_cpus_of_one_numa_node(sites: Opener) -> None:
    """Only as many pods go as the NUMA node needs."""
    async with unaligned(sites, 1) as world:
        await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 9})
        async with extended(world):
            # One CPU of the first NUMA node is the kubelet's, which leaves three whole cores.
            names = ["a", "b", "c"]
            await world.create(*(wish(name, "4") for name in names))
            await world.until(lambda: world.by_phase("Running") == set(names))
            await world.create(wish("urgent", "6", priorityClassName="urgent"))
            await world.runs("urgent")
            left = world.by_phase("Running")
            assert "urgent" in left
            apart(world, *left)


async def test_a_replica_that_lags_behind_learns_which_cpus_are_taken(sites: Opener) -> None:
    """From the claim: it has seen neither the pod nor its binding."""
    async with unaligned(sites, 1) as world:
        stop, options = asyncio.Event(), ExtenderOptions.default()
        quick = ExtenderProcess(options, world.connect())
        lagging = ExtenderProcess(options, world.connect())
        before = asyncio.all_tasks()
        tasks = [asyncio.create_task(quick.run(stop))]
        await quick.mirror.synced()
        known = asyncio.all_tasks()
        tasks.append(asyncio.create_task(lagging.run(stop)))
        await lagging.mirror.synced()
        for task in asyncio.all_tasks() - known - before:
            if task.get_name().startswith("mirror-"):
                task.cancel()
        (node,) = world.pool.kubelets
        await world.create(wish("first", "2"), wish("second", "2"))
        for process, name in ((quick, "first"), (lagging, "second")):
            one = await world.client.get(PODS, name, namespace="default")
            assert not (await process.verbs.bind(binding(one, node))).error
        await world.until(lambda: world.by_phase("Running") == {"first", "second"})
        assert apart(world, "first", "second") == 4
        stop.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        for process in (quick, lagging):
            await process._client.aclose()
