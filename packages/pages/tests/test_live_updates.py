"""Server-sent events."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from packages.pages.tests.serving import served
from packages.pages.tests.world import (
    empty_source,
    kubelet,
    node_object,
    pod_object,
    report_of,
    small_world,
)

from numakube.testing.waiting import PATIENCE_SECONDS, until
from numakube_pages import live_updates as live_module
from numakube_pages.dashboard import PREFIX
from numakube_pages.live_updates import Live

if TYPE_CHECKING:
    import aiohttp

    from numakube_pages.page_source import Source


async def next_event(response: aiohttp.ClientResponse) -> tuple[str, Any]:
    """Return name and data of the next event; comments have the name ``:``."""
    name = ""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            line = (await response.content.readline()).decode().rstrip("\n")
            if line.startswith(":"):
                return ":", line
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: "):
                return name, msgspec.json.decode(line.removeprefix("data: "))
            elif not line and response.content.at_eof():
                return "end", None


async def events_of(response: aiohttp.ClientResponse, name: str) -> Any:
    """Return the data of the next event with that name."""
    while True:
        found, data = await next_event(response)
        if found == name:
            return data
        assert found != "end"


@pytest.fixture
def source() -> Source:
    """Return a small cluster."""
    source = empty_source()
    small_world(source)
    return source


async def test_a_page_is_told_when_it_is_out_of_date(source: Source) -> None:
    """Changes of a moment are told at once."""
    async with served(source) as visitor, visitor.get(f"{PREFIX}events") as stream:
        assert stream.content_type == "text/event-stream"
        before = source.version
        for number in range(100):
            source.pods.put(pod_object(f"new-{number}"))
        told = await events_of(stream, "page")
        assert told["version"] > before
        source.pods.put(pod_object("last"))
        while told["version"] != source.version:
            told = await events_of(stream, "page")


async def test_a_page_about_one_node_is_told_of_that_node_only(source: Source) -> None:
    """Its report, its pods, itself."""
    async with (
        served(source, live=Live(source, pause=0.01)) as visitor,
        visitor.get(f"{PREFIX}events?topic=node/node-1") as stream,
    ):
        source.pods.put(pod_object("elsewhere", node="node-2"))
        source.topologies.put(report_of("node-3", kubelet(), version=2))
        source.pods.put(pod_object("here", node="node-1"))
        version = source.version
        assert (await events_of(stream, "page"))["version"] == version
        source.topologies.put(report_of("node-1", kubelet(), version=3))
        assert (await events_of(stream, "page"))["version"] == version + 1


async def test_the_map_is_told_which_rows_changed(source: Source) -> None:
    """From where the page is."""
    heat = await source.zone_book.heat("cpu")
    where = f"resource=cpu&layout={heat['layout']}&version={heat['version']}"
    async with served(source) as visitor, visitor.get(f"{PREFIX}events?{where}") as stream:
        source.topologies.put(report_of("node-2", kubelet(), version=2))
        news = await events_of(stream, "map")
        assert [row[0] for row in news["rows"]] == [heat["nodes"].index("node-2")]
        source.nodes.put(node_object("another"))
        assert "rows" not in await events_of(stream, "map")


async def test_a_page_that_missed_something_is_told_at_once(source: Source) -> None:
    """Between loading the map and listening."""
    heat = await source.zone_book.heat("cpu")
    source.topologies.put(report_of("node-2", kubelet(), version=2))
    where = f"resource=cpu&layout={heat['layout']}&version={heat['version']}"
    async with served(source) as visitor, visitor.get(f"{PREFIX}events?{where}") as stream:
        assert len((await events_of(stream, "map"))["rows"]) == 1


async def test_silence_is_broken_by_heartbeats(source: Source) -> None:
    """So that nobody takes the stream for dead."""
    live = Live(source, heartbeat=0.01)
    async with served(source, live=live) as visitor, visitor.get(f"{PREFIX}events") as stream:
        await events_of(stream, ":")


async def test_a_page_is_told_when_its_server_loses_the_cluster() -> None:
    """And when it is back; the page is to be read again for what it says of it."""
    trouble = [""]
    source = empty_source(missing=lambda: trouble[0])
    live = Live(source, glance=0.01)
    async with served(source, live=live) as visitor, visitor.get(f"{PREFIX}events") as stream:
        assert await next_event(stream) == ("state", {"missing": ""})
        for text in ("nodes: the API server is away", ""):
            trouble[0] = text
            assert await next_event(stream) == ("state", {"missing": text})
            assert (await next_event(stream))[0] == "page"


async def test_streams_end_with_the_server(source: Source) -> None:
    """Which would wait for them otherwise."""
    live = Live(source)
    async with served(source, live=live) as visitor, visitor.get(f"{PREFIX}events") as stream:
        await events_of(stream, "state")
        live.close()
        assert await next_event(stream) == ("end", None)
        async with visitor.get(f"{PREFIX}events") as refused:
            assert refused.status == 503


async def test_a_stream_that_is_left_is_forgotten(source: Source) -> None:
    """It holds nothing."""
    live = Live(source, heartbeat=0.01)
    async with served(source, live=live) as visitor:
        async with visitor.get(f"{PREFIX}events") as stream:
            await next_event(stream)
            assert live.streams == 1
            stream.close()
        await until(lambda: live.streams == 0)


async def test_too_many_streams_are_refused(
    source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With when to come again."""
    monkeypatch.setattr(live_module, "MOST_STREAMS", 0)
    async with served(source) as visitor, visitor.get(f"{PREFIX}events") as refused:
        assert refused.status == 503
        assert refused.headers["Retry-After"]


@pytest.mark.parametrize("query", ["topic=pod/a", "layout=x&version=-1&resource=%00", "topic=/"])
async def test_nonsense_in_the_address_does_no_harm(source: Source, query: str) -> None:
    """It is told of everything, or of nothing."""
    live = Live(source, heartbeat=0.01)
    async with (
        served(source, live=live) as visitor,
        visitor.get(f"{PREFIX}events?{query}") as stream,
    ):
        assert stream.status == 200
        await events_of(stream, ":")
