"""A write that is only tried leaves every object as it was, whatever the verb."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from tests.sites.bare import BareOpener

from numakube.kube.catalog import CONFIG_MAPS, DEPLOYMENTS, NAMESPACES, NODES, PODS
from numakube.kube.client import Client, json_patch, merge_patch, strategic_patch
from numakube.kube.resource_types import ObjectKey
from numakube.kube.subresources import bind_pod, evict_pod

NS = "dry"
MAPS, PODS_RAW = CONFIG_MAPS.raw, PODS.raw
_POD = ObjectKey(NS, "p")
_CONTAINERS = {"containers": [{"name": "main", "image": "i"}]}
_CHANGE = {"metadata": {"labels": {"a": "changed"}}}


def _document(kind: str, name: str, **fields: Any) -> dict[str, Any]:
    return {"kind": kind, "metadata": {"name": name, "namespace": NS}, **fields}


def _deployment() -> dict[str, Any]:
    labels = {"app": "d"}
    template = {"metadata": {"labels": labels}, "spec": _CONTAINERS}
    spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
    return _document("Deployment", "d", spec=spec)


@pytest.fixture
async def client(bare_servers: BareOpener) -> AsyncIterator[Client]:
    """A client of a server on which there is one object for every verb."""
    async with bare_servers() as server:
        client = server.client
        await client.create(NAMESPACES, {"metadata": {"name": NS}})
        await client.create(NODES.raw, {"metadata": {"name": "n"}})
        await client.create(MAPS, _document("ConfigMap", "m", data={"k": "1"}))
        await client.create(PODS_RAW, _document("Pod", "p", spec=_CONTAINERS))
        await client.create(DEPLOYMENTS, _deployment())
        yield client


async def _replace(client: Client, *, dry_run: bool) -> None:
    live = await client.get(MAPS, "m", namespace=NS)
    await client.update(MAPS, {**live, "data": {"k": "2"}}, dry_run=dry_run)


_VERBS: dict[str, Callable[..., Awaitable[object]]] = {
    "create": lambda client, **dry: client.create(MAPS, _document("ConfigMap", "new"), **dry),
    "replace": _replace,
    "merge patch": lambda client, **dry: client.patch(
        MAPS, "m", merge_patch(_CHANGE), namespace=NS, **dry
    ),
    "strategic patch": lambda client, **dry: client.patch(
        MAPS, "m", strategic_patch(_CHANGE), namespace=NS, **dry
    ),
    "JSON patch": lambda client, **dry: client.patch(
        MAPS,
        "m",
        json_patch([{"op": "replace", "path": "/data/k", "value": "2"}]),
        namespace=NS,
        **dry,
    ),
    "apply": lambda client, **dry: client.apply(
        MAPS, _document("ConfigMap", "m", data={"applied": "1"}), field_manager="other", **dry
    ),
    "apply what is new": lambda client, **dry: client.apply(
        MAPS, _document("ConfigMap", "applied"), **dry
    ),
    "status": lambda client, **dry: client.patch(
        PODS_RAW,
        "p",
        merge_patch({"status": {"message": "changed"}}),
        namespace=NS,
        subresource="status",
        **dry,
    ),
    "delete": lambda client, **dry: client.delete(MAPS, "m", namespace=NS, **dry),
    "delete with options": lambda client, **dry: client.delete(
        PODS_RAW, "p", namespace=NS, grace_seconds=0, propagation="Background", **dry
    ),
    "delete a namespace": lambda client, **dry: client.delete(NAMESPACES, NS, **dry),
    "delete a collection": lambda client, **dry: client.delete_collection(
        MAPS, namespace=NS, **dry
    ),
    "bind": lambda client, **dry: bind_pod(client, _POD, "n", annotations={"a": "b"}, **dry),
    "evict": lambda client, **dry: evict_pod(client, _POD, grace_seconds=0, **dry),
}
"""Every way in which the client writes."""


async def _state(client: Client) -> dict[str, Any]:
    """Return everything that the verbs are tried on."""
    found = {"namespace": await client.get(NAMESPACES, NS)}
    for resource in (MAPS, PODS_RAW, DEPLOYMENTS):
        for item in (await client.list(resource, namespace=NS)).items:
            found[f"{resource.plural}/{item['metadata']['name']}"] = item
    return found


@pytest.mark.parametrize("verb", _VERBS)
async def test_a_dry_run_changes_nothing_and_the_same_in_earnest_does(
    client: Client, verb: str
) -> None:
    """No object appears, differs or is gone until the verb is meant."""
    before = await _state(client)
    await _VERBS[verb](client, dry_run=True)
    assert await _state(client) == before
    await _VERBS[verb](client, dry_run=False)
    assert await _state(client) != before
