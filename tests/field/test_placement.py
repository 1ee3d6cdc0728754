"""Placement beside labels, affinity, taints and overhead, and of workloads that change, by id."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
import pytest_asyncio
from tests.field.cluster import OTHERS, TARGET, Field, on_others
from tests.field.documents import Amounts, amounts, pod, workload, zones

from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.kube.catalog import NODES, PODS
from numakube.kube.client import merge_patch
from numakube.kube.resource_types import Document, Resource

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
TWELVE = "cpu=12 mem=12Gi"
SIXTEEN = amounts("cpu=16 mem=16Gi")
LITTLE = "cpu=1 mem=4G"
RUNTIME_CLASSES: Resource[Document] = Resource(
    group="node.k8s.io",
    version="v1",
    plural="runtimeclasses",
    kind="RuntimeClass",
    namespaced=False,
    object_type=dict,
)


def template(name: str, asked: Sequence[Amounts]) -> dict[str, Any]:
    """Return the template of a workload's pods, to change it."""
    found: dict[str, Any] = workload("Deployment", pod(name, asked))["spec"]["template"]
    return found


async def test_47591_a_deployment_that_wants_more_stays_or_moves(cluster: Field) -> None:
    """A little more is found on its node; what is not there any more is found on another one."""
    pads = await cluster.leave(on_others(LITTLE))
    before = await cluster.reported()
    second = amounts("cpu=2 mem=100Mi")
    await cluster.create(workload("Deployment", pod("grows", [second, second])))
    for cpus in (2, 3):
        asked = [amounts(f"cpu={cpus} mem=100Mi"), second]
        await cluster.change("Deployment", "grows", {"template": template("grows", asked)})
        await cluster.is_on_target(*await cluster.complete("grows", asked))
        await cluster.until_taken(before, {TARGET: (amounts(f"cpu={cpus + 2} mem=200Mi"),)})
    await cluster.remove(*pads)
    await cluster.leave({TARGET: zones(LITTLE, LITTLE)})
    before = await cluster.reported()
    asked = [amounts("cpu=6 mem=100Mi"), second]
    await cluster.change("Deployment", "grows", {"template": template("grows", asked)})
    (name,) = await cluster.complete("grows", asked)
    node = cluster.world.pod(name).spec.node_name
    assert node in OTHERS
    assert await cluster.scheduled_by(name) == {SCHEDULER_NAME}
    freed = {TARGET: (amounts("cpu=-5 mem=-200Mi"),)}
    await cluster.until_taken(before, {**freed, node: (amounts("cpu=8 mem=200Mi"),)})
    await cluster.drop("Deployment", "grows")
    await cluster.until_taken(before, freed)


async def test_48746_two_pods_as_big_as_zones_shrink_in_their_places(cluster: Field) -> None:
    """Both are on the target, one in each zone, and so are smaller ones that take their places."""
    await cluster.leave(on_others(LITTLE))
    before = await cluster.reported()
    least = {name: min(zone[name] for zone in before[TARGET]) for name in ("cpu", "memory")}
    big = amounts(f"cpu={least['cpu'] // 1000} mem={least['memory']}")
    small = amounts(f"cpu={least['cpu'] // 1000 - 4} mem={least['memory'] - (100 << 20)}")
    strategy = {"type": "Recreate"}
    await cluster.create(workload("Deployment", pod("pair", [big]), replicas=2, strategy=strategy))
    for asked in (big, small):
        await cluster.change("Deployment", "pair", {"template": template("pair", [asked])})
        await cluster.is_on_target(*await cluster.complete("pair", [asked], count=2))
        await cluster.until_taken(before, {TARGET: (asked, asked)})


async def test_47627_ten_pods_run_as_with_the_default_scheduler(cluster: Field) -> None:
    """All on the target with either; how long each takes is not for tests to say."""
    await cluster.leave(on_others(LITTLE))
    asked: list[Amounts] = [amounts("cpu=2 mem=200Mi"), amounts("cpu=2 mem=100Mi")]
    for scheduler in ("default-scheduler", SCHEDULER_NAME):
        ten = pod("ten", asked, scheduler=scheduler)
        await cluster.create(workload("ReplicaSet", ten, replicas=10))
        names = await cluster.complete("ten", asked, count=10)
        assert {cluster.world.pod(name).spec.node_name for name in names} == {TARGET}
        assert await cluster.scheduled_by(*names) == {scheduler}
        await cluster.drop("ReplicaSet", "ten")
        await cluster.world.until(lambda: not cluster.pods_of("ten"))


def labelled(size: str) -> dict[str, Any]:
    """Return a node's label."""
    return {"metadata": {"labels": {"size": size}}}


async def test_47598_a_node_selector_leaves_the_zones_to_decide(cluster: Field) -> None:
    """Two nodes have the label, one of them a zone."""
    await cluster.leave(on_others(TWELVE))
    before = await cluster.reported()
    async with cluster.changed(node_0=labelled("medium"), node_1=labelled("medium")):
        await cluster.placed(pod("test", [SIXTEEN], nodeSelector={"size": "medium"}))
        await cluster.is_on_target("test")
        await cluster.until_taken(before, {TARGET: (SIXTEEN,)})


TERM = {"matchExpressions": [{"key": "size", "operator": "In", "values": ["large", "medium"]}]}


@pytest.mark.parametrize(
    ("id_", "how", "terms"),
    [
        ("47597", "required", {"nodeSelectorTerms": [TERM]}),
        ("49843", "preferred", [{"weight": 1, "preference": TERM}]),
    ],
)
async def test_node_affinity_leaves_the_zones_to_decide(
    cluster: Field, id_: str, how: str, terms: Any
) -> None:
    """47597 and 49843: and a pod stays when the labels are gone."""
    await cluster.leave(on_others(TWELVE))
    before = await cluster.reported()
    affinity = {"nodeAffinity": {f"{how}DuringSchedulingIgnoredDuringExecution": terms}}
    async with cluster.changed(node_0=labelled("large"), node_1=labelled("medium")):
        template = pod(f"test-{id_}", [SIXTEEN], affinity=affinity)
        await cluster.create(workload("Deployment", template))
        names = await cluster.complete(f"test-{id_}", [SIXTEEN])
        await cluster.is_on_target(*names)
        await cluster.until_taken(before, {TARGET: (SIXTEEN,)})
        after = await cluster.reported()
    await cluster.unchanged(after)
    assert await cluster.complete(f"test-{id_}", [SIXTEEN]) == names


@pytest.mark.parametrize(
    ("id_", "others"), [("85792", "cpu=16 mem=8Gi"), ("85793", "cpu=8 mem=16Gi")]
)
async def test_every_resource_of_a_zone_counts(pod_scope: Field, id_: str, others: str) -> None:
    """85792 and 85793: memory or CPUs are too few in the zones of other nodes."""
    left = zones("cpu=0 mem=0", "cpu=16 mem=16Gi")
    await pod_scope.leave({**on_others(others), TARGET: left})
    before = await pod_scope.reported()
    await pod_scope.placed(pod(f"test-{id_}", [SIXTEEN]))
    await pod_scope.is_on_target(f"test-{id_}")
    await pod_scope.until_taken(before, {TARGET: (SIXTEEN,)})


async def test_47594_a_pod_that_puts_up_with_taints_goes_where_a_zone_has_room(
    cluster: Field,
) -> None:
    """All nodes have the taint."""
    await cluster.leave(on_others(LITTLE))
    before = await cluster.reported()
    taint = {"key": "testkey", "effect": "NoSchedule"}
    asked = amounts("cpu=4 mem=100Mi")
    tainted = {"spec": {"taints": [taint]}}
    async with cluster.changed(node_0=tainted, node_1=tainted, node_2=tainted):
        tolerations = [{**taint, "operator": "Exists"}]
        await cluster.world.create(pod("other", [asked]))
        await cluster.waits("other", "3 node(s) had untolerated taint")
        await cluster.remove("other")
        await cluster.placed(pod("test", [asked], tolerations=tolerations))
        await cluster.is_on_target("test")
        await cluster.until_taken(before, {TARGET: (asked,)})
        await cluster.remove("test")
        await cluster.until_taken(before, {})


async def test_47584_a_pod_that_names_a_node_needs_no_scheduler(cluster: Field) -> None:
    """And what it takes is reported all the same."""
    await cluster.leave(on_others("cpu=2 mem=4G"))
    before = await cluster.reported()
    asked = amounts("cpu=2 mem=100Mi")
    await cluster.placed(pod("test", [asked], node=TARGET, schedulerName="foo"))
    await cluster.until_taken(before, {TARGET: (asked,)})
    assert await cluster.events_of("test", "Scheduled") == []
    await cluster.remove("test")
    await cluster.until_taken(before, {})


async def test_48964_nor_does_a_deployment(cluster: Field) -> None:
    """Its pods are where it says, and nobody has scheduled them."""
    await cluster.leave(on_others("cpu=2 mem=4G"))
    before = await cluster.reported()
    asked = amounts("cpu=2 mem=100Mi")
    fixed = pod("fixed", [asked], node=TARGET, schedulerName="foo")
    await cluster.create(workload("Deployment", fixed))
    (name,) = await cluster.complete("fixed", [asked])
    await cluster.until_taken(before, {TARGET: (asked,)})
    assert await cluster.events_of(name, "Scheduled") == []
    await cluster.drop("Deployment", "fixed")
    await cluster.until_taken(before, {})


@pytest_asyncio.fixture(loop_scope="module")
async def overhead(cluster: Field) -> AsyncIterator[str]:
    """The name of a RuntimeClass whose pods cost half a CPU and half a gigabyte more."""
    client = cluster.world.client
    node = await client.get(NODES.raw, TARGET)
    assert "runc" in {handler["name"] for handler in node["status"]["runtimeHandlers"]}
    document = {
        "apiVersion": "node.k8s.io/v1",
        "kind": "RuntimeClass",
        "metadata": {"name": "costly"},
        "handler": "runc",
        "overhead": {"podFixed": amounts("cpu=500m mem=500M")},
    }
    await client.create(RUNTIME_CLASSES, document)
    yield "costly"
    await client.delete(RUNTIME_CLASSES, "costly")


async def test_47582_overhead_is_no_zones_business(cluster: Field, overhead: str) -> None:
    """Zones give what containers ask for and no more."""
    await cluster.leave(on_others("cpu=1 mem=1Gi"))
    before = await cluster.reported()
    asked = amounts("cpu=6 mem=6Gi")
    await cluster.create(workload("Deployment", pod("dp", [asked], runtimeClassName=overhead)))
    names = await cluster.complete("dp", [asked])
    await cluster.is_on_target(*names)
    document = await cluster.world.client.get(PODS.raw, names[0], namespace="default")
    assert document["spec"]["overhead"] == {"cpu": "500m", "memory": "500M"}
    await cluster.until_taken(before, {TARGET: (asked,)})


async def test_53819_a_pod_waits_when_its_overhead_does_not_fit(
    cluster: Field, overhead: str
) -> None:
    """A zone has room for its containers, and no node has any for what they cost besides."""
    free = await cluster.reported()
    biggest = {name: max(zone[name] for zone in free[TARGET]) for name in ("cpu", "memory")}
    costs = {"cpu": f"{biggest['cpu']}m", "memory": str(biggest["memory"])}
    patch = merge_patch({"overhead": {"podFixed": costs}})
    await cluster.world.client.patch(RUNTIME_CLASSES, overhead, patch)
    little = amounts("cpu=1 mem=1Gi")
    await cluster.leave({**on_others("cpu=1 mem=1Gi"), TARGET: (little, {})})
    before = await cluster.reported()
    await cluster.world.create(pod("test", [amounts("cpu=6 mem=6Gi")], runtimeClassName=overhead))
    await cluster.waits("test", "3 Insufficient cpu, 3 Insufficient memory")
    await cluster.unchanged(before)
