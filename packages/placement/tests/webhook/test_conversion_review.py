"""D27: NodeResourceTopologies are converted by the webhook, and so by a real API server."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from packages.placement.tests.webhook.running import Files, client, registered, webhook
from tests.sites.bare import BareOpener, BareServer
from tests.topology.producers import NAMES, document

from numakube.api.crds import crd, crd_with_v1beta1
from numakube.api.nrt import GROUP, KIND, PLURAL, V1ALPHA1, V1ALPHA2
from numakube.errors import ApiError, Invalid, MalformedObject
from numakube.kube.catalog import CUSTOM_RESOURCE_DEFINITIONS
from numakube.kube.client import merge_patch
from numakube.kube.resource_types import Document, Resource
from numakube.testing import until
from numakube.topology.nrt_conversion import VERSIONS
from numakube.topology.nrt_v1beta1 import V1BETA1
from numakube_placement.manifests.webhook import DEFINITION
from numakube_placement.webhook.conversion_review import (
    ConversionRequest,
    convert_all,
    read_conversion,
    write_conversion,
)

PRODUCERS = [name for name in NAMES if name != "volcano"]


def request_of(*objects: dict[str, Any], to: str = V1BETA1) -> dict[str, Any]:
    """Return the question of an API server."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "ConversionReview",
        "request": {"uid": "u1", "desiredAPIVersion": to, "objects": list(objects)},
    }


def test_all_objects_are_converted_in_their_order() -> None:
    """The answer has the uid of the question."""
    asked = request_of(document("rte"), document("koordlet"))
    request = read_conversion(msgspec.json.encode(asked))
    answer = msgspec.json.decode(write_conversion(convert_all(request)))
    response = answer["response"]
    assert answer["kind"] == "ConversionReview"
    assert (response["uid"], response["result"]) == ("u1", {"status": "Success"})
    assert [entry["apiVersion"] for entry in response["convertedObjects"]] == [V1BETA1, V1BETA1]


def test_one_object_that_cannot_be_converted_fails_all() -> None:
    """With the reason, which the API server passes on."""
    broken = {**document("rte"), "zones": [1]}
    request = ConversionRequest(uid="u", desired_api_version=V1BETA1, objects=(broken,))
    response = convert_all(request)
    assert (response.result.status, response.converted_objects) == ("Failed", ())
    assert "NodeResourceTopology worker-0" in response.result.message


@pytest.mark.parametrize("body", [b"{}", b"[", b'{"apiVersion": "v1", "kind": "ConversionReview"}'])
def test_what_is_no_question_is_refused(body: bytes) -> None:
    """By the caller's fault."""
    with pytest.raises(MalformedObject):
        read_conversion(body)


async def test_conversions_are_answered_over_https_and_counted(files: Files) -> None:
    """Beside reviews."""
    async with webhook(*files.arguments) as url, client(files) as session:
        asked = request_of(document("rte"))
        async with session.post(f"{url}/convert", json=asked) as response:
            assert response.status == 200
            answer = await response.json()
        assert answer["response"]["convertedObjects"][0]["spec"]["zones"]
        async with session.post(f"{url}/convert", data=b"{}") as response:
            assert response.status == 400
        async with session.get(f"{url}/metrics") as response:
            metrics = await response.text()
    assert 'numakube_webhook_conversions_total{result="converted"} 1.0' in metrics
    assert 'numakube_webhook_conversions_total{result="unreadable"} 1.0' in metrics


def resource(api_version: str) -> Resource[Document]:
    """Topologies as documents of a version."""
    return Resource(
        group=GROUP,
        version=api_version.rpartition("/")[2],
        plural=PLURAL,
        kind=KIND,
        namespaced=False,
        object_type=dict[str, Any],
        whole=True,
    )


@contextlib.asynccontextmanager
async def converting(server: BareServer, files: Files, folder: Path) -> AsyncIterator[None]:
    """Have the server serve v1beta1, converted by a webhook that it trusts."""
    definitions = CUSTOM_RESOURCE_DEFINITIONS
    async with registered(server, files, folder, converts=True) as (url, _):
        proposed = crd_with_v1beta1({"url": f"{url}/convert"})
        await server.client.patch(definitions, DEFINITION, merge_patch({"spec": proposed["spec"]}))

        async def trusted() -> bool:
            found = await server.client.get(definitions, DEFINITION)
            webhook = found["spec"]["conversion"]["webhook"]
            return bool(webhook["clientConfig"].get("caBundle") == files.bundle)

        try:
            await until(trusted)
            yield
        finally:
            plain = {**crd()["spec"], "conversion": {"strategy": "None", "webhook": None}}
            await server.client.patch(definitions, DEFINITION, merge_patch({"spec": plain}))


async def test_the_authority_is_registered_in_the_definition(
    bare_servers: BareOpener, files: Files, tmp_path: Path
) -> None:
    """With the rights of the manifest; a definition without conversion is left alone."""
    async with bare_servers() as server, converting(server, files, tmp_path):
        pass


async def served(server: BareServer, version: str, name: str) -> Document:
    """Return an object in a version; the server takes a moment to serve a new one."""

    async def found() -> Document | None:
        try:
            return await server.client.get(resource(version), name)
        except ApiError:
            return None

    return await until(found)


def content(tree: Document) -> dict[str, Any]:
    """Return what a producer has written: the object without what the server adds."""
    metadata = tree["metadata"]
    kept = {key: metadata[key] for key in ("name", "labels", "annotations") if key in metadata}
    rest = {key: value for key, value in tree.items() if key != "metadata"}
    return {**rest, "metadata": kept}


async def test_objects_survive_every_version_on_a_real_api_server(
    bare_servers: BareOpener, files: Files, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """D27: read in each version, written back in it, and the same in their own afterwards."""
    if request.node.callspec.params["bare_servers"] == "lab":
        pytest.skip("the lab's API server calls no webhooks")
    async with bare_servers() as server, converting(server, files, tmp_path):
        await served_at_all(server)
        for producer in PRODUCERS:
            tree = {**document(producer), "metadata": {**document(producer)["metadata"]}}
            tree["metadata"]["name"] = producer
            tree["metadata"].pop("ownerReferences", None)
            await server.client.create(resource(tree["apiVersion"]), tree)
            for version in VERSIONS:
                moved = await served(server, version, producer)
                assert moved["apiVersion"] == version
                await server.client.update(resource(version), moved)
            back = await served(server, tree["apiVersion"], producer)
            assert content(back) == content(tree)
            await server.client.delete(resource(V1ALPHA2), producer)


async def test_status_and_spec_are_written_apart_on_a_real_api_server(
    bare_servers: BareOpener, files: Files, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """D27: what is left changes without a new generation, and readers of v1alpha2 see it."""
    if request.node.callspec.params["bare_servers"] == "lab":
        pytest.skip("the lab's API server calls no webhooks")
    async with bare_servers() as server, converting(server, files, tmp_path):
        await served_at_all(server)
        new = resource(V1BETA1)
        await server.client.create(resource(V1ALPHA2), document("nfd"))
        before = await served(server, V1BETA1, "worker-0")
        before["status"]["heartbeatTime"] = "2026-11-16T08:00:00Z"
        before["status"]["zones"][0]["resources"][1]["available"] = "1"
        after = await server.client.update(new, before, subresource="status")
        assert after["metadata"]["generation"] == before["metadata"]["generation"]
        now = await served(server, V1ALPHA2, "worker-0")
        assert now["zones"][0]["resources"][1]["available"] == "1"
        assert now["attributes"] == document("nfd")["attributes"]
        old = await served(server, V1ALPHA1, "worker-0")
        assert old["topologyPolicies"] == ["SingleNUMANodeContainerLevel"]
        again = await served(server, V1BETA1, "worker-0")
        assert again["status"]["heartbeatTime"] == "2026-11-16T08:00:00Z"
        again["spec"]["kubelet"]["topologyManager"]["policy"] = "strict"
        with pytest.raises(Invalid, match="strict"):
            await server.client.update(new, again)
        await server.client.delete(resource(V1ALPHA2), "worker-0")


async def served_at_all(server: BareServer) -> None:
    """Wait until the server knows the new version."""

    async def known() -> bool:
        try:
            await server.client.list(resource(V1BETA1))
        except ApiError:
            return False
        return True

    await until(known)
