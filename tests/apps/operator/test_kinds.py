"""The two kinds as an API server has them: what it refuses, fills in, drops and prints."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from tests.apps.operator.test_on_the_lab import (
    IMAGE,
    kinds_served,
    wanted_exporters,
    wanted_scheduler,
)
from tests.sites.bare import BareOpener

from numakube.api.crds import OPERATOR_CRD, SCHEDULER_CRD, crd
from numakube.apps.operator.controller import OPERATORS, SCHEDULERS
from numakube.errors import Invalid
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS
from numakube.kube.client import Client, merge_patch
from numakube.kube.connection.transport import Request
from numakube.kube.resource_types import Document

pytestmark = pytest.mark.timeout(120)

OLD_OPERATORS = replace(OPERATORS.raw, version="v1alpha1")
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"


@pytest.fixture
async def client(bare_servers: BareOpener) -> AsyncIterator[Client]:
    """A server that knows both kinds."""
    async with bare_servers() as server:
        for name in (OPERATOR_CRD, SCHEDULER_CRD):
            await server.client.create(CUSTOM_RESOURCE_DEFINITIONS, crd(name))
        await kinds_served(server.client)
        yield server.client


def renamed(document: Document, name: str) -> Document:
    """Return *document* under another name."""
    return {**document, "metadata": {"name": name}}


def without_image(document: Document) -> Document:
    """Return a scheduler that names no image."""
    return {**document, "spec": {}}


SINGLETON = "This is a singleton resource and the object name must be"
REFUSED: list[tuple[Document, str]] = [
    (renamed(wanted_exporters(poolName="worker"), "another"), SINGLETON),
    (wanted_exporters(config={"infoRefreshMode": "Never"}), 'Unsupported value: "Never"'),
    (wanted_exporters(config={"maxSilence": "long"}), "config.maxSilence"),
    (wanted_exporters(poolName=7), "poolName"),
    (wanted_exporters(nodeSelector={"matchExpressions": [{"key": "x"}]}), "operator"),
    (wanted_exporters(poolName="x", sriov={}), "sriov.resources"),
    (wanted_exporters(poolName="x", sriov={"resources": []}), "sriov.resources"),
    (wanted_exporters(poolName="x", sriov={"resources": [{"selectors": {}}]}), "resourceName"),
    (renamed(wanted_scheduler(), "another"), SINGLETON),
    (wanted_scheduler(extender={"replicas": 0}), "spec.extender.replicas"),
    (wanted_scheduler(extender={"tls": "Perhaps"}), 'Unsupported value: "Perhaps"'),
    (without_image(wanted_scheduler()), "spec.imageSpec"),
    (wanted_scheduler(replicas="three"), "spec.replicas"),
    (wanted_scheduler(logLevel="Loud"), 'Unsupported value: "Loud"'),
    (wanted_scheduler(scoringStrategy={"resources": [{"weight": 1}]}), "resources[0].name"),
]


async def test_the_server_refuses_what_the_operator_could_not_understand(client: Client) -> None:
    """With a message that names the field."""
    for document, message in REFUSED:
        resource = (OPERATORS if "Operator" in document["kind"] else SCHEDULERS).raw
        with pytest.raises(Invalid) as refused:
            await client.create(resource, document)
        assert message in str(refused.value)


async def test_missing_fields_are_filled_in_and_unknown_ones_dropped(client: Client) -> None:
    """And the status is written by its own path alone."""
    made = await client.create(OPERATORS.raw, wanted_exporters(poolName="worker", colour="red"))
    assert made["spec"] == {"logLevel": "Normal", "nodeGroups": [{"poolName": "worker"}]}
    assert made["metadata"]["generation"] == 1
    name = made["metadata"]["name"]
    status = {"daemonsets": [{"namespace": "n", "name": "d"}]}
    both = merge_patch({"spec": {"logLevel": "Debug"}, "status": status})
    after = await client.patch(OPERATORS.raw, name, both)
    assert after["spec"]["logLevel"] == "Debug"
    assert "status" not in after
    more = merge_patch({"spec": {"logLevel": "Trace"}, "status": status})
    said = await client.patch(OPERATORS.raw, name, more, subresource="status")
    assert (said["spec"]["logLevel"], said["status"]) == ("Debug", status)
    assert said["metadata"]["generation"] == 2


async def test_devices_are_kept_as_they_are_and_extenders_completed(client: Client) -> None:
    """Selectors are the plugin's business."""
    resource = {"resourceName": "x", "selectors": [{"vendors": ["8086"]}], "excludeTopology": True}
    asked = wanted_exporters(poolName="worker", sriov={"resources": [resource]})
    made = await client.create(OPERATORS.raw, asked)
    assert made["spec"]["nodeGroups"][0]["sriov"] == {"resources": [resource]}
    scheduler = await client.create(SCHEDULERS.raw, wanted_scheduler(extender={}))
    assert scheduler["spec"]["extender"] == {"replicas": 2, "tls": "Enabled"}


def condition(type_: str, status: str, message: str = "") -> Document:
    """Return a condition."""
    return {
        "type": type_,
        "status": status,
        "reason": type_,
        "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }


async def test_kubectl_prints_how_things_stand(client: Client) -> None:
    """One column for each condition that matters, and why it is degraded."""
    await client.create(SCHEDULERS.raw, wanted_scheduler())
    status = {
        "schedulerName": "numa",
        "conditions": [
            condition("Available", "False"),
            condition("Progressing", "False"),
            condition("Degraded", "True", "no image"),
        ],
    }
    name = "numaresourcesscheduler"
    await client.patch(SCHEDULERS.raw, name, merge_patch({"status": status}), subresource="status")
    path = "/apis/nodetopology.openshift.io/v1/numaresourcesschedulers"
    answer = await client.request(Request(method="GET", path=path, accept=TABLE))
    table: dict[str, Any] = json.loads(answer.body)
    columns = [definition["name"] for definition in table["columnDefinitions"]]
    shown = dict(zip(columns, table["rows"][0]["cells"], strict=True))
    assert shown.pop("Age")
    assert shown == {
        "Name": name,
        "Scheduler": "numa",
        "Available": "False",
        "Progressing": "False",
        "Degraded": "True",
        "Message": "no image",
    }


async def test_objects_of_the_old_version_are_those_of_the_new_one(client: Client) -> None:
    """Nothing is converted, so what only one version knows is lost; every request is warned."""
    pools = {"machineConfigPoolSelector": {"matchLabels": {"pool": "a"}}}
    group = {**pools, "disablePodsFingerprinting": True, "config": {"infoRefreshMode": "Events"}}
    old = {**wanted_exporters(**group), "apiVersion": OLD_OPERATORS.api_version}
    made = await client.create(OLD_OPERATORS, old)
    kept = [{**pools, "config": {"infoRefreshMode": "Events"}}]
    assert made["spec"]["nodeGroups"] == kept
    new = await client.get(OPERATORS.raw, "numaresourcesoperator")
    assert (new["apiVersion"], new["spec"]["nodeGroups"]) == (OPERATORS.api_version, kept)
    path = "/apis/nodetopology.openshift.io/v1alpha1/numaresourcesoperators"
    answer = await client.request(Request(method="GET", path=path))
    warning = {key.lower(): value for key, value in answer.headers.items()}["warning"]
    assert "v1alpha1 NUMAResourcesOperator is deprecated, use v1" in warning


async def test_a_scheduler_of_the_old_version_works_as_one_of_the_new(client: Client) -> None:
    """Its four fields mean the same."""
    old = replace(SCHEDULERS.raw, version="v1alpha1")
    document = {**wanted_scheduler(cacheResyncPeriod="7s"), "apiVersion": old.api_version}
    await client.create(old, document)
    found = await client.get(SCHEDULERS, "numaresourcesscheduler")
    assert (found.spec.image_spec, found.spec.cache_resync_period) == (IMAGE, "7s")
    assert found.spec.scheduler_name == "numa"
