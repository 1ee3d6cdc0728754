"""Pods that are aligned by annotations and labels, on nodes whose kubelets align nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube_lab_server import FaultKind, FaultRule
from numakube.api.koordinator import keys
from numakube.kube.catalog import NODES, PRIORITY_CLASSES
from numakube.kube.client import merge_patch
from numakube.kubelet.config_from_words import UNALIGNED
from numakube.testing import pod_document
from numakube.topology.allotments import Allotment
from numakube_lab.testing import LabCluster, Opener, lab_cluster
from numakube_placement.koordinator.allotments import allotment_of
from numakube_placement.koordinator.placement_rule import Why

pytestmark = pytest.mark.timeout(180)

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"
"""Two NUMA nodes with eight CPUs each; the kubelet keeps one of the first, which splits a core."""
SINGLE = {"numaTopologyPolicy": "SingleNUMANode"}


def aligned(name: str, cpu: str, spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Return a pod that wants alignment, and CPUs of its own."""
    metadata = {
        "annotations": {keys.NUMA_TOPOLOGY_SPEC: json.dumps(spec)},
        "labels": {keys.QOS_CLASS: "LSR", keys.PRIORITY_CLASS: "koord-prod"},
    }
    return pod_document(name, cpu, metadata=metadata, **more)


def given(world: LabCluster, name: str) -> Allotment:
    """Return what a pod was given."""
    problems: list[str] = []
    allotment = allotment_of(world.pod(name), problems)
    assert allotment is not None, f"{name} was given nothing"
    assert problems == []
    return allotment


async def test_what_a_pod_is_given_is_written_with_its_binding(sites: Opener) -> None:
    """No version of the pod is bound without it, and none has it without being bound."""
    async with lab_cluster(2, SHAPE, UNALIGNED, on=sites) as world:
        versions: list[tuple[str, bool]] = []

        def note(change: Any) -> None:
            pod = change.object
            has = keys.RESOURCE_STATUS in pod.metadata.annotations
            versions.append((pod.spec.node_name, has))

        world.pods.store.subscribe(note)
        await world.start()
        names = [f"p{index}" for index in range(6)]
        await world.create(*(aligned(name, "4", SINGLE) for name in names))
        await world.until(lambda: world.by_phase("Running") == set(names))
        assert all(bool(node) is has for node, has in versions)
        by_node: dict[str, int] = {}
        for name in names:
            share, node = given(world, name).total, world.pod(name).spec.node_name
            assert (share.cpus.bit_count(), share.mask.bit_count()) == (4, 1)
            assert not by_node.get(node, 0) & share.cpus
            by_node[node] = by_node.get(node, 0) | share.cpus
        await world.create(aligned("late", "4", SINGLE))
        await world.refuses("late")
        await world.delete("p0")
        await world.until(lambda: "late" in world.by_phase("Running"))


async def test_a_new_scheduler_knows_what_the_old_one_gave(sites: Opener) -> None:
    """It reads it from the pods."""
    async with lab_cluster(1, SHAPE, UNALIGNED, on=sites) as world:
        first = await world.start()
        await world.create(aligned("a", "6", SINGLE), aligned("b", "6", SINGLE))
        await world.until(lambda: world.by_phase("Running") == {"a", "b"})
        await first.kill()
        await world.start()
        await world.create(aligned("c", "2", SINGLE))
        await world.until(lambda: world.by_phase("Running") == {"a", "b", "c"})
        taken = 0
        for name in "abc":
            held = given(world, name).total.cpus
            assert not taken & held
            taken |= held


async def test_lost_answers_lose_no_cpus_and_give_none_twice(sites: Opener) -> None:
    """A binding that was carried out without an answer is found out by looking."""
    async with lab_cluster(1, SHAPE, UNALIGNED, on=sites) as world:
        lost = FaultRule(kind=FaultKind.DROP, methods=("POST",), path="/binding$", times=2)
        world.site.faults.add(lost)
        await world.start()
        names = ["a", "b", "c"]
        await world.create(*(aligned(name, "4", SINGLE) for name in names))
        await world.until(lambda: world.by_phase("Running") == set(names))
        held = [given(world, name).total.cpus for name in names]
        assert (held[0] | held[1] | held[2]).bit_count() == 12


async def test_mixed_clusters_place_each_pod_where_its_wish_is_met(sites: Opener) -> None:
    """A kubelet that aligns by another policy is refused, a label counts, others pass."""
    async with lab_cluster(1, SHAPE, "policy=best-effort", on=sites) as world:
        await world.start()
        await world.create(aligned("strict", "2", SINGLE))
        await world.refuses("strict", Why.KUBELET_POLICY.value)
        await world.create(aligned("same", "2", {"numaTopologyPolicy": "BestEffort"}))
        await world.runs("same")
        assert keys.RESOURCE_STATUS not in world.pod("same").metadata.annotations


async def test_e7_a_pod_leaves_memory_out_of_its_alignment(sites: Opener) -> None:
    """Its memory is larger than a NUMA node; its CPUs are still on one."""
    async with lab_cluster(1, SHAPE, UNALIGNED, on=sites) as world:
        await world.start()
        wide, free = (
            aligned("wide", "2", SINGLE),
            aligned("free", "2", {**SINGLE, "ignoredResources": ["memory"]}),
        )
        for entry in (wide, free):
            (main,) = entry["spec"]["containers"]
            amounts = {"cpu": "2", "memory": "18Gi"}
            main["resources"] = {"requests": amounts, "limits": amounts}
        await world.create(wide)
        await world.refuses("wide", Why.UNALIGNED.value)
        await world.create(free)
        await world.runs("free")
        share = given(world, "free").total
        assert (share.cpus.bit_count(), share.mask.bit_count()) == (2, 1)
        assert [set(amounts) for amounts in share.zones.values()] == [{"cpu"}]


async def test_labels_align_pods_that_say_nothing_and_container_scope_fits_more(
    sites: Opener,
) -> None:
    """Two containers of five CPUs fit no NUMA node together."""
    async with lab_cluster(1, SHAPE, UNALIGNED, on=sites) as world:
        labels = {keys.NODE_POLICY: "SingleNUMANode"}
        await label(world, labels)
        await world.start()
        document = pod_document("pair", "5", "1Gi")
        (one,) = document["spec"]["containers"]
        document["spec"]["containers"].append({**one, "name": "second"})
        await world.create(document)
        await world.refuses("pair", Why.UNALIGNED.value)
        await label(world, {keys.NODE_SCOPE: "container"})
        await world.until(lambda: "pair" in world.by_phase("Running"))
        shares = given(world, "pair").containers
        assert sorted(share.mask for share in shares.values()) == [0b01, 0b10]


async def label(world: LabCluster, labels: dict[str, str]) -> None:
    """Label node-0."""
    await world.client.patch(NODES, "node-0", merge_patch({"metadata": {"labels": labels}}))


async def test_preemption_makes_room_in_one_numa_node(sites: Opener) -> None:
    """The victim is the pod that holds it; the others stay."""
    async with lab_cluster(1, SHAPE, UNALIGNED, on=sites) as world:
        await world.client.create(PRIORITY_CLASSES, {"metadata": {"name": "urgent"}, "value": 1000})
        await world.start()
        await world.create(aligned("big", "8", SINGLE))
        await world.until(lambda: "big" in world.by_phase("Running"))
        await world.create(aligned("one", "2", SINGLE), aligned("two", "2", SINGLE))
        await world.until(lambda: world.by_phase("Running") == {"big", "one", "two"})
        before = given(world, "big").total.mask
        await world.create(aligned("urgent", "8", SINGLE, priorityClassName="urgent"))
        await world.until(lambda: world.by_phase("Running") == {"urgent", "one", "two"})
        assert given(world, "urgent").total.mask == before
