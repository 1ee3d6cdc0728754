"""The client sends what Kubernetes expects and turns refusals into typed errors."""

import gc
from typing import Any

import aiohttp
import msgspec
import pytest
from tests.kube.things import NODES, THINGS, Meta, Thing, thing

from numakube import errors
from numakube.kube.client import Client, json_patch, merge_patch, strategic_patch
from numakube.kube.connection.http import HttpTransport
from numakube.kube.connection.transport import Request
from numakube.kube.scripted_server import ScriptedServer, status_document


async def test_get_decodes_into_the_resources_type(client: Client, server: ScriptedServer) -> None:
    """Get decodes into the resources type."""
    server.reply(thing("a", size=3, unknown="ignored"))

    found = await client.get(THINGS, "a", namespace="ns")

    assert found == Thing(Meta(name="a", namespace="ns"), 3)
    assert server.received[0].path == "/apis/example.org/v1/namespaces/ns/things/a"
    assert server.received[0].headers["User-Agent"] == "numakube"


async def test_names_are_escaped_in_paths(client: Client, server: ScriptedServer) -> None:
    """Names are escaped in paths."""
    server.reply(thing("a"))

    await client.get(NODES, "system:a/../b c")

    assert server.received[0].path == "/api/v1/nodes/system%3Aa%2F..%2Fb%20c"


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_a_name_that_would_change_the_path_is_refused(client: Client, name: str) -> None:
    """A name that would change the path is refused."""
    with pytest.raises(ValueError, match="name of an object"):
        await client.get(NODES, name)


async def test_a_namespace_is_neither_guessed_nor_ignored(client: Client) -> None:
    """A namespace is neither guessed nor ignored."""
    with pytest.raises(ValueError, match="live in namespaces"):
        await client.get(THINGS, "a")
    with pytest.raises(ValueError, match="live in namespaces"):
        await client.create(THINGS, {"metadata": {"name": "a"}})
    with pytest.raises(ValueError, match="not namespaced"):
        await client.get(NODES, "a", namespace="ns")
    with pytest.raises(ValueError, match="name the namespace"):
        await client.delete_collection(THINGS)


REFUSALS = [
    (400, "BadRequest", errors.BadRequest),
    (401, "Unauthorized", errors.Unauthorized),
    (403, "Forbidden", errors.Forbidden),
    (404, "NotFound", errors.NotFound),
    (405, "MethodNotAllowed", errors.MethodNotAllowed),
    (406, "NotAcceptable", errors.NotAcceptable),
    (409, "AlreadyExists", errors.AlreadyExists),
    (409, "Conflict", errors.Conflict),
    (410, "Expired", errors.Expired),
    (410, "Gone", errors.Expired),
    (413, "RequestEntityTooLarge", errors.RequestTooLarge),
    (415, "UnsupportedMediaType", errors.UnsupportedMediaType),
    (422, "Invalid", errors.Invalid),
    (429, "TooManyRequests", errors.TooManyRequests),
    (500, "InternalError", errors.InternalError),
    (500, "ServerTimeout", errors.ServerTimeout),
    (503, "ServiceUnavailable", errors.ServiceUnavailable),
    (504, "Timeout", errors.ServerTimeout),
    (409, "", errors.Conflict),
    (403, "SomethingNew", errors.Forbidden),
    (418, "SomethingNew", errors.ApiError),
]


@pytest.mark.parametrize(("code", "reason", "kind"), REFUSALS)
async def test_each_refusal_is_an_error_of_its_own(
    client: Client,
    server: ScriptedServer,
    code: int,
    reason: str,
    kind: type[errors.ApiError],
) -> None:
    """Each refusal is an error of its own."""
    server.refuse(code, reason, message="because")

    with pytest.raises(errors.ApiError) as caught:
        await client.create(THINGS, thing("a"))

    assert type(caught.value) is kind
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert caught.value.message == "because"
    assert "POST /apis/example.org/v1/namespaces/ns/things: because" in str(caught.value)


async def test_an_error_lists_the_single_faults(client: Client, server: ScriptedServer) -> None:
    """An error lists the single faults."""
    cause = {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.x"}
    server.refuse(422, "Invalid", causes=[cause])

    with pytest.raises(errors.Invalid) as caught:
        await client.create(THINGS, thing("a"))

    assert caught.value.causes == (
        errors.ApiCause("spec.x", "FieldValueRequired", "Required value"),
    )


async def test_an_answer_of_a_proxy_is_quoted(client: Client, server: ScriptedServer) -> None:
    """A text as it is, of a web page the title only; that there is none is said."""
    server.reply(b"", status=418)
    with pytest.raises(errors.ApiError, match="the answer has no body"):
        await client.get(NODES, "a")
    server.reply(b"I am a teapot", status=418)
    server.reply(b"<!DOCTYPE html>\n<html><title>Teapot</title><p>short and stout", status=418)

    with pytest.raises(errors.ApiError, match="I am a teapot"):
        await client.get(NODES, "a")
    with pytest.raises(
        errors.ApiError, match=r"is a web page \(Teapot\): of no Kubernetes"
    ) as told:
        await client.get(NODES, "a")
    assert "<" not in str(told.value)


async def test_a_redirect_is_not_followed(client: Client, server: ScriptedServer) -> None:
    """A redirect is not followed."""
    server.reply(b"elsewhere", status=302, headers={"Location": "/api/v1/nodes/b"})

    with pytest.raises(errors.ApiError, match="302"):
        await client.get(NODES, "a")

    assert len(server.received) == 1


async def test_an_object_of_the_wrong_shape_is_named(
    client: Client, server: ScriptedServer
) -> None:
    """An object of the wrong shape is named."""
    server.reply(thing("a", size="big"))

    with pytest.raises(errors.MalformedObject) as caught:
        await client.get(THINGS, "a", namespace="ns")

    assert (caught.value.subject, caught.value.path) == ("Thing ns/a", "size")


async def test_a_list_is_read_in_pages(client: Client, server: ScriptedServer) -> None:
    """A list is read in pages."""
    server.reply({"metadata": {"resourceVersion": "7", "continue": "tok"}, "items": [thing("a")]})
    server.reply({"metadata": {"resourceVersion": "7"}, "items": [thing("b")]})

    found = await client.list(
        THINGS, namespace="ns", labels="x=y", fields="f=g", resource_version="5", page_size=1
    )

    assert [each.metadata.name for each in found.items] == ["a", "b"]
    assert found.resource_version == "7"
    first, second = server.received
    assert first.query == {
        "labelSelector": "x=y",
        "fieldSelector": "f=g",
        "resourceVersion": "5",
        "resourceVersionMatch": "NotOlderThan",
        "limit": "1",
    }
    assert second.query == {
        "labelSelector": "x=y",
        "fieldSelector": "f=g",
        "limit": "1",
        "continue": "tok",
    }


async def test_lists_are_asked_for_uncompressed(client: Client, server: ScriptedServer) -> None:
    """Lists are asked for uncompressed."""
    server.reply({"items": []})
    server.reply(thing("a"))

    await client.list(THINGS)
    await client.get(NODES, "a")

    encodings = [each.headers["Accept-Encoding"] for each in server.received]
    assert encodings == ["identity", "gzip"]


async def test_a_list_that_expires_between_pages_is_read_in_one_go(
    client: Client, server: ScriptedServer
) -> None:
    """A list that expires between pages is read in one go."""
    server.reply({"metadata": {"resourceVersion": "7", "continue": "tok"}, "items": [thing("a")]})
    server.refuse(410, "Expired")
    server.reply({"metadata": {"resourceVersion": "9"}, "items": [thing("b"), thing("c")]})

    found = await client.list(THINGS, labels="x=y")

    assert [each.metadata.name for each in found.items] == ["b", "c"]
    assert found.resource_version == "9"
    assert server.received[2].query == {"labelSelector": "x=y"}


async def test_a_list_that_has_expired_at_once_is_an_error(
    client: Client, server: ScriptedServer
) -> None:
    """A list that has expired at once is an error."""
    server.refuse(410, "Expired")

    with pytest.raises(errors.Expired):
        await client.list(THINGS, resource_version="5")


async def test_null_means_the_default_as_in_go(client: Client, server: ScriptedServer) -> None:
    """Servers send null for times and lists that are not set."""
    server.reply(thing("a", size=None))
    server.reply({"metadata": {"resourceVersion": "7"}, "items": [thing("a", size=None)]})

    assert (await client.get(THINGS, "a", namespace="ns")).size == 0
    assert [each.size for each in (await client.list(THINGS)).items] == [0]


async def test_null_items_and_metadata_are_an_empty_list(
    client: Client, server: ScriptedServer
) -> None:
    """Null items and metadata are an empty list."""
    server.reply({"metadata": None, "items": None})

    assert (await client.list(THINGS)).items == ()


async def test_one_bad_object_does_not_spoil_a_list(client: Client, server: ScriptedServer) -> None:
    """One bad object does not spoil a list."""
    items = [thing("a", size=1), thing("b", size=[]), thing("c", size=3)]
    server.reply({"metadata": {"resourceVersion": "7"}, "items": items})

    found = await client.list(THINGS)

    assert [each.size for each in found.items] == [1, 3]
    assert [str(each.key) for each in found.malformed] == ["ns/b"]
    assert found.malformed[0].error.path == "size"
    assert found.resource_version == "7"


async def test_what_is_nested_too_deeply_is_said_so(client: Client, server: ScriptedServer) -> None:
    """It must not end the process."""
    deep = b'{"metadata":{"name":"a"},"x":' + b"[" * 50_000 + b"]" * 50_000 + b"}"
    server.reply(deep)
    server.reply(b'{"items":[' + deep + b"]}")

    with pytest.raises(errors.MalformedObject, match="recursion"):
        await client.get(NODES, "a")
    with pytest.raises(errors.MalformedObject, match="recursion"):
        await client.list(NODES)


async def test_the_collector_is_on_again_after_a_list(
    client: Client, server: ScriptedServer
) -> None:
    """The collector is on again after a list."""
    server.reply({"items": [thing("a")]})
    server.reply(b"not json")

    await client.list(THINGS)
    with pytest.raises(errors.MalformedObject):
        await client.list(THINGS)

    assert gc.isenabled()


async def test_create_names_the_kind_and_the_field_manager(
    client: Client, server: ScriptedServer
) -> None:
    """Create names the kind and the field manager."""
    server.reply(thing("a"), status=201)

    await client.create(THINGS, Thing(Meta(name="a", namespace="ns"), 4), dry_run=True)

    seen = server.received[0]
    assert (seen.method, seen.path) == ("POST", "/apis/example.org/v1/namespaces/ns/things")
    assert seen.query == {"dryRun": "All", "fieldManager": "numakube"}
    assert seen.json() == {
        "apiVersion": "example.org/v1",
        "kind": "Thing",
        "metadata": {"name": "a", "namespace": "ns"},
        "size": 4,
    }


async def test_update_replaces_a_document(client: Client, server: ScriptedServer) -> None:
    """Update replaces a document."""
    server.reply(thing("a"))

    await client.update(THINGS.raw, thing("a", kept=[1]), subresource="status")

    seen = server.received[0]
    assert (seen.method, seen.path) == (
        "PUT",
        "/apis/example.org/v1/namespaces/ns/things/a/status",
    )
    assert isinstance(body := seen.json(), dict)
    assert body["kept"] == [1]


async def test_update_refuses_a_type_that_would_erase_fields(client: Client) -> None:
    """Update refuses a type that would erase fields."""
    with pytest.raises(TypeError, match="would erase"):
        await client.update(THINGS, Thing(Meta(name="a", namespace="ns")))


PATCHES = [
    (merge_patch({"a": None}), "application/merge-patch+json", {"a": None}),
    (strategic_patch({"a": 1}), "application/strategic-merge-patch+json", {"a": 1}),
    (
        json_patch([{"op": "remove", "path": "/a"}]),
        "application/json-patch+json",
        [{"op": "remove", "path": "/a"}],
    ),
]


@pytest.mark.parametrize(("patch", "content_type", "body"), PATCHES)
async def test_each_patch_has_its_content_type(
    client: Client, server: ScriptedServer, patch: Any, content_type: str, body: object
) -> None:
    """Each patch has its content type."""
    server.reply(thing("a"))

    await client.patch(NODES, "a", patch, field_manager="me")

    seen = server.received[0]
    assert (seen.method, seen.headers["Content-Type"]) == ("PATCH", content_type)
    assert seen.query == {"fieldManager": "me"}
    assert seen.json() == body


async def test_apply_owns_fields_as_a_manager(client: Client, server: ScriptedServer) -> None:
    """Apply owns fields as a manager."""
    server.reply(thing("a"))
    server.refuse(409, "Conflict", causes=[{"reason": "FieldManagerConflict", "field": ".size"}])

    await client.apply(THINGS, thing("a", size=1), force=True)
    with pytest.raises(errors.Conflict):
        await client.apply(THINGS, thing("a", size=1))

    forced, gentle = server.received
    assert forced.headers["Content-Type"] == "application/apply-patch+yaml"
    assert forced.query == {"fieldManager": "numakube", "force": "true"}
    assert gentle.query == {"fieldManager": "numakube"}
    assert isinstance(body := forced.json(), dict)
    assert (body["apiVersion"], body["kind"]) == ("example.org/v1", "Thing")


async def test_delete_sends_preconditions(client: Client, server: ScriptedServer) -> None:
    """Delete sends preconditions."""
    server.reply({"kind": "Status", "status": "Success"})

    gone = await client.delete(
        THINGS,
        "a",
        namespace="ns",
        uid="u",
        resource_version="5",
        grace_seconds=0,
        propagation="Foreground",
    )

    assert gone is None
    assert server.received[0].json() == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Foreground",
        "preconditions": {"uid": "u", "resourceVersion": "5"},
    }


async def test_delete_returns_an_object_that_is_still_there(
    client: Client, server: ScriptedServer
) -> None:
    """Delete returns an object that is still there."""
    server.reply({"kind": "Thing", **thing("a")})

    left = await client.delete(THINGS, "a", namespace="ns")

    assert left == Thing(Meta(name="a", namespace="ns"))


async def test_delete_collection_sends_selectors(client: Client, server: ScriptedServer) -> None:
    """Delete collection sends selectors."""
    server.reply({"kind": "ThingList", "items": []})

    await client.delete_collection(THINGS, namespace="ns", labels="x=y")

    seen = server.received[0]
    assert (seen.method, seen.path, seen.query) == (
        "DELETE",
        "/apis/example.org/v1/namespaces/ns/things",
        {"labelSelector": "x=y"},
    )


async def test_a_stream_that_is_refused_raises(client: Client, server: ScriptedServer) -> None:
    """A stream that is refused raises."""
    server.reply(status_document(410, "Expired"), status=410)

    with pytest.raises(errors.Expired):
        async with client.stream(Request(method="GET", path="/x")):
            pass


async def test_no_session_has_aiohttps_total_limit(client: Client, server: ScriptedServer) -> None:
    """Aiohttp would end every watch after five minutes."""
    server.reply({"items": []})
    server.reply(b"x")
    await client.list(NODES)
    async with client.stream(Request(method="GET", path="/x", timeout=None)):
        pass

    transport = client._transport
    assert isinstance(transport, HttpTransport)
    for session in (transport._requests, transport._streams):
        assert session is not None
        assert session.timeout.total is None
    options = transport._options(
        Request(method="GET", path="/x", timeout=None, idle_timeout=120),
        await transport._credentials(),
    )
    assert options["timeout"] == aiohttp.ClientTimeout(total=None, sock_connect=10.0, sock_read=120)


def test_a_patch_may_be_a_struct() -> None:
    """A patch may be a struct."""
    assert msgspec.json.decode(merge_patch(Thing(size=3)).body) == {"size": 3}
