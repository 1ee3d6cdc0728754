"""The page of what happened over days."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import aiohttp
import pytest
from packages.pages.tests.serving import page, served, words
from packages.pages.tests.test_process import kubeconfig_in, running
from packages.pages.tests.world import empty_source
from packages.planning.tests.history.answers import Answers

from kube_lab_server import ApiServer
from numakube.errors import ClusterUnreachable, ConfigError, NumakubeError
from numakube.kube.clock import ManualClock
from numakube_pages.history_view import History
from numakube_planning.history.cluster_report import ClusterReport, ReportedDay, Use

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "<script>alert(1)</script>"


def report(days: int) -> ClusterReport:
    """Return so many days, of which the last was not recorded."""
    known = ReportedDay(
        date="2026-11-18",
        resources={
            "cpu": Use(allocatable=100, used=60, stranded=25),
            EVIL: Use(allocatable=1, used=1, stranded=0),
        },
        placed=1234,
        median_wait_seconds=0.5,
        waiting={"NodeResourceTopologyMatch": 3.0, EVIL: 1.0},
        rejected={"TopologyAffinityError": 2.0},
        misaligned={},
    )
    unknown = ReportedDay(date="2026-11-19")
    return ClusterReport(source=EVIL, days=(known,) * (days - 1) + (unknown,), summary=(EVIL,))


async def test_without_a_record_the_page_says_where_one_comes_from() -> None:
    async with served(empty_source()) as visitor:
        assert "numakube dashboard --prometheus" in words(await page(visitor, "history"))


async def test_days_are_drawn_and_told_and_unknown_is_not_zero() -> None:
    async def recorded(days: int) -> ClusterReport:
        return report(days)

    history = History(recorded, ManualClock())
    async with served(empty_source(), history=history) as visitor:
        text = await page(visitor, "history?days=30")
    assert EVIL not in text
    assert text.count("2026-11-18: 60 % used, 25 % stranded") == 29
    assert text.count("2026-11-19: not recorded") == 2
    told = words(text)
    assert "On average 60 % used, 25 % stranded" in told
    assert "2026-11-18 1,234 0.5 s 4 NodeResourceTopologyMatch 3" in told
    assert "2026-11-19 \N{EN DASH} \N{EN DASH} \N{EN DASH}" in told


@pytest.mark.parametrize("asked", ["", "?days=8", "?days=-1", "?days=999999999999", "?days=x"])
async def test_nobody_can_ask_for_other_spans(asked: str) -> None:
    spans = []

    async def recorded(days: int) -> ClusterReport:
        spans.append(days)
        return report(days)

    async with served(empty_source(), history=History(recorded, ManualClock())) as visitor:
        await page(visitor, f"history{asked}")
    assert spans == [7]


async def test_many_readers_ask_once_and_trouble_is_told_and_soon_forgotten() -> None:
    clock, calls = ManualClock(), []
    answers: list[ClusterReport | NumakubeError] = [
        ClusterUnreachable("no route to it"),
        ConfigError("it is empty"),
        report(7),
        report(7),
    ]

    async def recorded(days: int) -> ClusterReport:
        calls.append(days)
        answer = answers[len(calls) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer

    history = History(recorded, clock)
    assert await history.view(7) == await history.view(7) == "no route to it"
    await clock.advance(16)
    assert await history.view(7) == "it is empty"
    await clock.advance(16)
    found = await history.view(7)
    await clock.advance(500)
    assert await history.view(7) is found
    await clock.advance(200)
    assert await history.view(7) is not found
    assert calls == [7] * 4


async def test_the_dashboard_shows_what_prometheus_keeps(tmp_path: Path) -> None:
    with Answers() as prometheus:
        prometheus.series = {
            "numakube_zone_allocatable": [({"resource": "cpu"}, [100] * 7)],
            "numakube_zone_available": [({"resource": "cpu"}, [40] * 7)],
        }
        thread = threading.Thread(target=prometheus.serve_forever, daemon=True)
        thread.start()
        try:
            async with ApiServer() as server, aiohttp.ClientSession() as session:
                line = (
                    "--kubeconfig",
                    kubeconfig_in(tmp_path, server.url),
                    "--prometheus",
                    prometheus.url,
                )
                async with running(*line) as url, session.get(f"{url}history") as response:
                    assert "On average 60 % used" in await response.text()
        finally:
            prometheus.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (("--prometheus", "nonsense"), "neither a URL nor NAMESPACE/SERVICE"),
        (("--prometheus", "http://a", "--prometheus-token-file", "/token"), "/token: No such file"),
        (("--prometheus", "a/b", "--from", "bundle.tar.gz"), "tells of a live cluster"),
    ],
)  # fmt: skip
async def test_what_cannot_be_asked_is_refused_at_the_start(
    line: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    config = kubeconfig_in(tmp_path, "http://127.0.0.1:1")
    with pytest.raises(ConfigError, match=words):
        async with running("--kubeconfig", config, *line):
            pass
