"""Accounting, resources of the host, refusals, bursts and preemption, by the scenarios' ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.apps.scheduler.world import NAME, refusal_of, without_election, world_of
from tests.field.cluster import (
    OTHERS,
    SHAPE,
    TARGET,
    Amounts,
    Field,
    Zones,
    amounts,
    pod,
    zones,
)

from numakube.api.core import Pod
from numakube.kube.catalog import DAEMON_SETS, DEPLOYMENTS, JOBS, NODES, PODS, PRIORITY_CLASSES
from numakube.kube.patches import merge_patch

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
ALL = (TARGET, *OTHERS)
TWELVE = "cpu=12 mem=12Gi"
SIXTEEN = amounts("cpu=16 mem=16Gi")
ALIGN = "cannot align container"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def shared() -> AsyncIterator[Field]:
    """Three nodes under single-numa-node in container scope."""
    async with world_of(3, SHAPE) as world:
        await world.start(without_election())
        yield Field(world)


@pytest_asyncio.fixture(loop_scope="module")
async def cluster(shared: Field) -> AsyncIterator[Field]:
    """The nodes, as free afterwards as before, and without workloads."""
    yield shared
    for resource in (DEPLOYMENTS, DAEMON_SETS, JOBS):
        for one in (await shared.world.client.list(resource, namespace="default")).items:
            name = one["metadata"]["name"]
            await shared.world.client.delete(
                resource, name, namespace="default", propagation="Background"
            )
    await shared.clear()


def workload(kind: str, name: str, asked: Amounts, **spec: Any) -> dict[str, Any]:
    """Return a Deployment, DaemonSet or Job whose pods ask for *asked*."""
    template = pod("x", [asked])["spec"]
    group = "batch/v1" if kind == "Job" else "apps/v1"
    labels = {"app": name}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    extra = spec.pop("pod", {})
    return {
        "apiVersion": group,
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            **selector,
            **spec,
            "template": {"metadata": {"labels": labels}, "spec": {**template, **extra}},
        },
    }


def of(cluster: Field, name: str) -> list[Pod]:
    """Return the pods of a workload."""
    return [one for one in cluster.world.pods.store if one.metadata.labels.get("app") == name]


def phase(one: Pod) -> str:
    """Return the phase of a pod."""
    return one.status.phase if one.status else ""


def everywhere(left: str) -> dict[str, Zones]:
    """Leave the same in all zones."""
    return {node: zones(left, left) for node in ALL}


async def reported(cluster: Field) -> dict[str, list[Any]]:
    """Return what every zone has left."""
    views = await cluster.topologies()
    return {name: [zone.available for zone in view.zones] for name, view in views.items()}


async def waits(cluster: Field, name: str, text: str) -> None:
    """A pod is refused with a text."""
    await cluster.world.until(lambda: refusal_of(cluster.world.pod(name)) != "")
    assert text in refusal_of(cluster.world.pod(name))


async def test_47617_a_pod_bigger_than_any_zone_waits(cluster: Field) -> None:
    """Though every node has room for it in all."""
    await cluster.leave(everywhere(TWELVE))
    await cluster.world.create(pod("big", [SIXTEEN]))
    await waits(cluster, "big", ALIGN)


@pytest.mark.parametrize(("id_", "kind"), [("48963", "Deployment"), ("48962", "DaemonSet")])
async def test_workloads_bigger_than_any_zone_wait(cluster: Field, id_: str, kind: str) -> None:
    """48963 and 48962."""
    await cluster.leave(everywhere(TWELVE))
    name = f"big-{id_}"
    resource = DEPLOYMENTS if kind == "Deployment" else DAEMON_SETS
    await cluster.world.client.create(resource, workload(kind, name, SIXTEEN), namespace="default")
    count = 1 if kind == "Deployment" else 3
    await cluster.world.until(
        lambda: len([one for one in of(cluster, name) if refusal_of(one)]) == count
    )
    assert all(ALIGN in refusal_of(one) for one in of(cluster, name))


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
    await cluster.leave({node: zones(TWELVE, TWELVE) for node in OTHERS})
    await cluster.world.client.create(
        DAEMON_SETS, workload("DaemonSet", "ds-47592", SIXTEEN), namespace="default"
    )

    def is_settled() -> bool:
        pods = of(cluster, "ds-47592")
        return len(pods) == 3 and all(phase(one) == "Running" or refusal_of(one) for one in pods)

    await cluster.world.until(is_settled)
    running = [one for one in of(cluster, "ds-47592") if phase(one) == "Running"]
    assert [one.spec.node_name for one in running] == [TARGET]
    refused = [refusal_of(one) for one in of(cluster, "ds-47592") if phase(one) != "Running"]
    assert len(refused) == 2
    assert all(ALIGN in text for text in refused)


async def test_47614_a_pod_as_big_as_a_node_waits(cluster: Field) -> None:
    """The target is empty, yet no zone of it is a whole node."""
    await cluster.leave({node: zones("cpu=0", "cpu=0") for node in OTHERS})
    await cluster.world.create(pod("whole", [amounts("cpu=54 mem=60Gi")]))
    await waits(cluster, "whole", ALIGN)


async def test_49068_room_that_appears_is_used(cluster: Field) -> None:
    """A pod waits until a placeholder in the right zone goes."""
    left = {node: zones("cpu=2 mem=4Gi", "cpu=2 mem=4Gi") for node in OTHERS}
    await cluster.leave({**left, TARGET: zones("cpu=4 mem=8Gi", "cpu=4 mem=8Gi")})
    for zone in (0, 1):
        cell = {f"kni.node/numacell{zone:02}": "1"}
        await cluster.placed(
            pod(f"held-{zone}", [{**amounts("cpu=1 mem=1Gi"), **cell}], node=TARGET)
        )
    await cluster.world.create(pod("test", [amounts("cpu=4 mem=7Gi")]))
    await waits(cluster, "test", ALIGN)
    await cluster.world.delete("held-1")
    await cluster.world.until(lambda: "test" in cluster.world.by_phase("Running"))
    assert cluster.world.pod("test").spec.node_name == TARGET
    assert await cluster.scheduled_by("test") == NAME


@pytest.mark.parametrize(
    ("id_", "asked", "requests_only"),
    [("48685", {}, False), ("48686", amounts("cpu=40 mem=40Gi"), True)],
)
async def test_pods_without_exclusive_resources_take_from_no_zone(
    cluster: Field, id_: str, asked: Amounts, *, requests_only: bool
) -> None:
    """48685 and 48686: best effort and burstable."""
    before = await reported(cluster)
    name = f"shared-{id_}"
    await cluster.placed(pod(name, [asked], requests_only=requests_only))
    assert await cluster.scheduled_by(name) == NAME
    assert await reported(cluster) == before


async def test_47620_a_burstable_pod_keeps_a_guaranteed_one_out(cluster: Field) -> None:
    """At the level of the node; and the zones show nothing of it."""
    await cluster.leave({node: zones("cpu=0", "cpu=0") for node in OTHERS})
    before = (await reported(cluster))[TARGET]
    await cluster.placed(pod("burstable", [amounts("cpu=50 mem=1Gi")], requests_only=True))
    await cluster.world.create(pod("test", [amounts("cpu=20 mem=1Gi")]))
    await waits(cluster, "test", "Insufficient cpu")
    assert (await reported(cluster))[TARGET] == before
    await cluster.world.delete("burstable")
    await cluster.world.until(lambda: "test" in cluster.world.by_phase("Running"))


HOST = "eph=256Mi"


@pytest.mark.parametrize(
    ("id_", "containers", "requests_only", "quality"),
    [
        ("84015", [f"cpu=2 mem=256Mi {HOST}"], False, "Guaranteed"),
        ("84016", [f"cpu=2 mem=256Mi {HOST}"], True, "Burstable"),
        ("84017", [HOST], False, "BestEffort"),
        ("74249", [f"cpu=2 mem=256Mi {HOST}"] * 4, False, "Guaranteed"),
        (
            "74250",
            [f"cpu={cpu} mem=256Mi {HOST}" for cpu in ("3000m", "2", "1500m", "2")],
            False,
            "Guaranteed",
        ),
        (
            "74251",
            [f"cpu={cpu} mem=384Mi {HOST}" for cpu in ("1200m", "1200m", "1600m", "2")],
            True,
            "Burstable",
        ),
        ("74252", [HOST, "eph=16777216"], False, "BestEffort"),
    ],
)
async def test_resources_of_the_host_do_not_matter_to_zones(
    cluster: Field, id_: str, containers: list[str], quality: str, *, requests_only: bool
) -> None:
    """84015 to 84017 and 74249 to 74252."""
    name = f"host-{id_}"
    asked: list[Amounts] = [amounts(text) for text in containers]
    await cluster.placed(pod(name, asked, requests_only=requests_only))
    status = cluster.world.pod(name).status
    assert status is not None
    assert status.qos_class == quality


@pytest.mark.parametrize(("id_", "guaranteed"), [("74253", True), ("74255", False)])
async def test_too_little_of_a_resource_of_the_host_is_told(
    cluster: Field, id_: str, *, guaranteed: bool
) -> None:
    """74253 and 74255."""
    asked = amounts("cpu=2 mem=256Mi eph=100Ti" if guaranteed else "dev1=2 eph=100Ti")
    await cluster.world.create(pod(f"host-{id_}", [asked]))
    await waits(cluster, f"host-{id_}", "Insufficient ephemeral-storage")


async def test_85786_four_pods_fill_four_zones_at_once(cluster: Field) -> None:
    """More than half of a zone each, so that none can be placed twice."""
    await cluster.leave({OTHERS[1]: zones("cpu=0", "cpu=0")})
    pods = [pod(f"burst-{n}", [amounts("cpu=16 mem=8Gi")]) for n in range(4)]
    await cluster.placed(*pods)
    assert cluster.world.by_phase("Failed") == set()


async def test_85787_and_85788_others_place_pods_meanwhile(cluster: Field) -> None:
    """Every second one is the default scheduler's; all of them run in the end."""
    pods = [
        pod(
            f"burst-{n}",
            [amounts("cpu=8 mem=4Gi")],
            scheduler="default-scheduler" if n % 4 == 0 else NAME,
            requests_only=n % 8 == 4,
        )
        for n in range(12)
    ]
    await cluster.placed(*pods)
    assert cluster.world.by_phase("Failed") == set()


async def test_85789_and_85790_what_does_not_fit_waits_until_something_goes(
    cluster: Field,
) -> None:
    """The device is in one zone of two nodes only."""
    left = {node: zones("dev3=3", "dev3=0") for node in (TARGET, OTHERS[0])}
    await cluster.leave({**left, OTHERS[1]: zones("dev3=0", "dev3=0")})
    names = [f"rare-{n}" for n in range(3)]
    await cluster.world.create(*(pod(n, [amounts("cpu=18 mem=8Gi dev3=1")]) for n in names))
    await cluster.world.until(lambda: len(cluster.world.by_phase("Running") & set(names)) == 2)
    (waiting,) = set(names) - cluster.world.by_phase("Running")
    await waits(cluster, waiting, ALIGN)
    running = sorted(cluster.world.by_phase("Running") & set(names))
    assert len({cluster.world.pod(one).spec.node_name for one in running}) == 2
    await cluster.world.delete(running[0])
    await cluster.world.until(lambda: waiting in cluster.world.by_phase("Running"))


@pytest.mark.parametrize("id_", ["85780", "85781", "85783"])
async def test_jobs_that_have_ended_stall_nothing(cluster: Field, id_: str) -> None:
    """85780, 85781 and 85783: noise of best-effort, burstable and guaranteed jobs."""
    asked = {"85780": {}, "85781": amounts("cpu=100m"), "85783": amounts("cpu=1 mem=256Mi")}[id_]
    job = workload("Job", f"noise-{id_}", asked, completions=6, parallelism=6)
    job["spec"]["template"]["spec"] |= {"restartPolicy": "Never"}
    job["spec"]["template"]["metadata"]["annotations"] = {"lab.numakube.dev/runs-for": "0s"}
    await cluster.world.client.create(JOBS, job, namespace="default")
    await cluster.world.until(lambda: len(of(cluster, f"noise-{id_}")) == 6)
    await cluster.placed(*(pod(f"burst-{n}", [amounts("cpu=16 mem=8Gi")]) for n in range(6)))
    assert cluster.world.by_phase("Failed") == set()


async def test_84021_many_small_pods_all_run(cluster: Field) -> None:
    """As many as the zones hold of two CPUs, and a few more than half of that."""
    pods = [pod(f"small-{n}", [amounts("cpu=2 mem=64Mi")]) for n in range(50)]
    await cluster.placed(*pods)
    assert cluster.world.by_phase("Failed") == set()


PRIORITIES = {"field-low": 100, "field-medium": 200, "field-high": 300}
CRITICAL = "system-node-critical"


@pytest.mark.parametrize(
    ("filler", "newcomer", "evicts"),
    [
        ("", "", False),
        ("", CRITICAL, True),
        (CRITICAL, "", False),
        (CRITICAL, CRITICAL, False),
        ("field-low", "field-medium", True),
        ("field-medium", "field-low", False),
    ],
)
async def test_priority_decides_who_makes_room(
    cluster: Field, filler: str, newcomer: str, *, evicts: bool
) -> None:
    """The six lines of priority-based placement: exactly one filler goes, or none."""
    client = cluster.world.client
    for name, value in PRIORITIES.items():
        document = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        await client.apply(PRIORITY_CLASSES, document, field_manager="field")
    for node in OTHERS:
        await client.patch(NODES, node, merge_patch({"spec": {"unschedulable": True}}))
    try:
        wide = amounts("cpu=20 mem=8Gi")
        fillers = [f"filler-{n}" for n in range(2)]
        for name in fillers:
            await cluster.placed(pod(name, [wide], **_priority(filler)))
        await cluster.world.create(pod("new", [wide], **_priority(newcomer)))
        if evicts:
            await cluster.world.until(lambda: "new" in cluster.world.by_phase("Running"))
            assert len(cluster.world.by_phase("Running") & set(fillers)) == 1
        else:
            await waits(cluster, "new", "Preemption is not helpful for scheduling")
            assert set(fillers) <= cluster.world.by_phase("Running")
    finally:
        for node in OTHERS:
            await client.patch(NODES, node, merge_patch({"spec": {"unschedulable": None}}))
        assert (await client.list(PODS)).items


def _priority(name: str) -> dict[str, Any]:
    return {"priorityClassName": name} if name else {}
