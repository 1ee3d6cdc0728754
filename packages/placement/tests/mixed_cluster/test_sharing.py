"""Pods beside each other on nodes where the scheduler decides."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from packages.placement.tests.mixed_cluster.mixed import LSR, NUMA_CPUS, PLAIN, Mixed, numa_nodes

from numakube.api.koordinator import keys
from numakube.kube.catalog import PODS
from numakube.testing import until
from numakube.values.cpuset import CpuSet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

SINGLE = {"numaTopologyPolicy": "SingleNUMANode"}
SIDECAR = {
    "name": "injected",
    "image": "registry.example/proxy:1",
    "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "2"}},
}


async def test_an_injected_sidecar_does_not_block_the_pod(mixed: Mixed) -> None:
    """Its requests are unlike its limits: it is left unaligned, off the CPUs of the others."""
    spec = {**SINGLE, "numaTopologyScope": "container"}
    await mixed.create("pod", (6, 6), spec=spec, node=PLAIN[0], extra=(SIDECAR,))
    await mixed.runs("pod")

    given = await mixed.given("pod")
    assert given is not None
    parts = {container.name: CpuSet.parse(container.cpuset) for container in given.containers}
    assert {name: len(cpus) for name, cpus in parts.items()} == {"c0": 6, "c1": 6}
    left = NUMA_CPUS[0] | NUMA_CPUS[1]
    for cpus in parts.values():
        left = left - cpus
    await mixed.confined("pod", left, container="injected")


async def test_a_container_has_its_own_rule(mixed: Mixed) -> None:
    """By an annotation with its name: one may span NUMA nodes where the others may not."""
    rule = keys.CONTAINER_NUMA_TOPOLOGY_SPEC + "c1"
    await mixed.create(
        "pod",
        (4, 10),
        spec={**SINGLE, "numaTopologyScope": "container", "singleNUMANodeExclusive": "Preferred"},
        annotations={rule: '{"numaTopologyPolicy": "BestEffort"}'},
        node=PLAIN[0],
    )
    await mixed.runs("pod")

    given = await mixed.given("pod")
    assert given is not None
    masks = {
        container.name: numa_nodes(CpuSet.parse(container.cpuset)) for container in given.containers
    }
    assert len(masks["c0"]) == 1
    assert masks["c1"] == (0, 1)


async def test_volcanos_annotation_says_the_same(mixed: Mixed) -> None:
    """Its pods need not be changed."""
    await mixed.create(
        "pod", (4,), annotations={keys.VOLCANO_POLICY: "single-numa-node"}, node=PLAIN[0]
    )
    await mixed.create(
        "wide", (10,), annotations={keys.VOLCANO_POLICY: "single-numa-node"}, node=PLAIN[0]
    )
    await mixed.runs("pod")

    given = await mixed.given("pod")
    assert given is not None
    assert len(numa_nodes(CpuSet.parse(given.cpuset))) == 1
    await mixed.refused("wide", "NUMA")


async def test_a_wrong_annotation_is_refused_by_its_field(mixed: Mixed) -> None:
    """Nobody has to guess which."""
    await mixed.create("pod", (1,), spec={"numaTopologyPolicy": "Sometimes"})

    said = await mixed.refused("pod")
    assert keys.NUMA_TOPOLOGY_SPEC in said
    assert "numaTopologyPolicy" in said
    assert "Sometimes" in said


async def test_no_cpu_is_given_twice_across_a_change_of_leaders(mixed: Mixed) -> None:
    """The new one reads from the pods what the old one gave; a pod that goes makes room."""
    for name in ("first", "second"):
        await mixed.create(name, (5,), spec=SINGLE, node=PLAIN[0])
        await mixed.runs(name)
    await _kill_schedulers(mixed)
    await mixed.create("large", (4,), spec=SINGLE, node=PLAIN[0])
    await mixed.refused("large", "NUMA")
    await mixed.create("small", (2,), spec=SINGLE, node=PLAIN[0])
    await mixed.runs("small")
    assert await _all_apart(mixed) == 3

    await mixed.world.delete("first")
    await mixed.runs("large")
    assert await _all_apart(mixed) == 3


async def test_what_a_pod_claims_for_itself_does_not_count(mixed: Mixed) -> None:
    """The result is the scheduler's to write."""
    mine: dict[str, Any] = {keys.RESOURCE_STATUS: '{"cpuset": "0-15"}'}
    await mixed.create("greedy", (1,), annotations=mine, node=PLAIN[0], labels={})
    await mixed.runs("greedy")
    await mixed.create("bound", (8,), spec=SINGLE, node=PLAIN[0], labels=LSR)
    await mixed.runs("bound")

    given = await mixed.given("greedy")
    assert given is not None
    assert given.cpuset == ""


async def _kill_schedulers(mixed: Mixed) -> None:
    """Delete the scheduler's pods without grace; others take over."""
    client = mixed.world.cluster.client
    old = {
        pod.metadata.uid: pod.metadata.name
        for pod in (await client.list(PODS, namespace="numakube")).items
        if "scheduler" in pod.metadata.name
    }
    assert old
    for name in old.values():
        await client.delete(PODS, name, namespace="numakube", grace_seconds=0)

    async def replaced() -> bool:
        found = (await client.list(PODS, namespace="numakube")).items
        now = {pod.metadata.uid for pod in found if "scheduler" in pod.metadata.name}
        return bool(now) and not now & old.keys()

    await until(replaced)


async def _all_apart(mixed: Mixed) -> int:
    """Return how many pods hold CPUs, none of which two have."""
    found = (await mixed.world.cluster.client.list(PODS, namespace="default")).items
    given = [await mixed.given(pod.metadata.name) for pod in found if pod.spec.node_name]
    held = [CpuSet.parse(one.cpuset) for one in given if one is not None]
    assert not any(one & other for one, other in combinations(held, 2))
    return len(held)
