"""Workloads that no zone has room for, by the scenarios' ids."""

from __future__ import annotations

import pytest
from tests.field.cluster import ALL, TARGET, Field, everywhere, on_others, phase
from tests.field.documents import amounts, pod, workload, zones

from numakube.testing import refusal_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
TWELVE = "cpu=12 mem=12Gi"
SIXTEEN = amounts("cpu=16 mem=16Gi")
ALIGN = "cannot align container"


async def all_wait(cluster: Field, name: str, count: int, text: str) -> None:
    """A workload has so many pods, and all of them are refused with a text."""
    await cluster.world.until(
        lambda: len([one for one in cluster.pods_of(name) if refusal_of(one)]) == count
    )
    assert all(text in refusal_of(one) for one in cluster.pods_of(name))


async def test_47617_a_pod_bigger_than_any_zone_waits(cluster: Field) -> None:
    """Though every node has room for it in all."""
    await cluster.leave(everywhere(TWELVE))
    await cluster.world.create(pod("big", [SIXTEEN]))
    await cluster.waits("big", ALIGN)


@pytest.mark.parametrize(
    ("id_", "kind", "count"), [("48963", "Deployment", 1), ("48962", "DaemonSet", 3)]
)
async def test_workloads_bigger_than_any_zone_wait(
    cluster: Field, id_: str, kind: str, count: int
) -> None:
    """48963 and 48962."""
    await cluster.leave(everywhere(TWELVE))
    name = f"big-{id_}"
    await cluster.create(workload(kind, pod(name, [SIXTEEN])))
    await all_wait(cluster, name, count, ALIGN)


async def test_47619_the_default_scheduler_sends_it_to_be_rejected(cluster: Field) -> None:
    """The kubelet says so, in its words."""
    await cluster.leave(everywhere(TWELVE))
    await cluster.world.create(pod("big", [SIXTEEN], scheduler="default-scheduler"))
    await cluster.world.until(lambda: "big" in cluster.world.by_phase("Failed"))
    status = cluster.world.pod("big").status
    assert status is not None
    assert status.reason == "TopologyAffinityError"
    assert "Resources cannot be allocated with Topology locality" in status.message


async def test_47592_a_daemon_set_runs_only_where_it_fits(cluster: Field) -> None:
    """And its other pods are told why they wait."""
    await cluster.leave(on_others(TWELVE))
    before = await cluster.reported()
    await cluster.create(workload("DaemonSet", pod("ds-47592", [SIXTEEN])))

    def is_settled() -> bool:
        pods = cluster.pods_of("ds-47592")
        return len(pods) == 3 and all(phase(one) == "Running" or refusal_of(one) for one in pods)

    await cluster.world.until(is_settled)
    pods = cluster.pods_of("ds-47592")
    assert [one.spec.node_name for one in pods if phase(one) == "Running"] == [TARGET]
    refused = [refusal_of(one) for one in pods if phase(one) != "Running"]
    assert [ALIGN in text for text in refused] == [True, True]
    await cluster.until_taken(before, {TARGET: (SIXTEEN,)})


@pytest.mark.parametrize("kind", ["Pod", "Deployment", "DaemonSet"])
async def test_47614_what_is_as_big_as_a_node_waits(cluster: Field, kind: str) -> None:
    """The target is empty, yet no zone of it is a whole node."""
    await cluster.leave(on_others("cpu=0"))
    before = await cluster.reported()
    whole = pod("whole", [amounts("cpu=54 mem=60Gi")])
    if kind == "Pod":
        await cluster.world.create(whole)
        await cluster.waits("whole", ALIGN)
    else:
        await cluster.create(workload(kind, whole))
        await all_wait(cluster, "whole", len(ALL) if kind == "DaemonSet" else 1, "")
        assert any(ALIGN in refusal_of(one) for one in cluster.pods_of("whole"))
    await cluster.unchanged(before)


async def test_47613_a_pod_a_little_bigger_than_a_zone_waits(cluster: Field) -> None:
    """By a CPU; and the zones show nothing of it."""
    await cluster.leave(on_others("cpu=0"))
    before = await cluster.reported()
    biggest = max(zone["cpu"] for zone in before[TARGET]) // 1000
    await cluster.world.create(pod("bigger", [amounts(f"cpu={biggest + 1} mem=1Gi")]))
    await cluster.waits("bigger", ALIGN)
    await cluster.unchanged(before)


async def test_47616_containers_that_fit_only_in_different_zones_wait(pod_scope: Field) -> None:
    """In pod scope both have to be in one."""
    await pod_scope.leave(on_others("cpu=0") | {TARGET: zones("cpu=6 mem=6Gi", "cpu=6 mem=6Gi")})
    before = await pod_scope.reported()
    await pod_scope.world.create(pod("two", [amounts("cpu=4 mem=4Gi"), amounts("cpu=5 mem=5Gi")]))
    await pod_scope.waits("two", "cannot align pod")
    await pod_scope.unchanged(before)


async def test_47615_a_deployment_takes_as_many_zones_as_hold_its_pods(cluster: Field) -> None:
    """None while they are too big, one each when they are smaller, and one pod is left over."""
    await cluster.leave(everywhere("cpu=7 mem=7Gi"))
    before = await cluster.reported()
    count = 2 * len(ALL) + 1
    big, small = amounts("cpu=11 mem=11Gi"), amounts("cpu=5 mem=5Gi")
    await cluster.create(workload("Deployment", pod("dp-47615", [big]), replicas=count))
    await all_wait(cluster, "dp-47615", count, ALIGN)
    await cluster.unchanged(before)
    await cluster.change("Deployment", "dp-47615", {"replicas": 0})
    await cluster.world.until(lambda: not cluster.pods_of("dp-47615"))
    smaller = workload("Deployment", pod("dp-47615", [small]))["spec"]["template"]
    await cluster.change("Deployment", "dp-47615", {"replicas": count, "template": smaller})

    def is_settled() -> bool:
        pods = cluster.pods_of("dp-47615")
        running = [one for one in pods if phase(one) == "Running"]
        return len(running) == count - 1 and len([one for one in pods if refusal_of(one)]) == 1

    await cluster.world.until(is_settled)
    await cluster.until_taken(before, dict.fromkeys(ALL, (small, small)))
