"""The operator's scenarios: configuration, removal of the scheduler, pauses, by their ids."""

from __future__ import annotations

import contextlib

import pytest
from tests.apps.operator.test_on_the_lab import (
    IMAGE,
    NAMESPACE,
    aligned_pod,
    conditions,
    in_state,
    wanted_scheduler,
)
from tests.field.operated import (
    ALL,
    EXPORTERS,
    SCHEDULER,
    change,
    configure,
    daemon_set,
    settled,
    until_on,
)

from numakube.api.pod import Pod
from numakube.apps.operator.controller import OPERATORS, SCHEDULERS
from numakube.errors import ServiceUnavailable
from numakube.kube.catalog import (
    CONFIG_MAPS,
    DAEMON_SETS,
    DEPLOYMENTS,
    NODE_RESOURCE_TOPOLOGIES,
    NODES,
    PODS,
)
from numakube.kube.client import Client, merge_patch
from numakube.kube.connection.transport import Request
from numakube.kube.resource_types import Document
from numakube.testing import refusal_of, until
from numakube.topology.topology_view import NodeTopology, view_of

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]
OTHER_IMAGE = "registry.example/numakube:other"


@pytest.fixture
def client(operated: Client) -> Client:
    """A cluster of three nodes with an operator, exporters and a scheduler."""
    return operated


async def running(client: Client, names: set[str]) -> bool:
    """Tell whether these pods run."""
    found = await client.list(PODS, namespace="default")
    return names <= {
        pod.metadata.name for pod in found.items if pod.status and pod.status.phase == "Running"
    }


async def free_cpus(client: Client) -> dict[str, list[int]]:
    """Return how many CPUs the zones of every node have left."""
    found: dict[str, list[int]] = {}
    for topology in (await client.list(NODE_RESOURCE_TOPOLOGIES)).items:
        view = view_of(topology)
        assert isinstance(view, NodeTopology)
        found[topology.metadata.name] = [zone.available["cpu"] // 1000 for zone in view.zones]
    return found


def small_pod(name: str, resources: Document) -> Document:
    """Return a pod with one container."""
    document = aligned_pod(name)
    document["spec"]["containers"][0]["resources"] = resources
    return document


async def scheduler_pods(client: Client) -> list[Pod]:
    """Return the pods of the scheduler that are there to stay."""
    found = await client.list(PODS, namespace=NAMESPACE, labels="app=secondary-scheduler")
    return [pod for pod in found.items if pod.metadata.deletion_timestamp is None]


async def schedulers_run(client: Client, count: int) -> list[Pod]:
    """Wait until there are so many pods of the scheduler, and all of them run."""

    async def ask() -> bool:
        pods = await scheduler_pods(client)
        running = [pod for pod in pods if pod.status and pod.status.phase == "Running"]
        return len(running) == len(pods) == count

    await until(ask)
    return await scheduler_pods(client)


async def deployment(client: Client) -> Document:
    """Return the Deployment of the scheduler."""
    return await client.get(DEPLOYMENTS, "secondary-scheduler", namespace=NAMESPACE)


async def test_84315_nodes_are_reported_with_the_kubelets_policy_and_their_pods(
    client: Client,
) -> None:
    """Should have the desired topology manager configuration, and the pod set fingerprint."""
    nodes = (await client.list(NODE_RESOURCE_TOPOLOGIES)).items
    assert {node.metadata.name for node in nodes} == set(ALL)
    for node in nodes:
        attributes = {each.name: each.value for each in node.attributes}
        assert attributes["topologyManagerPolicy"] == "single-numa-node"
        assert attributes["topologyManagerScope"] == "container"
        assert attributes["nodeTopologyPodsFingerprint"].startswith("pfp0")


async def test_48598_the_scheduler_is_available_with_healthy_conditions(client: Client) -> None:
    """And each of its replicas is on another node, as it asks for."""
    found = await settled(client, SCHEDULER)
    healthy = {"Available": "True", "Upgradeable": "True"}
    ill = {"Progressing": "False", "Degraded": "False"}
    assert conditions(found).items() >= (healthy | ill).items()
    document = await deployment(client)
    assert document["status"]["readyReplicas"] == document["spec"]["replicas"] == len(ALL)
    template = document["spec"]["template"]
    (spread,) = template["spec"]["topologySpreadConstraints"]
    assert spread == {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "DoNotSchedule",
        "matchLabelKeys": ["pod-template-hash"],
        "labelSelector": document["spec"]["selector"],
    }
    pods = await schedulers_run(client, len(ALL))
    assert {pod.spec.node_name for pod in pods} == set(ALL)


async def metrics_of(client: Client, prefix: str, port: int) -> str:
    """Return what a pod whose name begins with *prefix* tells who counts, once it serves that."""
    pods = (await client.list(PODS, namespace=NAMESPACE)).items
    name = next(pod.metadata.name for pod in pods if pod.metadata.name.startswith(prefix))
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}:{port}/proxy/metrics"

    async def ask() -> str:
        with contextlib.suppress(ServiceUnavailable):
            return (await client.request(Request(method="GET", path=path))).body.decode()
        return ""

    text: str = await until(ask)
    return text


async def test_85769_the_operator_tells_how_much_there_was_to_do(client: Client) -> None:
    """Of both of its controllers, by names that are known from others."""
    text = await metrics_of(client, "numaresources-controller-manager", 8081)
    for name in ("numaresourcesoperator", "numaresourcesscheduler"):
        assert f'workqueue_adds_total{{controller="{name}",name="{name}"}}' in text


async def test_85770_exporters_tell_what_they_write_and_when_they_wake(client: Client) -> None:
    """Without a certificate, as the cluster has none for them."""
    text = await metrics_of(client, EXPORTERS, 2112)
    assert "rte_noderesourcetopology_writes_total" in text
    assert "rte_wakeup_delay_milliseconds" in text


async def test_every_container_ends_with_its_last_words(client: Client) -> None:
    """Should verify the terminationMessagePolicy, of the operator and of what it runs."""
    pods = (await client.list(PODS.raw, namespace=NAMESPACE)).items
    policies = {
        container["terminationMessagePolicy"]
        for pod in pods
        for container in pod["spec"]["containers"]
    }
    assert policies == {"FallbackToLogsOnError"}


async def test_85012_85013_47611_pods_run_while_nothing_is_reported(client: Client) -> None:
    """Whatever their quality of service; when exporters go on, what they take is reported."""
    old = await until_on(client, *ALL)
    await configure(client, infoRefreshPause="Enabled")

    async def are_new() -> bool:
        return not set((await until_on(client, *ALL)).values()) & set(old.values())

    await until(are_new)
    before = (await client.list(NODE_RESOURCE_TOPOLOGIES.raw)).items
    free = await free_cpus(client)
    asked = {
        "best-effort": {},
        "burstable": {"requests": {"memory": "256Mi"}},
        "guaranteed": {"limits": {"cpu": "4", "memory": "256Mi"}},
    }
    for name, resources in asked.items():
        await client.create(PODS.raw, small_pod(name, resources), namespace="default")
    await until(lambda: running(client, set(asked)))
    assert (await client.list(NODE_RESOURCE_TOPOLOGIES.raw)).items == before
    await configure(client)
    node = (await client.get(PODS, "guaranteed", namespace="default")).spec.node_name

    async def is_told() -> bool:
        now = await free_cpus(client)
        taken = {
            name: sorted(b - n for b, n in zip(free[name], now[name], strict=True)) for name in now
        }
        return taken == {name: [0, 4] if name == node else [0, 0] for name in ALL}

    await until(is_told)
    for name in asked:
        await client.delete(PODS, name, namespace="default", grace_seconds=0)
    await in_state(client, OPERATORS, "Available")


async def test_47593_49093_48069_without_a_scheduler_pods_wait_and_run_when_it_is_back(
    client: Client,
) -> None:
    """Those that ran go on running."""
    await client.create(PODS.raw, aligned_pod("before"), namespace="default")
    await until(lambda: running(client, {"before"}))
    await client.delete(SCHEDULERS, SCHEDULER)

    async def gone() -> bool:
        return not (await client.list(DEPLOYMENTS, labels="app=secondary-scheduler")).items

    await until(gone)
    await client.create(PODS.raw, aligned_pod("meanwhile"), namespace="default")
    await client.create(SCHEDULERS.raw, wanted_scheduler(schedulerName="other"))
    await in_state(client, SCHEDULERS, "Available")
    assert await running(client, {"before"})
    assert not await running(client, {"meanwhile"})
    await change(client, SCHEDULER, {"schedulerName": "numa"})
    await until(lambda: running(client, {"before", "meanwhile"}))


async def test_54916_and_cache_resync_changes_reach_the_scheduler(client: Client) -> None:
    """The status names what is in effect, and the pods are new ones."""
    before = await client.get(DEPLOYMENTS, "secondary-scheduler", namespace=NAMESPACE)
    await change(client, SCHEDULER, {"cacheResyncPeriod": "9s"})

    async def told() -> bool:
        found = await client.get(SCHEDULERS.raw, SCHEDULER)
        available = conditions(found)["Available"] == "True"
        return available and found["status"]["cacheResyncPeriod"] == "9s"

    await until(told)
    config = await client.get(CONFIG_MAPS, "topo-aware-scheduler-config", namespace=NAMESPACE)
    assert "cacheResyncPeriodSeconds: 9" in config["data"]["config.yaml"]
    after = await client.get(DEPLOYMENTS, "secondary-scheduler", namespace=NAMESPACE)
    assert after["metadata"]["generation"] > before["metadata"]["generation"]
    await change(client, SCHEDULER, {"cacheResyncPeriod": None})


async def test_replicas_are_as_many_as_asked_for_or_as_nodes(client: Client) -> None:
    """Should allow updating replicas to 0, to 1, and properly switch back to autodetection mode."""
    for replicas, expected in ((0, 0), (None, 3), (1, 1), (None, 3)):
        await change(client, SCHEDULER, {"replicas": replicas})
        await schedulers_run(client, expected)


async def test_as_many_replicas_as_found_out_change_nothing(client: Client) -> None:
    """Should keep deployment the same when explicit replicas count is the autodetected one."""
    await schedulers_run(client, len(ALL))
    before = await deployment(client)
    for replicas in (len(ALL), None):
        await change(client, SCHEDULER, {"replicas": replicas})
        await settled(client, SCHEDULER)
        after = await deployment(client)
        for field in ("uid", "generation"):
            assert after["metadata"][field] == before["metadata"][field]


async def test_a_scheduler_whose_host_is_closed_waits_for_it(client: Client) -> None:
    """Should keep the associated pod pending when deleted for balanced spread."""
    await settled(client, SCHEDULER)
    pods = await schedulers_run(client, len(ALL))
    host = pods[0].spec.node_name
    await client.patch(NODES, host, merge_patch({"spec": {"unschedulable": True}}))
    try:
        await client.delete(PODS, pods[0].metadata.name, namespace=NAMESPACE)
        known = {pod.metadata.name for pod in pods}

        async def refused() -> str:
            found = [pod for pod in await scheduler_pods(client) if pod.metadata.name not in known]
            return refusal_of(found[0]) if found else ""

        text = await until(refused)
        assert "2 node(s) didn't match pod topology spread constraints" in text
    finally:
        await client.patch(NODES, host, merge_patch({"spec": {"unschedulable": None}}))
    assert {pod.spec.node_name for pod in await schedulers_run(client, len(ALL))} == set(ALL)


async def test_another_image_of_the_scheduler_is_rolled_out(client: Client) -> None:
    """Should be able to handle plugin image change without remove/rename."""
    before = await settled(client, SCHEDULER)
    await change(client, SCHEDULER, {"imageSpec": OTHER_IMAGE})

    async def is_other() -> bool:
        pods = await schedulers_run(client, len(ALL))
        return {pod.spec.containers[0].image for pod in pods} == {OTHER_IMAGE}

    await until(is_other)
    after = await settled(client, SCHEDULER)
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    await change(client, SCHEDULER, {"imageSpec": IMAGE})
    await settled(client, SCHEDULER)


async def test_47587_another_image_of_the_exporters_is_rolled_out(client: Client) -> None:
    """Should restart RTE DaemonSet when image is updated."""
    await until_on(client, *ALL)
    before = await daemon_set(client)
    await change(client, EXPORTERS, {"imageSpec": OTHER_IMAGE})

    async def is_other() -> bool:
        found = await daemon_set(client)
        return bool(found["spec"]["template"]["spec"]["containers"][0]["image"] == OTHER_IMAGE)

    await until(is_other)
    await until_on(client, *ALL)
    after = await daemon_set(client)
    assert after["status"]["observedGeneration"] > before["status"]["observedGeneration"]
    await change(client, EXPORTERS, {"imageSpec": None})
    await settled(client, EXPORTERS)


async def test_owned_config_that_somebody_edits_is_set_back(client: Client) -> None:
    """Should react to owned objects changes: what was changed, and what was added."""
    name = "topo-aware-scheduler-config"
    await settled(client, SCHEDULER)
    before = await client.get(CONFIG_MAPS, name, namespace=NAMESPACE)
    wrong = merge_patch({"data": {"config.yaml": "nonsense", "more": "nonsense"}})
    await client.patch(CONFIG_MAPS, name, wrong, namespace=NAMESPACE)

    async def back() -> bool:
        found = await client.get(CONFIG_MAPS, name, namespace=NAMESPACE)
        return bool(found["data"] == before["data"])

    await until(back)


async def test_an_owned_deployment_that_somebody_edits_is_set_back(client: Client) -> None:
    """Should react to owned objects changes: another container and another host name."""
    await settled(client, SCHEDULER)
    before = (await deployment(client))["spec"]["template"]["spec"]
    more = {**before["containers"][0], "name": "more"}
    wrong = {"containers": [*before["containers"], more], "hostname": "other"}
    patch = merge_patch({"spec": {"template": {"spec": wrong}}})
    await client.patch(DEPLOYMENTS, "secondary-scheduler", patch, namespace=NAMESPACE)

    async def back() -> bool:
        return bool((await deployment(client))["spec"]["template"]["spec"] == before)

    await until(back)


async def test_47674_a_group_without_nodes_and_another_log_level_are_served(
    client: Client,
) -> None:
    """Should be able to modify the configurable values under the NUMAResourcesOperator CR."""
    labels = {"pool": "to-come"}
    groups = [{"nodeSelector": {"matchLabels": one}} for one in ({}, labels)]
    await change(client, EXPORTERS, {"nodeGroups": groups, "logLevel": "Trace"})
    found = await settled(client, EXPORTERS)

    async def told() -> list[Document] | None:
        sets = (await client.list(DAEMON_SETS, namespace=NAMESPACE)).items
        specs = [entry["spec"]["template"]["spec"] for entry in sets]
        verbose = all("--log-level=debug" in spec["containers"][0]["args"] for spec in specs)
        return specs if verbose and len(sets) == len(groups) else None

    specs = await until(told)
    assert len(found["status"]["daemonsets"]) == len(groups)
    assert labels in [spec.get("nodeSelector") for spec in specs]
    await change(client, EXPORTERS, {"nodeGroups": groups[:1], "logLevel": "Normal"})
    await until_on(client, *ALL)
    assert len((await settled(client, EXPORTERS))["status"]["daemonsets"]) == 1
