"""Deploying onto a cluster and removing again: real components come up, nothing stays behind."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.apps.operator.test_on_the_lab import remove_definition

from numakube.apps.deployer.apply_and_remove import Deed, DeployEngine, DeployStep
from numakube.apps.deployer.cluster_detection import (
    control_plane_nodes,
    installations,
    platform_of,
    put_to_rest,
    wake_all,
)
from numakube.apps.deployer.still_used import StillUsed
from numakube.errors import ConfigError, Conflict
from numakube.kube.catalog import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    PODS,
    resource_of,
)
from numakube.kube.client import Client, merge_patch
from numakube.kube.connection.transport import Request
from numakube.kube.resource_types import Document, Resource
from numakube.kubelet.machines.shape_text import from_shape
from numakube.manifests.components import DEFAULT, Choices, objects_of
from numakube.testing import until
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of two nodes that asks for rights, and knows no topologies."""
    plans = uniform_plans(2, from_shape("2 sockets, 4 cores, smt 2, 16Gi"), "", "1.35")
    async with sites(SiteOptions(plans=plans, exporters=False, rbac=True)) as site:
        await remove_definition(site.client)
        yield site


class Journal:
    """What was done."""

    def __init__(self) -> None:
        self.steps: list[DeployStep] = []

    def __call__(self, step: DeployStep) -> None:
        """Note a step."""
        self.steps.append(step)

    def deeds(self) -> set[Deed]:
        """Return everything that was done, and forget it."""
        done = {step.deed for step in self.steps}
        self.steps.clear()
        return done


async def names(client: Client) -> set[str]:
    """Return what a cluster has of the kinds that we deploy besides objects in namespaces."""
    found: list[Any] = []
    for resource in (NAMESPACES, CLUSTER_ROLES, CUSTOM_RESOURCE_DEFINITIONS):
        found += (await client.list(resource)).items
    return {item["metadata"]["name"] for item in found}


async def test_what_is_deployed_runs_and_what_is_removed_is_gone(site: Site) -> None:
    """Deploying twice changes nothing, nor a dry removal; a real one leaves what was before."""
    client, journal = site.client, Journal()
    engine = DeployEngine(client=client, tell=journal)
    before = await names(client)
    documents = objects_of(DEFAULT, Choices(image="registry.example/numakube:1"))
    await engine.deploy(documents)
    assert journal.deeds() == {Deed.CREATED}
    assert await engine.wait_ready(documents, 120, lambda _: None) == ""
    topologies = await client.list(NODE_RESOURCE_TOPOLOGIES)
    assert {topology.metadata.name for topology in topologies.items} == {"node-0", "node-1"}
    selected = await client.list(PODS, labels="app.kubernetes.io/component=scheduler")
    assert {pod.spec.node_name for pod in selected.items} == {"node-0", "node-1"}
    await engine.deploy(documents)
    assert journal.deeds() == {Deed.UNCHANGED}
    used = StillUsed.besides(DEFAULT, Choices(), client)
    await DeployEngine(client=client, tell=journal, dry_run=True).remove(documents, used)
    assert journal.deeds() == {Deed.DELETED}
    await engine.deploy(documents)
    assert journal.deeds() == {Deed.UNCHANGED}
    going = await engine.remove(documents, used)
    assert await engine.wait_gone(going, 120, lambda _: None) == ""
    assert await names(client) == before


async def test_a_dry_run_changes_nothing(site: Site) -> None:
    """Though the server checks what it can."""
    client, journal = site.client, Journal()
    before = await names(client)
    engine = DeployEngine(client=client, tell=journal, dry_run=True)
    await engine.deploy(objects_of(DEFAULT, Choices()))
    assert journal.deeds() == {Deed.CREATED}
    assert await names(client) == before


class Hurried:
    """A client that others are faster than: they write the status of what was just read."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.writes = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def get(self, resource: Resource[Any], name: str, *, namespace: str = "") -> Any:
        """Return an object that is no longer the newest."""
        found = await self._client.get(resource, name, namespace=namespace)
        if resource.plural == DAEMON_SETS.plural:
            self.writes += 1
            status = merge_patch({"status": {"collisionCount": self.writes}})
            await self._client.patch(
                resource, name, status, namespace=namespace, subresource="status"
            )
        return found


async def test_what_others_write_meanwhile_is_no_change_of_ours(site: Site) -> None:
    """Controllers write statuses at any time, which gives an object another version."""
    client, journal = Hurried(site.client), Journal()
    engine = DeployEngine(client=cast("Client", client), tell=journal)
    image = "registry.example/numakube:1"
    await engine.deploy(objects_of(["exporter"], Choices(image=image)))
    assert journal.deeds() == {Deed.CREATED}
    await engine.deploy(objects_of(["exporter"], Choices(image=image)))
    assert client.writes
    assert journal.deeds() == {Deed.UNCHANGED}
    await engine.deploy(objects_of(["exporter"], Choices(image=f"{image}0")))
    assert journal.deeds() == {Deed.UNCHANGED, Deed.CONFIGURED}


async def test_what_was_there_before_stays(site: Site) -> None:
    """A namespace and the kind of topologies; anything else of our names is refused."""
    client, journal = site.client, Journal()
    documents = objects_of(DEFAULT, Choices(image="registry.example/numakube:1"))
    theirs = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "numakube"}}
    await client.create(NAMESPACES, theirs)
    engine = DeployEngine(client=client, tell=journal)
    await engine.deploy(documents)
    assert DeployStep("namespace/numakube", Deed.KEPT) in journal.steps
    going = await engine.remove(documents, StillUsed.besides(DEFAULT, Choices(), client))
    assert DeployStep("namespace/numakube", Deed.FOREIGN) in journal.steps
    assert await engine.wait_gone(going, 120, lambda _: None) == ""
    assert "numakube" in await names(client)

    role = next(document for document in documents if document["kind"] == "ClusterRole")
    await _create_anew(client, role)
    with pytest.raises(ConfigError, match=r"clusterrole/numakube-\w+ exists and was not"):
        await engine.deploy(documents)
    await DeployEngine(client=client, tell=journal, adopt=True).deploy(documents)
    live = await client.get(CLUSTER_ROLES, role["metadata"]["name"])
    assert live["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "numakube-deployer"
    assert await engine.wait_ready(documents, 120, lambda _: None) == ""


async def _create_anew(client: Client, document: Document) -> None:
    """Create an object whose predecessor may still be on its way out."""
    await until(lambda: client.create(resource_of(document), document), despite=(Conflict,))


def agent(kind: str, name: str, image: str, *args: str, volumes: Any = ()) -> Document:
    """Return a DaemonSet or Deployment of others."""
    labels = {"app": name}
    replicas = {"replicas": 2} if kind == "Deployment" else {}
    container = {"name": "main", "image": image, "args": list(args)}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {
            **replicas,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [container], "volumes": list(volumes)},
            },
        },
    }


async def test_installations_by_others_are_found_put_to_rest_and_woken(site: Site) -> None:
    """With the names under which pods ask for their scheduler."""
    client = site.client
    configuration = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        "profiles:\n- schedulerName: topology-aware-scheduler\n"
    )
    await client.create(
        CONFIG_MAPS,
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "scheduler-config", "namespace": "default"},
            "data": {"scheduler-config.yaml": configuration},
        },
        namespace="default",
    )
    others = (
        agent("DaemonSet", "rte", "quay.io/x/resource-topology-exporter:v1"),
        agent("DaemonSet", "nfd", "x/node-feature-discovery:v1", "nfd-topology-updater"),
        agent("DaemonSet", "nfd-worker", "x/node-feature-discovery:v1", "nfd-worker"),
        agent(
            "Deployment",
            "tas",
            "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.30",
            volumes=[{"name": "c", "configMap": {"name": "scheduler-config"}}],
        ),
        agent("Deployment", "ctrl", "registry.k8s.io/scheduler-plugins/controller:v0.30"),
        agent("Deployment", "nro", "quay.io/x/numaresources-operator:4"),
    )
    for other in others:
        await client.create(resource_of(other), other, namespace="default")
    found = await installations(client)
    assert {(one.role, one.name) for one in found} == {
        ("exporter", "rte"),
        ("exporter", "nfd"),
        ("scheduler", "tas"),
        ("operator", "nro"),
    }
    scheduler = next(one for one in found if one.role == "scheduler")
    assert scheduler.scheduler_names == ("topology-aware-scheduler",)
    for installation in found:
        await put_to_rest(client, installation)
        await put_to_rest(client, installation)
    deployment = await client.get(DEPLOYMENTS, "tas", namespace="default")
    daemon_set = await client.get(DAEMON_SETS, "rte", namespace="default")
    assert deployment["spec"]["replicas"] == 0
    assert daemon_set["spec"]["template"]["spec"]["nodeSelector"]
    assert len(await wake_all(client)) == 4
    deployment = await client.get(DEPLOYMENTS, "tas", namespace="default")
    daemon_set = await client.get(DAEMON_SETS, "rte", namespace="default")
    assert deployment["spec"]["replicas"] == 2
    assert not daemon_set["spec"]["template"]["spec"].get("nodeSelector")
    assert await wake_all(client) == []


async def test_the_platform_is_found_out(site: Site) -> None:
    """The test's cluster is plain Kubernetes without a control plane of its own."""
    platform = await platform_of(site.client)
    assert platform.kind == "Kubernetes"
    answer = await site.client.request(Request(method="GET", path="/version"))
    assert platform.version == json.loads(answer.body)["gitVersion"]
    assert await control_plane_nodes(site.client) == 0
