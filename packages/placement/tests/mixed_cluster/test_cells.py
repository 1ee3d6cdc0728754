"""Every cell of policy, scope and who allocates, in one cluster that has them all."""

from __future__ import annotations

from typing import Any

import pytest
from packages.placement.tests.mixed_cluster.mixed import (
    KUBELETS,
    PLAIN,
    POLICIES,
    SCOPES,
    Mixed,
    kubelet_node,
    numa_nodes,
)

from numakube.api.koordinator import keys
from numakube.values.cpuset import CpuSet

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

CELLS = [(policy, scope) for policy in POLICIES for scope in SCOPES]
cells = pytest.mark.parametrize(("policy", "scope"), CELLS)


def wish(policy: str, scope: str, **more: Any) -> dict[str, Any]:
    """Return what a pod wants."""
    return {"numaTopologyPolicy": policy, "numaTopologyScope": scope, **more}


@cells
async def test_the_scheduler_aligns_where_no_kubelet_does(
    mixed: Mixed, policy: str, scope: str
) -> None:
    """It picks CPUs of one NUMA node, for the pod or for each container, and they are enforced."""
    await mixed.create("pod", (3, 3), spec=wish(policy, scope), node=PLAIN[0])
    await mixed.runs("pod")

    given = await mixed.given("pod")
    assert given is not None
    whole = CpuSet.parse(given.cpuset)
    assert len(whole) == 6
    if scope == "pod":
        assert len(numa_nodes(whole)) == 1
        assert given.containers == ()
        parts = {"c0": whole, "c1": whole}
    else:
        parts = {container.name: CpuSet.parse(container.cpuset) for container in given.containers}
        assert {name: (len(cpus), len(numa_nodes(cpus))) for name, cpus in parts.items()} == {
            "c0": (3, 1),
            "c1": (3, 1),
        }
    for container, cpus in parts.items():
        await mixed.confined("pod", cpus, container=container)


@cells
async def test_the_kubelet_aligns_where_it_does(mixed: Mixed, policy: str, scope: str) -> None:
    """The scheduler foresees it and writes nothing; the CPUs are the kubelet's choice."""
    node = kubelet_node(policy, scope)
    await mixed.create("pod", (3, 3), spec=_for_kubelet(policy, scope), node=node)
    await mixed.runs("pod")

    assert await mixed.given("pod") is None
    parts = [await mixed.pinned("pod", container=one) for one in ("c0", "c1")]
    assert [(len(part), len(numa_nodes(part))) for part in parts] == [(3, 1), (3, 1)]
    if scope == "pod":
        assert len(numa_nodes(parts[0] | parts[1])) == 1


@cells
async def test_a_kubelet_that_does_something_else_is_refused(
    mixed: Mixed, policy: str, scope: str
) -> None:
    """With its own reason: by policy first, else by scope."""
    other_policy = next(other for other in POLICIES if other != policy)
    other_scope = next(other for other in SCOPES if other != scope)
    spec = _for_kubelet(policy, scope)
    await mixed.create("policy", (2,), spec=spec, node=kubelet_node(other_policy, scope))
    await mixed.create("scope", (2,), spec=spec, node=kubelet_node(policy, other_scope))

    await mixed.refused("policy", "kubelet aligns by another policy than the pod wants")
    await mixed.refused("scope", "kubelet aligns by another scope than the pod wants")


@cells
async def test_a_pod_finds_its_place_among_all_nodes(mixed: Mixed, policy: str, scope: str) -> None:
    """On the kubelet that does what it wants, or where the scheduler can."""
    await mixed.create("pod", (3, 3), spec=_for_kubelet(policy, scope))
    pod = await mixed.runs("pod")

    assert pod.spec.node_name in {*PLAIN, kubelet_node(policy, scope)}
    assert (await mixed.given("pod") is not None) is (pod.spec.node_name in PLAIN)


@cells
async def test_a_label_of_the_node_aligns_pods_that_say_nothing(
    mixed: Mixed, policy: str, scope: str
) -> None:
    """So that manifests need not be changed."""
    await mixed.label(PLAIN[1], numa_topology_policy=policy, numa_topology_scope=scope)
    # The selector lets the pod wait until the scheduler has seen the labels.
    selector = {keys.NODE_POLICY: policy, keys.NODE_SCOPE: scope}
    await mixed.create("pod", (3, 3), node=PLAIN[1], labels={}, selector=selector)
    await mixed.runs("pod")

    given = await mixed.given("pod")
    assert given is not None
    assert given.cpuset == ""
    if scope == "pod":
        assert len(given.numa_node_resources) == 1
    else:
        assert {
            container.name: len(container.numa_node_resources) for container in given.containers
        } == {
            "c0": 1,
            "c1": 1,
        }


@pytest.mark.parametrize("where", ["scheduler", "kubelet"])
async def test_container_scope_places_what_pod_scope_leaves_pending(
    mixed: Mixed, where: str
) -> None:
    """Ten CPUs are more than a NUMA node has, five and five are not."""
    for scope in SCOPES:
        node = PLAIN[0] if where == "scheduler" else kubelet_node("SingleNUMANode", scope)
        await mixed.create(scope, (5, 5), spec=_for_kubelet("SingleNUMANode", scope), node=node)

    await mixed.runs("container")
    reason = {"scheduler": "NUMA", "kubelet": "cannot align pod"}[where]
    await mixed.refused("pod", reason)
    if where == "scheduler":
        given = await mixed.given("container")
        assert given is not None
        parts = [CpuSet.parse(container.cpuset) for container in given.containers]
    else:
        parts = [await mixed.pinned("container", container=one) for one in ("c0", "c1")]
    assert sorted(map(numa_nodes, parts)) == [(0,), (1,)]


@pytest.mark.parametrize("scope", SCOPES)
async def test_restricted_has_two_models(mixed: Mixed, scope: str) -> None:
    """A kubelet wants as few NUMA nodes as an idle machine would need, the scheduler as few as can.

    Of each NUMA node five CPUs are left, and six are wanted.
    """
    spec = _for_kubelet("Restricted", scope)
    plain, kubelet = PLAIN[0], kubelet_node("Restricted", scope)
    # The scheduler takes the emptier NUMA node, a kubelet the lower one, whose CPU 0 it reserves.
    for node, sizes in ((plain, (3, 3)), (kubelet, (7, 3))):
        for index, size in enumerate(sizes):
            await mixed.create(f"{node}-{index}", (size,), spec=spec, node=node)
            await mixed.runs(f"{node}-{index}")
    await mixed.world.delete(f"{kubelet}-0")
    await mixed.create(f"{kubelet}-2", (2,), spec=spec, node=kubelet)
    await mixed.runs(f"{kubelet}-2")

    await mixed.create("made", (6,), spec=spec, node=plain)
    await mixed.create("foreseen", (6,), spec=spec, node=kubelet)

    await mixed.runs("made")
    given = await mixed.given("made")
    assert given is not None
    assert numa_nodes(CpuSet.parse(given.cpuset)) == (0, 1)
    assert await mixed.refused("foreseen")


def _for_kubelet(policy: str, scope: str) -> dict[str, Any]:
    """Return a wish that a kubelet can grant too: it keeps nobody apart."""
    return wish(policy, scope, singleNUMANodeExclusive="Preferred")


async def test_every_cell_has_its_node() -> None:
    """The cluster that these tests run on has them all."""
    assert len(KUBELETS) == len(CELLS)
