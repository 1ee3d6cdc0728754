"""Pods whose GPU comes by claim and whose CPUs come from the kubelet run on one NUMA node."""

from __future__ import annotations

import os
import random
from dataclasses import replace
from itertools import product
from typing import Any, Final

import pytest

from numakube.api.resource_slices import ResourceSlice
from numakube.apps.watched_kinds import RESOURCES
from numakube.kube.catalog import RESOURCE_CLAIMS
from numakube.kubelet.machines.shape_text import from_shape
from numakube.node.podresources_client import PodResources
from numakube.testing import pod_document
from numakube.topology.exact_report import uid_hash
from numakube_lab.controllers.object_types import RESOURCE_CLAIM_TEMPLATES
from numakube_lab.testing import LabCluster, lab_cluster, uniform_plans

GPU: Final = "vendor.example/gpu"
WISH: Final = "numakube.dev/claim-alignment"
TEMPLATE: Final[dict[str, Any]] = {
    "metadata": {"name": "one-gpu"},
    "spec": {
        "spec": {
            "devices": {
                "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.vendor.example"}}]
            }
        }
    },
}


def mixed(name: str, cpu: str = "7", **metadata: Any) -> dict[str, Any]:
    """Return a pod that wants CPUs of its own and a GPU by claim."""
    claims = [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]
    pod = pod_document(name, cpu, metadata=metadata, resourceClaims=claims)
    pod["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpu"}]
    return pod


def sharing(name: str, **metadata: Any) -> dict[str, Any]:
    """Return a pod that wants CPUs of its own and the GPU of a claim that others use as well."""
    pod = mixed(name, **metadata)
    pod["spec"]["resourceClaims"] = [{"name": "gpu", "resourceClaimName": "shared"}]
    return pod


async def places(cluster: LabCluster) -> dict[str, tuple[set[int], set[int]]]:
    """Return the NUMA nodes of the CPUs and of the GPUs of each pod, as PodResources lists them."""
    slices = (await cluster.client.list(RESOURCES["resource_slices"])).items
    gpus = {
        (piece.spec.pool.name, device.name): device.attributes[
            "resource.kubernetes.io/numaNode"
        ].integer
        for piece in slices
        if isinstance(piece, ResourceSlice)
        for device in piece.spec.devices
    }
    found: dict[str, tuple[set[int], set[int]]] = {}
    for kubelet in cluster.pool.kubelets.values():
        zones = {
            cpu: node.id
            for node in kubelet.plan.machine.nodes
            for core in node.cores
            for cpu in core.threads
        }
        for pod in kubelet.pod_resources():
            found[pod.name] = _cpu_zones(pod, zones), _gpu_zones(pod, gpus)
    return found


def _cpu_zones(pod: PodResources, zones: dict[int, int]) -> set[int]:
    return {zones[cpu] for container in pod.containers for cpu in container.cpu_ids}


def _gpu_zones(pod: PodResources, gpus: dict[tuple[str, str], int | None]) -> set[int]:
    return {
        number
        for container in pod.containers
        for claim in container.dynamic_resources
        for device in claim.devices
        if (number := gpus[device.pool, device.device]) is not None
    }


def _knows_who_has_left(cluster: LabCluster) -> bool:
    """Tell whether no deleted pod is in a report that the scheduler goes by.

    Until then it cannot know whether a kubelet has given back what a pod had that was deleted by
    force.
    """
    there = {uid_hash(pod.metadata.uid) for pod in cluster.pods.store}
    mirrored = cluster.running[0].process.mirror.cluster
    for name in cluster.pool.kubelets:
        node = mirrored.node(name)
        if node is None or node.numa is None or node.numa.topology is None:
            return False
        report = node.numa.topology.report
        if report is None or not set(report.pods) <= there:
            return False
    return True


@pytest.mark.parametrize("policy", ["single-numa-node", "restricted"])
async def test_gpu_and_cpus_are_on_one_numa_node(policy: str) -> None:
    """Every pod, until the node is full; the one for which no GPU is left near its CPUs waits."""
    machine = from_shape("2 sockets, 8 cores, smt 2, 32Gi, gpu 2")
    plans = uniform_plans(2, machine, f"policy={policy}", "1.35")
    async with lab_cluster(plans=tuple(plan.with_claimable(GPU) for plan in plans)) as cluster:
        await cluster.client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE, namespace="default")
        await cluster.start()
        await cluster.create(*(mixed(f"p{number}") for number in range(9)))
        await cluster.until(lambda: len(cluster.by_phase("Running")) == 8)
        seen = await places(cluster)
        assert len(seen) == 8
        assert all(cpus == gpus and len(cpus) == 1 for cpus, gpus in seen.values()), seen
        (waiting,) = cluster.by_phase("Pending")
        await cluster.delete(next(iter(cluster.by_phase("Running"))))
        await cluster.runs(waiting)
        assert not cluster.by_phase("Failed")


async def test_random_pods_on_kubelets_of_every_kind_are_as_promised() -> None:
    """None is rejected; those that insist, or whose kubelet does, are near their GPU.

    ``NUMAKUBE_MIXED_PODS`` says how many pods are placed.
    """
    wanted = int(os.environ.get("NUMAKUBE_MIXED_PODS", "40"))
    chance = random.Random(wanted)
    policies = ("single-numa-node", "restricted", "best-effort", "none")
    kinds = list(product(policies, ("container", "pod"), ("Static", "None")))
    machine = from_shape("2 sockets, 8 cores, smt 2, 32Gi, gpu 2")
    plans = []
    for number, (policy, scope, memory) in enumerate(kinds):
        words = f"policy={policy},scope={scope},memory={memory}"
        (plan,) = uniform_plans(1, machine, words, "1.35")
        plans.append(replace(plan, name=f"n{number}").with_claimable(GPU))
    async with lab_cluster(plans=tuple(plans)) as cluster:
        await cluster.client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE, namespace="default")
        await cluster.start()
        created = placed = 0
        while placed < wanted:
            for name in cluster.by_phase("Pending") | set(list(cluster.by_phase("Running"))[::2]):
                await cluster.delete(name)
            await cluster.until(lambda: _knows_who_has_left(cluster))
            names = [f"p{created + number}" for number in range(20)]
            wishes = {name: chance.choice((None, None, "Required", "Preferred")) for name in names}
            created += len(names)
            await cluster.create(
                *(
                    mixed(name, str(chance.randint(1, 9)), annotations={WISH: wish} if wish else {})
                    for name, wish in wishes.items()
                )
            )
            await cluster.settled()
            assert not cluster.by_phase("Failed")
            seen = await places(cluster)
            for name in cluster.by_phase("Running") & set(names):
                policy = policies[int(cluster.pod(name).spec.node_name[1:]) // 4]
                cpus, gpus = seen[name]
                strict = wishes[name] is None and policy in ("single-numa-node", "restricted")
                assert gpus <= cpus or not (strict or wishes[name] == "Required"), (name, policy)
                placed += 1


async def test_pods_share_a_claim_on_its_numa_node() -> None:
    """As long as the kubelet has CPUs for them there; then they wait, or are told."""
    machine = from_shape("2 sockets, 8 cores, smt 2, 32Gi, gpu 1")
    plans = uniform_plans(2, machine, "policy=single-numa-node", "1.35")
    async with lab_cluster(plans=tuple(plan.with_claimable(GPU) for plan in plans)) as cluster:
        shared = {"metadata": {"name": "shared"}, "spec": TEMPLATE["spec"]["spec"]}
        await cluster.client.create(RESOURCE_CLAIMS, shared, namespace="default")
        await cluster.start()
        await cluster.create(*(sharing(f"p{number}") for number in range(2)))
        await cluster.runs("p0", "p1")
        await cluster.create(sharing("late"))
        await cluster.refuses("late", "has devices on NUMA node 0, but the kubelet will put")
        await cluster.create(sharing("far", annotations={WISH: "Preferred"}))
        await cluster.runs("far")
        seen = await places(cluster)
        assert (seen["p0"], seen["p1"], seen["far"]) == (({0}, {0}), ({0}, {0}), ({1}, {0}))
        (told,) = await cluster.some_events("ClaimsNotAligned")
        assert "default/shared has devices on NUMA node 0" in told
        await cluster.delete("p0")
        await cluster.runs("late")
        assert (await places(cluster))["late"] == ({0}, {0})


async def test_a_gpu_far_from_the_cpus_is_not_taken() -> None:
    """The kubelet will put the CPUs where no GPU is free: the pod waits, and is told why."""
    machine = from_shape("2 sockets, 8 cores, smt 2, 32Gi, gpu 1")
    (plan,) = uniform_plans(1, machine, "policy=single-numa-node", "1.35")
    async with lab_cluster(plans=(plan.with_claimable(GPU),)) as cluster:
        await cluster.client.create(RESOURCE_CLAIM_TEMPLATES, TEMPLATE, namespace="default")
        await cluster.start()
        await cluster.create(mixed("first", "2"))
        await cluster.runs("first")
        # Its NUMA node still has room for CPUs, which the kubelet fills first.
        await cluster.create(mixed("second", "2"))
        await cluster.refuses("second", "no devices for the claims on NUMA node 0")
        await cluster.create(mixed("wide", "14"))
        await cluster.runs("wide")
        assert (await places(cluster))["wide"] == ({1}, {1})
