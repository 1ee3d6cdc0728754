"""Eight traps between aiohttp, msgspec and Kubernetes, each with the test that keeps us out of it.

The first two (a total time limit that ends watches, a line reader that gives up) are shown here
end to end as well as in the tests of the modules that avoid them.
"""

import gc
import importlib
import inspect
import pkgutil
import weakref
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from aiohttp.client import DEFAULT_TIMEOUT
from aiohttp.http_exceptions import LineTooLong
from msgspec.inspect import (
    CollectionType,
    DictType,
    StructType,
    UnionType,
    VarTupleType,
    type_info,
)

import numakube.api
import numakube.kube
from kube_lab_server import GVK
from kube_lab_server.schema.builtin_types import BUILTIN
from kube_lab_server.schema.types import ListType, MapType, Struct, Type
from numakube.api.codec import QuantityText, Wire
from numakube.errors import Expired
from numakube.kube.catalog import CORE_EVENTS, EVENTS, LEASES, NODES, PODS
from numakube.kube.client import Client
from numakube.kube.connection.transport import Request, Response, Stream
from numakube.kube.resource_types import Resource
from numakube.kube.scripted_server import ScriptedServer, status_document, streaming
from numakube.kube.watch import Bookmark, open_watch


async def test_1_aiohttps_default_would_end_watches_and_ours_does_not(
    client: Client, server: ScriptedServer
) -> None:
    """The default total limit is five minutes; a watch of ours has none, but one for silence."""
    assert DEFAULT_TIMEOUT.total == 300
    limits: list[aiohttp.ClientTimeout] = []

    async def handler(_: web.Request) -> web.StreamResponse:
        return web.Response()

    server.script(handler)
    transport: Any = client._transport
    options = transport._options

    def spied(request: Request, credentials: Any) -> Any:
        chosen = options(request, credentials)
        limits.append(chosen["timeout"])
        return chosen

    transport._options = spied
    async with open_watch(client, PODS, since="1"):
        pass

    assert (limits[0].total, limits[0].sock_connect, limits[0].sock_read) == (None, 10.0, 150.0)


async def test_2_aiohttps_line_reader_would_give_up_and_ours_does_not(
    client: Client, server: ScriptedServer
) -> None:
    """Half a megabyte is its limit; objects may have more than a megabyte."""
    big = {"metadata": {"name": "a", "annotations": {"blob": "x" * 1_500_000}}}
    line = msgspec.json.encode({"type": "ADDED", "object": big}) + b"\n"

    async def chunks() -> AsyncIterator[bytes]:
        yield line

    server.script(streaming(chunks))
    server.script(streaming(chunks))

    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/") as response:
        with pytest.raises(LineTooLong):
            await anext(aiter(response.content))
    async with open_watch(client, PODS) as watch:
        assert len([event async for event in watch]) == 1


@pytest.mark.parametrize("resource", [PODS, NODES, LEASES, CORE_EVENTS, EVENTS], ids=str)
def test_3_every_name_we_declare_exists_in_the_api(resource: Resource[Any]) -> None:
    """An unknown name (``hostIp``) would be passed over in silence and stay empty."""
    real = BUILTIN[GVK(resource.group, resource.version, resource.kind)].root
    wrong = list(unknown_names(type_info(resource.object_type), real, resource.kind))

    assert set(wrong) <= HARMLESS


# Claims of volumes have no claims of devices; the type is shared with containers, which do.
# Options of bind mounts, node-allocatable resources of claims and groups came after 1.35; the new
# name of those resources comes with 1.38.
HARMLESS = {
    "Pod.spec.volumes[].ephemeral.volumeClaimTemplate.spec.resources.claims",
    "Pod.spec.containers[].volumeMounts[].bindMountOptions",
    "Pod.spec.initContainers[].volumeMounts[].bindMountOptions",
    "Pod.status.nodeAllocatableResourceClaimStatuses",
    "Pod.status.additionalNodeAllocatableResources",
    "Pod.spec.schedulingGroup",
}


def unknown_names(ours: Any, real: Type, path: str) -> list[str]:
    """Return the paths of the names in our type that the real one does not have."""
    match ours, real:
        case StructType(), Struct():
            found = [
                f"{path}.{field.encode_name}"
                for field in ours.fields
                if field.encode_name not in real.fields
            ]
            for field in ours.fields:
                if field.encode_name in real.fields:
                    inner = real.fields[field.encode_name].type
                    found += unknown_names(field.type, inner, f"{path}.{field.encode_name}")
            return found
        case UnionType(), _:
            return [name for each in ours.types for name in unknown_names(each, real, path)]
        case ((CollectionType() | VarTupleType()), ListType()):
            return unknown_names(ours.item_type, real.element, f"{path}[]")
        case DictType(), MapType():
            return unknown_names(ours.value_type, real.element, f"{path}[]")
        case _:
            return []


def test_3_the_check_of_names_finds_what_camel_case_makes_of_acronyms() -> None:
    """A test of the test."""

    class Status(Wire, frozen=True):
        host_ip: str = ""

    class OurPod(Wire, frozen=True):
        status: Status | None = None

    real = BUILTIN[GVK("", "v1", "Pod")].root
    assert unknown_names(type_info(OurPod), real, "Pod") == ["Pod.status.hostIp"]


async def test_4_null_is_what_it_is_to_go(client: Client, server: ScriptedServer) -> None:
    """Servers send it for lists, times and whole objects; the field keeps its default."""
    odd = {
        "metadata": {"name": "a", "namespace": "ns", "creationTimestamp": None, "labels": None},
        "spec": {"containers": None, "nodeName": None, "tolerations": None},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastProbeTime": None}]},
    }
    server.reply(odd)
    server.reply({"items": [odd, {"metadata": {"name": "b"}, "spec": None}]})

    one = await client.get(PODS, "a", namespace="ns")
    many = await client.list(PODS)

    assert (one.metadata.labels, one.spec.containers, one.spec.node_name) == ({}, (), "")
    assert one.status is not None
    assert one.status.conditions[0].last_probe_time is None
    assert [each.metadata.name for each in many.items] == ["a", "b"]
    assert many.malformed == ()


class Zone(Wire, frozen=True):
    """A type with a quantity of a custom resource."""

    capacity: QuantityText


@pytest.mark.parametrize(
    ("text", "value"), [(b"8", 8), (b'"8"', "8"), (b'"1.5Gi"', "1.5Gi"), (b"0.5", 0.5)]
)
def test_5_a_quantity_of_a_custom_resource_may_be_a_number(text: bytes, value: object) -> None:
    """``x-kubernetes-int-or-string`` keeps whatever was written."""
    assert msgspec.json.decode(b'{"capacity":%b}' % text, type=Zone).capacity == value


class Tracked(bytearray):
    """A body whose end can be observed."""


class Canned:
    """A transport that gives one answer."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.given: weakref.ref[Tracked] | None = None

    async def send(self, _: Request) -> Response:
        """Give the answer, and keep no hold of it."""
        body = Tracked(self._body)
        self.given = weakref.ref(body)
        return Response(200, {}, body)

    def open(self, _: Request) -> AbstractAsyncContextManager[Stream]:
        """Give nothing."""
        raise NotImplementedError

    async def aclose(self) -> None:
        """Hold nothing."""


@pytest.mark.parametrize("second", [{}, {"spec": {"containers": "wrong"}}])
async def test_6_decoded_objects_do_not_keep_the_answer_alive(second: dict[str, Any]) -> None:
    """A raw part of it would hold all 34 MB; also when objects are decoded one by one."""
    items = [{"metadata": {"name": "a"}}, {"metadata": {"name": "b"}, **second}]
    transport = Canned(msgspec.json.encode({"items": items}))
    async with Client(transport) as client:
        listing = await client.list(PODS)

    gc.collect()
    assert len(listing.items) + len(listing.malformed) == 2
    assert transport.given is not None
    assert transport.given() is None


def test_7_every_struct_is_frozen() -> None:
    """A mutable one could not be a default value, and could not be shared."""
    structs = [
        member
        for package in (numakube.api, numakube.kube)
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
        for _, member in inspect.getmembers(importlib.import_module(module.name), inspect.isclass)
        if issubclass(member, msgspec.Struct) and member.__module__.startswith("numakube.")
    ]

    assert len(structs) > 50
    assert [each for each in structs if not each.__struct_config__.frozen] == []


async def test_8_an_event_is_decoded_by_its_type(client: Client, server: ScriptedServer) -> None:
    """An ERROR carries no pod, and a BOOKMARK hardly one."""
    bookmark = {"kind": "Pod", "metadata": {"resourceVersion": "9", "creationTimestamp": None}}
    lines = [
        msgspec.json.encode({"type": "BOOKMARK", "object": bookmark}),
        msgspec.json.encode({"object": status_document(410, "Expired"), "type": "ERROR"}),
    ]

    async def chunks() -> AsyncIterator[bytes]:
        for line in lines:
            yield line + b"\n"

    server.script(streaming(chunks))
    seen: list[object] = []

    async def consume() -> None:
        async with open_watch(client, PODS) as watch:
            async for batch in watch.batches():
                seen.extend(batch)

    with pytest.raises(Expired):
        await consume()
    assert seen in ([], [Bookmark("9")]), "they may arrive together"


def test_a_kind_is_named_with_its_group() -> None:
    """As kubectl does; the group of the oldest kinds has no name."""
    assert (str(PODS), str(LEASES)) == ("pods", "leases.coordination.k8s.io")
