"""Watches: lines of any length, cut anywhere; events of every type."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.api.pod import Pod
from numakube.errors import ClusterUnreachable, Expired, InternalError, MalformedObject
from numakube.kube.client import Client
from numakube.kube.resource_types import Resource
from numakube.kube.scripted_server import Handler, ScriptedServer, status_document, streaming
from numakube.kube.watch import Bookmark, GarbledEvent, LineSplitter, ObjectEvent, open_watch

PODS = Resource(version="v1", plural="pods", kind="Pod", namespaced=True, object_type=Pod)


def pod(name: str, version: int = 1, **metadata: Any) -> dict[str, Any]:
    """Return a pod as the server sends it."""
    about = {"name": name, "namespace": "ns", "uid": name, "resourceVersion": str(version)}
    return {"kind": "Pod", "apiVersion": "v1", "metadata": {**about, **metadata}}


def line(kind: str, obj: object) -> bytes:
    """Return a line of a watch."""
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def sending(*chunks: bytes, cut: bool = False) -> Handler:
    """Return a handler that sends *chunks*."""

    async def each() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk

    return streaming(each, cut=cut)


async def events_of(client: Client, **options: Any) -> list[Any]:
    """Return all events of a watch."""
    async with open_watch(client, PODS, **options) as watch:
        return [event async for event in watch]


@given(st.binary(), st.data())
def test_lines_are_the_same_however_the_bytes_are_cut(content: bytes, data: st.DataObject) -> None:
    """A chunk may end anywhere."""
    splitter = LineSplitter()
    lines: list[bytes] = []
    rest = content
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        lines += splitter.feed(rest[:size])
        rest = rest[size:]

    *complete, unfinished = content.split(b"\n")
    assert lines == [line for line in complete if line.strip()]
    assert splitter.rest() == unfinished


async def test_each_event_is_decoded_by_its_type(client: Client, server: ScriptedServer) -> None:
    """A bookmark has little more than a version; unknown types are passed over."""
    end = {"k8s.io/initial-events-end": "true"}
    server.script(
        sending(
            line("ADDED", pod("a", 5)),
            line("MODIFIED", pod("a", 6)),
            line("BOOKMARK", {"kind": "Pod", "metadata": {"resourceVersion": "8"}}),
            line("NOVELTY", {"what": "ever"}),
            line("BOOKMARK", {"metadata": {"resourceVersion": "9", "annotations": end}}),
            line("DELETED", pod("a", 10)),
        )
    )

    events = await events_of(client)

    assert [
        (event.type, event.object.metadata.resource_version)
        for event in events
        if isinstance(event, ObjectEvent)
    ] == [("ADDED", "5"), ("MODIFIED", "6"), ("DELETED", "10")]
    bookmarks = [event for event in events if isinstance(event, Bookmark)]
    assert bookmarks == [Bookmark("8"), Bookmark("9", ends_initial_events=True)]
    assert len(events) == 5


async def test_a_watch_asks_as_servers_expect(client: Client, server: ScriptedServer) -> None:
    """With bookmarks, uncompressed, from a version."""
    server.script(sending())
    server.script(sending())

    await events_of(
        client, since="7", namespace="ns", labels="a=b", fields="c=d", timeout_seconds=300
    )
    await events_of(client, initial_events=True)

    first, second = server.received
    assert first.path == "/api/v1/namespaces/ns/pods"
    assert first.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "labelSelector": "a=b",
        "fieldSelector": "c=d",
        "resourceVersion": "7",
        "timeoutSeconds": "300",
    }
    assert first.headers["Accept-Encoding"] == "identity"
    assert second.query == {
        "watch": "true",
        "allowWatchBookmarks": "true",
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
    }


async def test_a_line_may_be_megabytes_long(client: Client, server: ScriptedServer) -> None:
    """Aiohttp's own line reader would give up at half a megabyte."""
    blob = "x" * 2_000_000
    server.script(sending(line("ADDED", pod("a", annotations={"blob": blob}))))

    (event,) = await events_of(client)

    assert event.object.metadata.annotations["blob"] == blob


async def test_a_character_may_be_cut_by_a_chunk(client: Client, server: ScriptedServer) -> None:
    """Each byte of a line in a chunk of its own."""
    text = line("ADDED", pod("a", annotations={"note": "grüße ☃ 🐟"}))
    server.script(sending(*(text[i : i + 1] for i in range(len(text)))))

    (event,) = await events_of(client)

    assert event.object.metadata.annotations["note"] == "grüße ☃ 🐟"


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [(410, "Expired", Expired), (410, "Gone", Expired), (500, "InternalError", InternalError)],
)
async def test_an_error_event_is_raised_like_the_refusal_it_is(
    client: Client, server: ScriptedServer, code: int, reason: str, kind: type[Exception]
) -> None:
    """A 410 is the same, whether it comes as a status or as an event."""
    status = status_document(code, reason, message="too old resource version")
    server.script(sending(line("ERROR", status)))

    with pytest.raises(kind, match="too old resource version"):
        await events_of(client)


async def test_a_410_as_an_http_status_is_the_same(client: Client, server: ScriptedServer) -> None:
    """Some servers refuse before the stream begins."""
    server.refuse(410, "Expired")

    with pytest.raises(Expired):
        await events_of(client, since="1")


async def test_a_broken_connection_loses_the_unfinished_line_only(
    client: Client, server: ScriptedServer
) -> None:
    """What was complete has been delivered."""
    server.script(sending(line("ADDED", pod("a")), line("ADDED", pod("b"))[:30], cut=True))
    seen: list[Any] = []

    async def consume() -> None:
        async with open_watch(client, PODS) as watch:
            async for batch in watch.batches():
                seen.extend(batch)

    with pytest.raises(ClusterUnreachable):
        await consume()
    assert [event.object.metadata.name for event in seen] == ["a"]


async def test_a_last_line_needs_no_end(client: Client, server: ScriptedServer) -> None:
    """But a truncated one is no event."""
    whole = line("ADDED", pod("a")).rstrip()
    server.script(sending(whole))
    server.script(sending(whole[:-3]))

    assert len(await events_of(client)) == 1
    assert await events_of(client) == []


async def test_an_object_of_the_wrong_shape_is_an_event_of_its_own(
    client: Client, server: ScriptedServer
) -> None:
    """It names the object and its version, and the watch goes on."""
    wrong = {**pod("a", 7), "spec": {"containers": "none"}}
    server.script(sending(line("MODIFIED", wrong), line("ADDED", pod("b", 8))))

    garbled, good = await events_of(client)

    assert isinstance(garbled, GarbledEvent)
    assert (str(garbled.malformed.key), garbled.malformed.resource_version) == ("ns/a", "7")
    assert "Pod ns/a: spec.containers" in str(garbled.malformed.error)
    assert good.object.metadata.name == "b"


@pytest.mark.parametrize(
    "text",
    [
        b"<html>\n",
        b'{"object":{}}\n',
        b'{"type":"BOOKMARK","object":{"metadata":7}}\n',
        b'{"type":"ERROR","object":7}\n',
    ],
)
async def test_what_is_no_event_is_said_so(
    client: Client, server: ScriptedServer, text: bytes
) -> None:
    """A proxy's page in the stream, for one."""
    server.script(sending(text))

    with pytest.raises(MalformedObject):
        await events_of(client)
