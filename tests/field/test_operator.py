"""The operator's scenarios: configuration, removal of the scheduler, pauses, by their ids."""

from __future__ import annotations

import pytest
from tests.apps.operator.test_on_the_lab import (
    NAMESPACE,
    aligned_pod,
    conditions,
    in_state,
    until,
    wanted_scheduler,
)
from tests.field.operated import ALL, EXPORTERS, SCHEDULER, change, configure, until_on

from numakube.apps.operator.state import OPERATORS, SCHEDULERS
from numakube.kube.catalog import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
)
from numakube.kube.client import Client
from numakube.kube.patches import merge_patch
from numakube.kube.resources import Document
from numakube.topology.view import NodeTopology, view_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]


@pytest.fixture
def client(operated: Client) -> Client:
    """A cluster of three nodes with an operator, exporters and a scheduler."""
    return operated


async def running(client: Client, names: set[str]) -> bool:
    """Tell whether these pods run."""
    found = await client.list(PODS, namespace="default")
    return names <= {
        one.metadata.name for one in found.items if one.status and one.status.phase == "Running"
    }


async def free_cpus(client: Client) -> dict[str, list[int]]:
    """Return how many CPUs the zones of every node have left."""
    found: dict[str, list[int]] = {}
    for one in (await client.list(NODE_RESOURCE_TOPOLOGIES)).items:
        view = view_of(one)
        assert isinstance(view, NodeTopology)
        found[one.metadata.name] = [zone.available["cpu"] // 1000 for zone in view.zones]
    return found


def small_pod(name: str, resources: Document) -> Document:
    """Return a pod with one container."""
    document = aligned_pod(name)
    document["spec"]["containers"][0]["resources"] = resources
    return document


async def test_85012_85013_47611_pods_run_while_nothing_is_reported(client: Client) -> None:
    """Whatever their quality of service; when exporters go on, what they take is told."""
    old = await until_on(client, *ALL)
    await configure(client, infoRefreshPause="Enabled")

    async def are_new() -> bool:
        return not set((await until_on(client, *ALL)).values()) & set(old.values())

    await until(are_new, "exporters that pause")
    before = (await client.list(NODE_RESOURCE_TOPOLOGIES.raw)).items
    free = await free_cpus(client)
    asked = {
        "best-effort": {},
        "burstable": {"requests": {"memory": "256Mi"}},
        "guaranteed": {"limits": {"cpu": "4", "memory": "256Mi"}},
    }
    for name, resources in asked.items():
        await client.create(PODS.raw, small_pod(name, resources), namespace="default")
    await until(lambda: running(client, set(asked)), "all of them run")
    assert (await client.list(NODE_RESOURCE_TOPOLOGIES.raw)).items == before
    await configure(client)
    node = (await client.get(PODS, "guaranteed", namespace="default")).spec.node_name

    async def is_told() -> bool:
        now = await free_cpus(client)
        taken = {
            name: sorted(b - n for b, n in zip(free[name], now[name], strict=True)) for name in now
        }
        return taken == {name: [0, 4] if name == node else [0, 0] for name in ALL}

    await until(is_told, "what the guaranteed pod takes is told")
    for name in asked:
        await client.delete(PODS, name, namespace="default", grace_seconds=0)
    await in_state(client, OPERATORS, "Available")


async def test_47593_49093_48069_without_a_scheduler_pods_wait_and_run_when_it_is_back(
    client: Client,
) -> None:
    """Those that ran go on running."""
    await client.create(PODS.raw, aligned_pod("before"), namespace="default")
    await until(lambda: running(client, {"before"}), "the first runs")
    await client.delete(SCHEDULERS, SCHEDULER)

    async def gone() -> bool:
        return not (await client.list(DEPLOYMENTS, labels="app=secondary-scheduler")).items

    await until(gone, "the scheduler is gone")
    await client.create(PODS.raw, aligned_pod("meanwhile"), namespace="default")
    await client.create(SCHEDULERS.raw, wanted_scheduler(schedulerName="other"))
    await in_state(client, SCHEDULERS, "Available")
    assert await running(client, {"before"})
    assert not await running(client, {"meanwhile"})
    await change(client, SCHEDULER, {"schedulerName": "numa"})
    await until(lambda: running(client, {"before", "meanwhile"}), "both run")


async def test_54916_and_cache_resync_changes_reach_the_scheduler(client: Client) -> None:
    """The status names what is in effect, and the pods are new ones."""
    before = await client.get(DEPLOYMENTS, "secondary-scheduler", namespace=NAMESPACE)
    await change(client, SCHEDULER, {"cacheResyncPeriod": "9s"})

    async def told() -> bool:
        found = await client.get(SCHEDULERS.raw, SCHEDULER)
        available = conditions(found)["Available"] == "True"
        return available and found["status"]["cacheResyncPeriod"] == "9s"

    await until(told, "the status follows")
    config = await client.get(CONFIG_MAPS, "topo-aware-scheduler-config", namespace=NAMESPACE)
    assert "cacheResyncPeriodSeconds: 9" in config["data"]["config.yaml"]
    after = await client.get(DEPLOYMENTS, "secondary-scheduler", namespace=NAMESPACE)
    assert after["metadata"]["generation"] > before["metadata"]["generation"]
    await change(client, SCHEDULER, {"cacheResyncPeriod": None})


async def test_replicas_can_be_none_and_then_as_many_as_before(client: Client) -> None:
    """Should allow updating replicas to 0 and properly switch back to autodetection mode."""
    for replicas, expected in ((0, 0), (None, 3)):
        await change(client, SCHEDULER, {"replicas": replicas})

        async def counted(wanted: int = expected) -> bool:
            found = await client.list(PODS, namespace=NAMESPACE, labels="app=secondary-scheduler")
            live = [one for one in found.items if one.metadata.deletion_timestamp is None]
            return len(live) == wanted

        await until(counted, f"{expected} schedulers")


async def test_owned_objects_that_somebody_edits_are_set_back(client: Client) -> None:
    """Should react to owned objects changes: data of a ConfigMap as well."""
    name = "topo-aware-scheduler-config"
    before = await client.get(CONFIG_MAPS, name, namespace=NAMESPACE)
    wrong = merge_patch({"data": {"config.yaml": "nonsense"}})
    await client.patch(CONFIG_MAPS, name, wrong, namespace=NAMESPACE)

    async def back() -> bool:
        found = await client.get(CONFIG_MAPS, name, namespace=NAMESPACE)
        return bool(found["data"] == before["data"])

    await until(back, "the data is back")


async def test_the_log_level_reaches_every_exporter(client: Client) -> None:
    """Can modify the LogLevel in NRO CR and klog under RTE container should change respectively."""
    await change(client, EXPORTERS, {"logLevel": "Trace"})

    async def told() -> bool:
        sets = (await client.list(DAEMON_SETS, namespace=NAMESPACE)).items
        words = [one["spec"]["template"]["spec"]["containers"][0]["args"] for one in sets]
        return bool(words) and all("--log-level=debug" in args for args in words)

    await until(told, "all of them debug")
    await change(client, EXPORTERS, {"logLevel": "Normal"})
    await in_state(client, OPERATORS, "Available")
