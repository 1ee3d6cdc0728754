"""The official Python client works with the lab unchanged.

It waits for each answer, so each test is a function that runs in a thread beside the server.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Awaitable, Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import yaml
from kubernetes import client, dynamic, watch

from kube_lab_server import ApiServer, User

# It leaves connections to the garbage collector.
pytestmark = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TOKEN = "official-client"
GROUP, VERSION, PLURAL = "topology.node.k8s.io", "v1alpha2", "noderesourcetopologies"

Run = Callable[[Callable[[client.ApiClient], None]], Awaitable[None]]


@pytest.fixture
async def run(tmp_path: Path) -> AsyncIterator[Run]:
    """Run a function with a client of a fresh server, as an administrator."""
    users = {TOKEN: User("admin", "u-admin", ("system:masters",))}
    async with ApiServer(users=users, rbac=True, tls=True) as server:
        assert server.authority is not None
        ca = tmp_path / "ca.crt"
        ca.write_bytes(server.authority.certificate)
        configuration = client.Configuration(
            host=server.url, api_key={"authorization": f"Bearer {TOKEN}"}, ssl_ca_cert=str(ca)
        )

        def with_client(story: Callable[[client.ApiClient], None]) -> None:
            with client.ApiClient(configuration) as connected:
                story(connected)
                connected.rest_client.pool_manager.clear()

        async def in_thread(story: Callable[[client.ApiClient], None]) -> None:
            await asyncio.to_thread(with_client, story)
            gc.collect()

        yield in_thread


def pod(name: str, **labels: str) -> dict[str, Any]:
    """A pod."""
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "c", "image": "img:1"}]},
    }


async def test_objects_are_created_listed_changed_and_deleted(run: Run) -> None:
    """With selectors, pages and patches."""

    def story(connected: client.ApiClient) -> None:
        core = client.CoreV1Api(connected)
        for name in ("a", "b", "c"):
            core.create_namespaced_pod("default", pod(name, app=name))
        listed = core.list_namespaced_pod("default", label_selector="app in (a,b)")
        assert [item.metadata.name for item in listed.items] == ["a", "b"]
        page = core.list_namespaced_pod("default", limit=2)
        rest = core.list_namespaced_pod("default", _continue=page.metadata._continue)
        assert len(page.items) + len(rest.items) == 3
        changed = core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"x": "y"}}})
        assert changed.metadata.labels == {"app": "a", "x": "y"}
        bound = client.V1Binding(
            metadata=client.V1ObjectMeta(name="a"), target=client.V1ObjectReference(name="n1")
        )
        core.create_namespaced_pod_binding("a", "default", bound, _preload_content=False)
        assert core.read_namespaced_pod("a", "default").spec.node_name == "n1"
        core.delete_namespaced_pod("a", "default", grace_period_seconds=0)
        core.delete_collection_namespaced_pod("default")
        assert core.list_pod_for_all_namespaces().items == []

    await run(story)


async def test_refusals_are_exceptions_with_the_status(run: Run) -> None:
    """Not found, conflict and invalid are told apart."""

    def story(connected: client.ApiClient) -> None:
        core = client.CoreV1Api(connected)
        with pytest.raises(client.ApiException) as refused:
            core.read_namespaced_pod("none", "default")
        assert (refused.value.status, refused.value.reason) == (404, "Not Found")
        made = core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
        core.replace_namespaced_config_map("a", "default", made)
        made.data = {"k": "v"}
        core.replace_namespaced_config_map("a", "default", made)
        made.data = {"k": "w"}
        with pytest.raises(client.ApiException) as refused:
            core.replace_namespaced_config_map("a", "default", made)
        assert refused.value.status == 409
        with pytest.raises(client.ApiException) as refused:
            core.create_namespaced_pod("default", pod("Bad_Name"))
        assert refused.value.status == 422

    await run(story)


async def test_a_watch_shows_changes_in_order(run: Run) -> None:
    """From what is there to what is done meanwhile."""

    def story(connected: client.ApiClient) -> None:
        core = client.CoreV1Api(connected)
        core.create_namespaced_config_map("default", {"metadata": {"name": "a"}})
        watcher = watch.Watch()
        seen = []
        for event in watcher.stream(core.list_namespaced_config_map, "default", timeout_seconds=20):
            seen.append((event["type"], event["object"].metadata.name))
            if len(seen) == 1:
                core.patch_namespaced_config_map("a", "default", {"data": {"k": "v"}})
                core.delete_namespaced_config_map("a", "default")
            if len(seen) == 3:
                watcher.stop()
        assert seen == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]

    await run(story)


async def test_workloads_are_scaled(run: Run) -> None:
    """Deployments are created from models and scaled through their sub-resource."""

    def story(connected: client.ApiClient) -> None:
        apps = client.AppsV1Api(connected)
        labels = {"app": "web"}
        deployment = client.V1Deployment(
            metadata=client.V1ObjectMeta(name="web"),
            spec=client.V1DeploymentSpec(
                replicas=1,
                selector=client.V1LabelSelector(match_labels=labels),
                template=client.V1PodTemplateSpec(
                    metadata=client.V1ObjectMeta(labels=labels),
                    spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]),
                ),
            ),
        )
        apps.create_namespaced_deployment("default", deployment)
        scaled = apps.patch_namespaced_deployment_scale("web", "default", {"spec": {"replicas": 3}})
        assert scaled.spec.replicas == 3
        assert apps.read_namespaced_deployment("web", "default").spec.replicas == 3

    await run(story)


async def test_custom_kinds_are_defined_and_used(run: Run) -> None:
    """Through the plain API of custom objects, and through discovery."""

    def story(connected: client.ApiClient) -> None:
        file = files("numakube.api.crds") / f"{GROUP}_{PLURAL}.yaml"
        definition = yaml.safe_load(file.read_text())
        client.ApiextensionsV1Api(connected).create_custom_resource_definition(definition)
        topology = {
            "apiVersion": f"{GROUP}/{VERSION}",
            "kind": "NodeResourceTopology",
            "metadata": {"name": "n1"},
            "topologyPolicies": ["SingleNUMANodeContainerLevel"],
            "zones": [{"name": "node-0", "type": "Node"}],
        }
        custom = client.CustomObjectsApi(connected)
        custom.create_cluster_custom_object(GROUP, VERSION, PLURAL, topology)
        listed = custom.list_cluster_custom_object(GROUP, VERSION, PLURAL)
        assert [item["metadata"]["name"] for item in listed["items"]] == ["n1"]
        found = dynamic.DynamicClient(connected).resources.get(
            api_version=f"{GROUP}/{VERSION}", kind="NodeResourceTopology"
        )
        assert found.get(name="n1").zones[0].name == "node-0"
        custom.delete_cluster_custom_object(GROUP, VERSION, PLURAL, "n1")

    await run(story)
