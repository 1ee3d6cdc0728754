"""Removing takes along nothing that others have made, or that other components of ours use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
from tests.apps.deployer.test_apply_and_remove import agent
from tests.apps.operator.test_on_the_lab import remove_definition

from numakube.apps.deployer.apply_and_remove import Deed, DeployEngine, DeployStep
from numakube.apps.deployer.still_used import StillUsed, contents
from numakube.kube.catalog import (
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    DEPLOYMENTS,
    LEASES,
    NAMESPACES,
    NODE_RESOURCE_TOPOLOGIES,
    ROLES,
    SERVICE_ACCOUNTS,
    resource_of,
)
from numakube.kube.client import Client
from numakube.kube.connect import connect
from numakube.kube.resource_types import Resource
from numakube.kube.scripted_server import ScriptedServer
from numakube.manifests.components import Choices, objects_of
from numakube.testing import until
from numakube_lab.testing import SiteOptions, lab_site

CHOICES = Choices(image="registry.example/numakube:1")
DEFINITION = "customresourcedefinition/noderesourcetopologies.topology.node.k8s.io"


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """A cluster without nodes, and without topologies: nothing that is deployed comes to run."""
    async with lab_site(SiteOptions(exporters=False)) as site:
        await remove_definition(site.client)
        yield site.client


async def deploy(client: Client, *components: str) -> None:
    """Deploy *components*."""
    await DeployEngine(client=client, tell=lambda _: None).deploy(objects_of(components, CHOICES))


async def remove(client: Client, *components: str) -> dict[str, DeployStep]:
    """Remove *components*; return the steps by the name of the object."""
    steps: list[DeployStep] = []
    engine = DeployEngine(client=client, tell=steps.append)
    used = StillUsed.besides(components, CHOICES, client)
    going = await engine.remove(objects_of(components, CHOICES), used)
    assert await engine.wait_gone(going, 60, lambda _: None) == ""
    return {step.name: step for step in steps}


async def create(client: Client, kind: Resource[Any], name: str, **fields: Any) -> None:
    """Create an object in our namespace."""
    document = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
    await client.create(kind, {**document, **fields}, namespace="numakube")


async def names(client: Client, kind: Resource[Any]) -> set[str]:
    """Return the names of the objects in our namespace."""
    found = await client.list(kind.raw, namespace="numakube")
    return {item["metadata"]["name"] for item in found.items}


async def test_removing_one_component_leaves_the_others_and_the_users_objects(
    client: Client,
) -> None:
    """The namespace stays, and the output says when it goes."""
    await deploy(client, "api", "exporter", "scheduler")
    await create(client, CONFIG_MAPS, "mine")
    steps = await remove(client, "exporter")
    kept = steps["namespace/numakube"]
    assert str(kept).startswith("namespace/numakube kept: `numakube remove` without a component")
    assert await names(client, DEPLOYMENTS) == {"numakube-scheduler"}
    assert {"mine", "numakube-scheduler-config"} <= await names(client, CONFIG_MAPS)
    assert "numakube-exporter" not in await names(client, SERVICE_ACCOUNTS)


async def test_the_namespace_goes_with_everything_unless_something_else_is_in_it(
    client: Client,
) -> None:
    """Of any kind that the cluster serves; what we did not deploy is named."""
    await deploy(client, "api", "exporter", "scheduler", "webhook")
    await create(client, ROLES, "mine", rules=[])
    steps = await remove(client, "api", "exporter", "scheduler")
    why = steps["namespace/numakube"].why
    assert "deployment/numakube-webhook" in why
    assert "numakube" in {item["metadata"]["name"] for item in await _all(client, NAMESPACES)}

    steps = await remove(client, "api", "exporter", "scheduler", "webhook")
    assert str(steps["namespace/numakube"]) == "namespace/numakube kept: it has role/mine"
    await client.delete(ROLES, "mine", namespace="numakube")
    steps = await remove(client, "api", "exporter", "scheduler", "webhook")
    assert steps["namespace/numakube"].deed is Deed.DELETED


async def test_the_lease_of_a_scheduler_that_stays_does_not_go_with_the_operator(
    client: Client,
) -> None:
    """The operator may write it because it gives that right: the scheduler's own role has it."""
    await deploy(client, "operator")
    lease = {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["update"]}
    rules = [{**lease, "resourceNames": ["numa-scheduler-leader"]}]
    await create(client, ROLES, "topology-aware-scheduler-leader-elect", rules=rules)
    for name in ("numa-scheduler-leader", "0e2a6bd3.openshift-kni.io"):
        await create(client, LEASES.raw, name)
    await remove(client, "operator")
    assert await names(client, LEASES) == {"numa-scheduler-leader"}


async def test_the_lease_of_a_component_goes_with_it(client: Client) -> None:
    """Under the name that was chosen, though it was created by the program; no other lease does."""
    await deploy(client, "scheduler")
    spec = {"holderIdentity": "x"}
    await create(client, LEASES.raw, "numakube-scheduler", spec=spec)
    await create(client, LEASES.raw, "theirs", spec=spec)
    steps = await remove(client, "scheduler")
    assert steps["lease/numakube-scheduler in numakube"].deed is Deed.DELETED
    assert await names(client, LEASES) == {"theirs"}


async def test_what_two_components_bring_along_stays_until_the_second_goes(client: Client) -> None:
    """The rights to look at topologies, and the share of the API server's time."""
    await deploy(client, "api", "operator")
    steps = await remove(client, "operator")
    assert str(steps["clusterrole/numakube-view"]).endswith("kept: used by component api")
    assert steps["flowschema/numakube-leases-numakube"].deed is Deed.USED
    steps = await remove(client, "api")
    assert steps["clusterrole/numakube-view"].deed is Deed.DELETED


async def test_a_kind_stays_while_others_use_it(client: Client) -> None:
    """Programs of ours or others that read it, and objects that somebody else wrote."""
    await deploy(client, "api", "extender")
    steps = await remove(client, "api")
    assert steps[DEFINITION].why == "used by component extender"
    await remove(client, "extender")

    rte = agent("DaemonSet", "rte", "quay.io/x/resource-topology-exporter:v1")
    await client.create(resource_of(rte), rte, namespace="default")
    steps = await remove(client, "api")
    assert steps[DEFINITION].why.startswith("used by daemonset/rte in default")
    await client.delete(resource_of(rte), "rte", namespace="default")

    theirs = {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "node-0"},
        "zones": [],
    }
    await client.create(NODE_RESOURCE_TOPOLOGIES.raw, theirs)
    steps = await remove(client, "api")
    assert steps[DEFINITION].why == "it has noderesourcetopology/node-0 of another exporter"
    await client.delete(NODE_RESOURCE_TOPOLOGIES, "node-0")
    assert (await remove(client, "api"))[DEFINITION].deed is Deed.DELETED


async def test_an_operators_kind_stays_while_there_is_an_object_of_it(client: Client) -> None:
    """Users write those, and everything that the operator made would vanish with them."""
    await deploy(client, "operator")
    kind = "numaresourcesschedulers.nodetopology.openshift.io"
    served = Resource(
        group="nodetopology.openshift.io",
        version="v1",
        plural="numaresourcesschedulers",
        kind="NUMAResourcesScheduler",
        namespaced=False,
        object_type=dict[str, Any],
    )
    mine = {"metadata": {"name": "numaresourcesscheduler"}, "spec": {"imageSpec": CHOICES.image}}
    header = {"apiVersion": served.api_version, "kind": served.kind}
    await until(lambda: client.create(served, {**header, **mine}))
    steps = await remove(client, "operator")
    kept = steps[f"customresourcedefinition/{kind}"]
    assert kept.why == "it has numaresourcesscheduler/numaresourcesscheduler"
    assert kind in {
        item["metadata"]["name"] for item in await _all(client, CUSTOM_RESOURCE_DEFINITIONS)
    }


async def test_a_namespace_with_what_every_namespace_has_is_empty(client: Client) -> None:
    """And with what goes by itself when its owner does."""
    header = {"apiVersion": "v1", "kind": "Namespace"}
    await client.create(NAMESPACES, {**header, "metadata": {"name": "numakube"}})
    await until(lambda: names(client, SERVICE_ACCOUNTS), lambda found: "default" in found)
    assert await _contents(client) == []

    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "u"}
    document = {"apiVersion": "v1", "kind": "ConfigMap"}
    owned = {"name": "owned", "ownerReferences": [owner]}
    await client.create(CONFIG_MAPS, {**document, "metadata": owned}, namespace="numakube")
    assert await _contents(client) == []
    await create(client, CONFIG_MAPS, "free")
    assert await _contents(client) == ["configmap/free"]


async def test_what_cannot_be_looked_at_counts_as_something() -> None:
    """Nobody knows whether a namespace is empty for one who may not list its Secrets."""
    secrets = {"name": "secrets", "kind": "Secret", "namespaced": True}
    async with ScriptedServer() as server, connect(server.config) as client:
        server.reply({"groups": [{"versions": [{"groupVersion": "broken.example/v1"}]}]})
        server.reply({"resources": [{**secrets, "verbs": ["list", "delete"]}]})
        server.refuse(403, "Forbidden")
        server.refuse(403, "Forbidden")
        left = await _contents(client)
    assert [one.partition(" (")[0] for one in left] == [
        "broken.example/v1 cannot be looked at",
        "secrets cannot be listed",
    ]


async def _contents(client: Client) -> list[str]:
    return await contents(client, "numakube", but=lambda _kind, _name: False)


async def _all(client: Client, kind: Resource[dict[str, Any]]) -> Iterable[dict[str, Any]]:
    return (await client.list(kind)).items
