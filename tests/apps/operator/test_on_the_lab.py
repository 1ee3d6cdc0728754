"""The operator as a pod, under its own account: two objects become a working stack."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from numakube.apps.operator.controller import DEFINITIONS, OPERATORS, SCHEDULERS
from numakube.errors import Conflict
from numakube.kube.catalog import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
    SERVICE_ACCOUNTS,
    resource_of,
)
from numakube.kube.client import Client, json_patch, merge_patch
from numakube.kube.resource_types import Document, Resource
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.operator import OperatorManifest
from numakube.testing import until
from numakube.topology.nrt_names import EXACT_ANNOTATION
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

pytestmark = pytest.mark.timeout(240)

NAMESPACE = "numaresources"
IMAGE = "registry.example/numakube:test"


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of three workers that asks for rights, with an operator in it."""
    plans = uniform_plans(3, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    async with sites(SiteOptions(plans=plans, exporters=False, rbac=True)) as site:
        await remove_definition(site.client)
        for name in ("node-0", "node-1"):
            await label(site.client, name, "node-role.kubernetes.io/worker")
        await install_operator(site.client)
        yield site


async def install_operator(client: Client) -> None:
    """Create the operator and its kinds; returns when such objects can be written."""
    for document in OperatorManifest(namespace=NAMESPACE, image=IMAGE).objects():
        await create(client, document)
    await kinds_served(client)


async def kinds_served(client: Client) -> None:
    """Wait until both kinds are served, which follows their definitions after a while."""

    async def served() -> bool:
        await client.list(OPERATORS)
        await client.list(SCHEDULERS)
        return True

    await until(served)


async def remove_definition(client: Client) -> None:
    """Remove the kinds of topologies, so that a program that needs them has to bring them along."""
    for name in DEFINITIONS:
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, name)

    async def gone() -> bool:
        found = await client.list(CUSTOM_RESOURCE_DEFINITIONS)
        return not {item["metadata"]["name"] for item in found.items}.intersection(DEFINITIONS)

    await until(gone)


async def label(client: Client, node: str, key: str, value: str | None = "") -> None:
    """Give a node a label, or take it away."""
    await client.patch(NODES, node, merge_patch({"metadata": {"labels": {key: value}}}))


async def create(client: Client, document: Document) -> None:
    """Create an object of any kind that we deploy."""
    namespace = document["metadata"].get("namespace", "")
    await client.create(resource_of(document), document, namespace=namespace)


def conditions(document: Document) -> dict[str, str]:
    """Return the status of each condition."""
    found = document.get("status", {}).get("conditions", [])
    return {entry["type"]: entry["status"] for entry in found}


def message_of(document: Document, type_: str) -> str:
    """Return what a condition says."""
    found = document.get("status", {}).get("conditions", [])
    return next((entry["message"] for entry in found if entry["type"] == type_), "")


async def in_state(client: Client, resource: Resource[Any], state: str) -> Document:
    """Wait until the user's object of a kind is in a state, and return it."""
    name = resource.plural.removesuffix("s")
    return await until(
        lambda: client.get(resource.raw, name),
        lambda found: conditions(found).get(state) == "True",
    )


def wanted_exporters(**group: Any) -> Document:
    """Return an object that asks for exporters on one group of nodes."""
    return {
        "apiVersion": "nodetopology.openshift.io/v1",
        "kind": "NUMAResourcesOperator",
        "metadata": {"name": "numaresourcesoperator"},
        "spec": {"nodeGroups": [group]},
    }


def wanted_scheduler(**spec: Any) -> Document:
    """Return an object that asks for a scheduler."""
    return {
        "apiVersion": "nodetopology.openshift.io/v1",
        "kind": "NUMAResourcesScheduler",
        "metadata": {"name": "numaresourcesscheduler"},
        "spec": {"imageSpec": IMAGE, "schedulerName": "numa", **spec},
    }


def aligned_pod(name: str) -> Document:
    """Return a pod that needs six CPUs of one NUMA node."""
    amounts = {"cpu": "6", "memory": "1Gi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            "schedulerName": "numa",
            "containers": [
                {
                    "name": "main",
                    "image": "registry.example/app",
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        },
    }


async def test_two_objects_become_exporters_and_a_scheduler_that_place_pods(site: Site) -> None:
    """Each with no more than its own rights; and deleting them leaves nothing behind."""
    client = site.client
    await client.create(OPERATORS.raw, wanted_exporters(poolName="worker"))
    await client.create(SCHEDULERS.raw, wanted_scheduler())
    exporters = await in_state(client, OPERATORS, "Available")
    scheduler = await in_state(client, SCHEDULERS, "Available")
    pool = {"namespace": NAMESPACE, "name": "numaresourcesoperator-worker"}
    assert exporters["status"]["daemonsets"] == [pool]
    (group,) = exporters["status"]["nodeGroups"]
    assert (group["selector"], group["daemonsets"]) == ("worker", pool)
    assert group["config"]["podsFingerprinting"] == "EnabledExclusiveResources"
    assert scheduler["status"]["schedulerName"] == "numa"
    topologies = await client.list(NODE_RESOURCE_TOPOLOGIES)
    assert {topology.metadata.name for topology in topologies.items} == {"node-0", "node-1"}

    for name in ("a", "b", "c"):
        await client.create(PODS.raw, aligned_pod(name), namespace="default")

    async def running() -> bool:
        found = await client.list(PODS, namespace="default")
        return [pod.status and pod.status.phase for pod in found.items] == ["Running"] * 3

    await until(running)

    await client.delete(OPERATORS, "numaresourcesoperator")
    await client.delete(SCHEDULERS, "numaresourcesscheduler")

    async def gone() -> bool:
        sets = await client.list(DAEMON_SETS, namespace=NAMESPACE)
        accounts = await client.list(SERVICE_ACCOUNTS, namespace=NAMESPACE)
        roles = await client.list(CLUSTER_ROLES)
        names = {account["metadata"]["name"] for account in (*accounts.items, *roles.items)}
        return not sets.items and not names & {"rte", "secondary-scheduler"}

    await until(gone)

    async def without_exact_data() -> bool:
        reports = await client.list(NODE_RESOURCE_TOPOLOGIES)
        return len(reports.items) == 2 and not any(
            EXACT_ANNOTATION in report.metadata.annotations for report in reports.items
        )

    await until(without_exact_data)


async def test_what_somebody_changes_is_set_right_and_what_is_deleted_returns(
    site: Site,
) -> None:
    """Unless the user asked to leave it alone."""
    client = site.client
    await client.create(OPERATORS.raw, wanted_exporters(nodeSelector={"matchLabels": {}}))
    found = await in_state(client, OPERATORS, "Available")
    name = found["status"]["daemonsets"][0]["name"]
    assert len((await client.list(NODE_RESOURCE_TOPOLOGIES)).items) == 3

    async def image() -> str:
        live = await client.get(DAEMON_SETS, name, namespace=NAMESPACE)
        return str(live["spec"]["template"]["spec"]["containers"][0]["image"])

    tampered = [{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "x"}]
    await client.patch(DAEMON_SETS, name, json_patch(tampered), namespace=NAMESPACE)

    async def repaired() -> bool:
        return await image() == IMAGE

    await until(repaired)
    await client.delete(SERVICE_ACCOUNTS, "rte", namespace=NAMESPACE)
    await client.delete(CLUSTER_ROLES, "rte")

    async def back() -> bool:
        await client.get(SERVICE_ACCOUNTS, "rte", namespace=NAMESPACE)
        await client.get(CLUSTER_ROLES, "rte")
        return True

    await until(back)
    pause = {"config.numa-operator.openshift.io/pause-reconciliation": "enabled"}
    paused = await client.patch(
        OPERATORS.raw, "numaresourcesoperator", merge_patch({"metadata": {"annotations": pause}})
    )
    assert paused["metadata"]["annotations"] == pause
    # What becomes of the other object shows that the operator has passed by since.
    await degraded_for(client, 7, "greater than the number of the nodes, which is 3")
    await client.patch(DAEMON_SETS, name, json_patch(tampered), namespace=NAMESPACE)
    await degraded_for(client, -1, "replicas must not be negative")
    assert await image() == "x"


async def degraded_for(client: Client, replicas: int, why: str) -> None:
    """Ask for so many schedulers, and wait until the operator has said what is wrong with that."""
    await client.apply(SCHEDULERS.raw, wanted_scheduler(replicas=replicas), field_manager="test")
    await until(
        lambda: in_state(client, SCHEDULERS, "Degraded"),
        lambda found: why in message_of(found, "Degraded"),
    )


async def test_fields_of_others_stay_and_ours_cannot_be_taken_over_by_accident(site: Site) -> None:
    """A user who applies another image learns whose it is; one who insists sees it set back."""
    client = site.client
    await client.create(OPERATORS.raw, wanted_exporters(poolName="worker"))
    found = await in_state(client, OPERATORS, "Available")
    name = found["status"]["daemonsets"][0]["name"]
    theirs = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "annotations": {"example.com/team": "blue"}},
        "spec": {"minReadySeconds": 1, "revisionHistoryLimit": 3},
    }
    place: Any = {"namespace": NAMESPACE, "field_manager": "somebody"}
    await client.apply(DAEMON_SETS, theirs, **place)
    live = await client.get(DAEMON_SETS, name, namespace=NAMESPACE)
    container = {**live["spec"]["template"]["spec"]["containers"][0], "image": "x"}
    greedy = {**theirs, "spec": {"template": {"spec": {"containers": [container]}}}}
    with pytest.raises(Conflict, match='conflict with "numakube-operator"'):
        await client.apply(DAEMON_SETS, greedy, **place)
    taken = await client.apply(DAEMON_SETS, greedy, force=True, **place)
    assert taken["metadata"]["generation"] > live["metadata"]["generation"]

    async def ours_again() -> Document | None:
        live = await client.get(DAEMON_SETS, name, namespace=NAMESPACE)
        image = live["spec"]["template"]["spec"]["containers"][0]["image"]
        return live if image == IMAGE else None

    live = await until(ours_again)
    assert live["metadata"]["annotations"]["example.com/team"] == "blue"
    managers = {field["manager"] for field in live["metadata"]["managedFields"]}
    assert {"numakube-operator", "somebody"} <= managers


async def test_a_new_configuration_makes_new_exporters_and_mistakes_are_told(
    site: Site,
) -> None:
    """And the group that was removed takes its DaemonSet along."""
    client = site.client
    await client.create(OPERATORS.raw, wanted_exporters(poolName="worker"))
    await in_state(client, OPERATORS, "Available")
    both = {
        "podExcludes": [{"namespace": "ci", "name": "job-*"}],
        "nodeGroups": [
            {"poolName": "worker", "config": {"infoRefreshMode": "Events"}},
            {"nodeSelector": {"matchLabels": {"kubernetes.io/hostname": "node-2"}}},
        ],
    }
    await client.patch(OPERATORS.raw, "numaresourcesoperator", merge_patch({"spec": both}))

    async def two() -> Document | None:
        found = await in_state(client, OPERATORS, "Available")
        return found if len(found["status"]["daemonsets"]) == 2 else None

    found = await until(two)
    worker = await client.get(DAEMON_SETS, "numaresourcesoperator-worker", namespace=NAMESPACE)
    template = worker["spec"]["template"]
    arguments = template["spec"]["containers"][0]["args"]
    assert "--sleep-interval=0s" in arguments
    assert "--notify-file=/host-run-rte/notify" in arguments
    assert template["metadata"]["annotations"]["configmap.hash"].startswith("SHA256:")
    config = await client.get(CONFIG_MAPS, "numaresourcesoperator-worker", namespace=NAMESPACE)
    assert "namePattern: job-*" in config["data"]["config.yaml"]

    overlap = {"nodeGroups": [{"poolName": "worker"}, {"poolName": "worker"}]}
    await client.patch(OPERATORS.raw, "numaresourcesoperator", merge_patch({"spec": overlap}))
    wrong = await in_state(client, OPERATORS, "Degraded")
    assert message_of(wrong, "Degraded") == 'the pool name "worker" has duplicates'
    assert len((await client.list(DAEMON_SETS, namespace=NAMESPACE)).items) == 2

    one = {"nodeGroups": [{"poolName": "worker"}]}
    await client.patch(OPERATORS.raw, "numaresourcesoperator", merge_patch({"spec": one}))

    async def single() -> bool:
        sets = await client.list(DAEMON_SETS, namespace=NAMESPACE)
        return [each["metadata"]["name"] for each in sets.items] == ["numaresourcesoperator-worker"]

    await until(single)
    assert found["status"]["nodeGroups"][1]["selector"].startswith("node-2-")
