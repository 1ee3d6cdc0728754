"""The operator's scenarios: configuration, removal of the scheduler, tolerations, by their ids."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from tests.apps.operator.test_on_the_lab import (
    IMAGE,
    NAMESPACE,
    aligned_pod,
    conditions,
    create,
    in_state,
    message_of,
    until,
    wanted_exporters,
    wanted_scheduler,
)
from tests.sites.labs import lab_of

from numakube.apps.operator.state import OPERATORS, SCHEDULERS
from numakube.kube.catalog import CONFIG_MAPS, DAEMON_SETS, DEPLOYMENTS, NODES, PODS
from numakube.kube.client import Client
from numakube.kube.patches import merge_patch
from numakube.kube.resources import Document
from numakube.manifests.operator import OperatorManifest

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
EXPORTERS = "numaresourcesoperator"
SCHEDULER = "numaresourcesscheduler"
TAINT = {"key": "testkey", "value": "val1", "effect": "NoExecute"}
TOLERATION = {"key": "testkey", "operator": "Equal", "value": "val1", "effect": "NoExecute"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def client() -> AsyncIterator[Client]:
    """A cluster of three nodes with an operator, exporters and a scheduler."""
    async with lab_of(3, rbac=True) as lab:
        for document in OperatorManifest(namespace=NAMESPACE, image=IMAGE).objects():
            await create(lab.client, document)
        everywhere = wanted_exporters(nodeSelector={"matchLabels": {}})
        await lab.client.create(OPERATORS.raw, everywhere)
        await lab.client.create(SCHEDULERS.raw, wanted_scheduler())
        await both_available(lab.client)
        yield lab.client


async def both_available(client: Client) -> None:
    """Wait until exporters and scheduler are as they should be."""
    await in_state(client, OPERATORS, "Available")
    await in_state(client, SCHEDULERS, "Available")


async def change(client: Client, name: str, spec: dict[str, Any]) -> None:
    """Change the spec of one of the two objects."""
    resource = OPERATORS if name == EXPORTERS else SCHEDULERS
    await client.patch(resource.raw, name, merge_patch({"spec": spec}))


def group(**config: Any) -> dict[str, Any]:
    """Return a spec with one group of all nodes."""
    return {"nodeGroups": [{"nodeSelector": {"matchLabels": {}}, "config": config}]}


async def exporters(client: Client) -> list[Document]:
    """Return the pods of the exporters that run."""
    found = await client.list(PODS.raw, namespace=NAMESPACE, labels="name=resource-topology")
    return [one for one in found.items if one.get("status", {}).get("phase") == "Running"]


async def run_on(client: Client, count: int) -> None:
    """Wait until so many exporters run, and no more."""

    async def asked() -> bool:
        return len(await exporters(client)) == count

    await until(asked, f"{count} exporters")


async def taint(client: Client, *taints: dict[str, str]) -> None:
    """Give a node these taints and no others."""
    await client.patch(NODES, "node-2", merge_patch({"spec": {"taints": list(taints)}}))


async def running(client: Client, names: set[str]) -> bool:
    """Tell whether these pods run."""
    found = await client.list(PODS, namespace="default")
    return names <= {
        one.metadata.name for one in found.items if one.status and one.status.phase == "Running"
    }


async def test_84302_a_toleration_that_makes_no_sense_is_told(client: Client) -> None:
    """In the words of the API server; taking it back helps."""
    await change(client, EXPORTERS, group(tolerations=[{"key": "a", "operator": "foo"}]))
    found = await in_state(client, OPERATORS, "Degraded")
    assert "Unsupported value" in message_of(found, "Degraded")
    await change(client, EXPORTERS, group())
    await in_state(client, OPERATORS, "Available")


async def test_84304_tolerations_follow_the_object(client: Client) -> None:
    """Taints send exporters away that do not put up with them, and let them back."""
    await change(client, EXPORTERS, group(tolerations=[TOLERATION]))
    await in_state(client, OPERATORS, "Available")
    await taint(client, TAINT)
    await run_on(client, 3)
    await change(client, EXPORTERS, group(tolerations=[{**TOLERATION, "value": "val2"}]))
    await run_on(client, 2)
    await taint(client)
    await run_on(client, 3)
    await change(client, EXPORTERS, group(tolerations=[]))
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
