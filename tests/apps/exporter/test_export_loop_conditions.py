"""Conditions on the exporter's own pod."""

from __future__ import annotations

from typing import Any

import pytest

from numakube.apps.exporter.export_loop import OwnPod, fetched, updated
from numakube.kube.catalog import PODS
from numakube.kube.client import Client

POD = {
    "metadata": {"name": "exporter-x"},
    "spec": {"containers": [{"name": "main", "image": "numakube"}]},
}


@pytest.fixture
async def pod(bare: Client) -> OwnPod:
    """The exporter's pod, which has a condition of somebody else."""
    await bare.create(PODS.raw, POD, namespace="default")
    condition = {"type": "Ready", "status": "False", "reason": "Mine"}
    document = await bare.get(PODS.raw, "exporter-x", namespace="default")
    document["status"]["conditions"] = [condition]
    await bare.update(PODS.raw, document, subresource="status")
    return OwnPod(bare, "default", "exporter-x")


async def conditions(client: Client) -> dict[str, Any]:
    """Return the pod's conditions by type."""
    document = await client.get(PODS.raw, "exporter-x", namespace="default")
    return {condition["type"]: condition for condition in document["status"]["conditions"]}


async def version(client: Client) -> str:
    """Return the pod's resource version."""
    return (await client.get(PODS, "exporter-x", namespace="default")).metadata.resource_version


async def test_conditions_are_set_beside_those_of_others(pod: OwnPod, bare: Client) -> None:
    """With the words that are known."""
    await pod.set(fetched(ok=True))
    await pod.set(updated(ok=False))
    found = await conditions(bare)
    assert found["Ready"]["reason"] == "Mine"
    assert found["PodresourcesFetched"]["status"] == "True"
    failed = found["NodeTopologyUpdated"]
    assert (failed["status"], failed["reason"]) == ("False", "UpdateFailed")
    assert failed["message"] == "failed to update noderesourcetopology object"


async def test_a_condition_is_written_when_it_changes_only(pod: OwnPod, bare: Client) -> None:
    """An exporter scans often."""
    await pod.set(fetched(ok=True))
    before = await version(bare)
    await pod.set(fetched(ok=True))
    assert await version(bare) == before
    await pod.set(fetched(ok=False))
    assert (await conditions(bare))["PodresourcesFetched"]["reason"] == "ScanFailed"
    await pod.set(fetched(ok=True))
    again = (await conditions(bare))["PodresourcesFetched"]
    assert again["status"] == "True"
    assert not again.get("reason")


async def test_what_could_not_be_set_is_set_the_next_time(bare: Client) -> None:
    """A pod that is missing is no reason to stop."""
    pod = OwnPod(bare, "default", "exporter-x")
    await pod.set(fetched(ok=True))
    await bare.create(PODS.raw, POD, namespace="default")
    await pod.set(fetched(ok=True))
    assert (await conditions(bare))["PodresourcesFetched"]["status"] == "True"
