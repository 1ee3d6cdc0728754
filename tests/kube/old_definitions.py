"""Definitions of NodeResourceTopology as clusters of other years have them."""

from __future__ import annotations

import contextlib
from copy import deepcopy
from typing import Any, Final

from numakube.api.crds import crd
from numakube.api.nrt import GROUP, PLURAL
from numakube.errors import NotFound
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS
from numakube.kube.client import Client, merge_patch
from numakube.kube.connection.transport import Request
from numakube.testing import until

NAME: Final = f"{PLURAL}.{GROUP}"


def v1alpha1_of_the_cluster() -> dict[str, Any]:
    """Return what v0.0.11 to v0.0.13 of the API defined: v1alpha1 only, no namespaces."""
    definition = deepcopy(crd())
    (old,) = (
        version for version in definition["spec"]["versions"] if version["name"] == "v1alpha1"
    )
    definition["spec"]["versions"] = [{**old, "served": True, "storage": True}]
    return definition


def v1alpha1_in_namespaces() -> dict[str, Any]:
    """Return what v0.0.10 and its predecessors defined: in namespaces, available not required."""
    definition = v1alpha1_of_the_cluster()
    definition["spec"]["scope"] = "Namespaced"
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    zone = schema["properties"]["zones"]["items"]["properties"]
    zone["resources"]["items"]["required"].remove("available")
    return definition


def current() -> dict[str, Any]:
    """Return what v0.1.0 and its successors define: v1alpha2, and v1alpha1 as well."""
    return deepcopy(crd())


async def install(client: Client, definition: dict[str, Any] | None) -> None:
    """Have *definition* in place of any other, or none; return when the server acts by it."""
    with contextlib.suppress(NotFound):
        await client.delete(CUSTOM_RESOURCE_DEFINITIONS, NAME)
    await until(lambda: _versions(client), lambda found: not found)
    if definition is not None:
        await client.create(CUSTOM_RESOURCE_DEFINITIONS, definition)
        await _until_served(client, definition)


async def upgrade(client: Client, definition: dict[str, Any]) -> None:
    """Change the definition that is there into *definition*."""
    patch = merge_patch({"spec": {"versions": definition["spec"]["versions"]}})
    await client.patch(CUSTOM_RESOURCE_DEFINITIONS, NAME, patch)
    await _until_served(client, definition)


async def _until_served(client: Client, definition: dict[str, Any]) -> None:
    wanted = {version["name"] for version in definition["spec"]["versions"] if version["served"]}
    await until(lambda: _versions(client), lambda found: found == wanted)


async def _versions(client: Client) -> set[str]:
    """Return the versions of which lists are answered."""
    found = set()
    for version in ("v1alpha1", "v1alpha2"):
        with contextlib.suppress(NotFound):
            await client.request(Request(method="GET", path=f"/apis/{GROUP}/{version}/{PLURAL}"))
            found.add(version)
    return found


def report(name: str, *, free: str, namespace: str = "", **more: Any) -> dict[str, Any]:
    """Return the object of a node with one zone, as a producer of v1alpha1 writes it."""
    cpu = {"name": "cpu", "capacity": "8", "allocatable": "7", "available": free}
    if not free:
        cpu.pop("available")
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "topologyPolicies": ["SingleNUMANodePodLevel"],
        "zones": [{"name": "node-0", "type": "Node", "resources": [cpu]}],
        **more,
    }
