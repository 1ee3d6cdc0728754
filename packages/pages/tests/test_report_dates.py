"""Since when reports are as they are, and whether what is shown is up to date."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, TypeAlias

import pytest
from packages.pages.tests.serving import page, served, words
from packages.pages.tests.world import empty_source, kubelet, node_object, report_of

from kube_lab_server import ApiServer
from numakube.errors import ApiError, ClusterUnreachable, Expired, Forbidden
from numakube.insight.facts import ClusterFacts
from numakube.kube import catalog
from numakube.kube.client import Client
from numakube.kube.clock import ManualClock, SystemClock
from numakube.kube.store import Store
from numakube.topology.model_report import nrt_of
from numakube_lab.exporters import install_definition
from numakube_lab.inprocess_transport import InProcess
from numakube_pages.page_source import Age, Source, missing_of, report_dates

Dates: TypeAlias = Callable[[], Awaitable[Mapping[str, datetime]]]


def known_before(clock: ManualClock, dates: Dates) -> Source:
    """Return a source whose process has known a node and its report before anybody looked."""
    source = Source(nodes=Store(), pods=Store(), topologies=Store(), clock=clock, dates=dates)
    source.nodes.put(node_object("a"))
    source.topologies.put(report_of("a", kubelet()))
    return source


async def test_a_report_of_twenty_minutes_is_shown_as_that_on_the_first_visit() -> None:
    """Though the dashboard has only just begun to look."""
    clock = ManualClock()

    async def dates() -> Mapping[str, datetime]:
        return {"a": clock.now() - timedelta(minutes=20), "gone": clock.now()}

    source = known_before(clock, dates)
    async with served(source) as visitor:
        assert "1 less than an hour ago" in words(await page(visitor))
        assert "Last change 20m ago" in words(await page(visitor, "nodes/a"))
        source.topologies.put(report_of("b", kubelet()))
        assert source.report_age("b") == Age(0.0)
        source.topologies.put(report_of("a", kubelet(), version=2))
        assert "Last change 0s ago" in words(await page(visitor, "nodes/a"))


async def test_what_nobody_knows_is_not_invented() -> None:
    """It is said to be older than the dashboard, and a bundle does not tell at all."""
    clock = ManualClock()

    async def dates() -> Mapping[str, datetime]:
        raise Forbidden("no", code=403)

    source = known_before(clock, dates)
    async with served(source) as visitor:
        assert "1 at a time that is not known" in words(await page(visitor))
        await clock.advance(90)
        assert "Last change over 90s ago" in words(await page(visitor, "nodes/a"))
    frozen = empty_source(facts=ClusterFacts(taken_at="2026-11-15T12:00:00Z"))
    frozen.nodes.put(node_object("a"))
    frozen.topologies.put(report_of("a", kubelet()))
    async with served(frozen) as visitor:
        assert "1 at a time that is not known" in words(await page(visitor))
        assert "Last change not told" in words(await page(visitor, "nodes/a"))


async def test_the_server_knows_when_a_report_was_written() -> None:
    """By the notes that it keeps of writers."""
    async with ApiServer() as server:
        client = Client(InProcess(server), rate=0)
        await install_definition(client)
        await client.create(catalog.NODE_RESOURCE_TOPOLOGIES, nrt_of("a", kubelet()))
        found = await report_dates(client)
    now = SystemClock().now()
    assert found.keys() == {"a"}
    assert timedelta() <= now - found["a"] < timedelta(minutes=5)


def watching(name: str, error: Exception | None = None, *, synced: bool = True) -> Any:
    """Return as much of a reflector as is asked for what it misses."""

    class Named(SimpleNamespace):
        def __str__(self) -> str:
            return name

    return Named(last_error=error, synced=SimpleNamespace(is_set=lambda: synced))


@pytest.mark.parametrize(
    ("error", "words_of_it"),
    [
        (None, ""),
        (Expired("too old", code=410), ""),
        (
            ClusterUnreachable("GET /api/v1/pods: 10.0.0.1:6443 refused the connection"),
            "the API server cannot be reached (10.0.0.1:6443 refused the connection)",
        ),
    ],
)
def test_what_is_missing_is_said_once(error: Exception | None, words_of_it: str) -> None:
    """However many watches miss it; a watch that only has to begin again misses nothing."""
    assert missing_of([watching("nodes", error), watching("pods", error)]) == words_of_it
    assert missing_of([watching("pods", synced=False)]) == "pods are not listed yet"
    refused = ApiError("no", code=500)
    assert missing_of([watching("nodes"), watching("pods", refused)]) == f"pods: {refused}"
