"""The dashboard in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.apps.dashboard.world import (
    counted_report,
    empty_source,
    kubelet,
    large_world,
    pod_object,
    report_of,
    small_world,
)
from tests.browser.audit import OVERFLOW, problems_of
from tests.browser.devtools import Browser, Page
from tests.waiting import turns

from numakube.apps.dashboard.dashboard import PREFIX, Dashboard
from numakube.apps.dashboard.gate import Gate
from numakube.apps.dashboard.live import Live
from numakube.apps.dashboard.source import Source

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

STARTED = "document.documentElement.dataset.started === 'yes'"
LIVE = "document.getElementById('live').dataset.state === 'on'"
PAGES = (
    "",
    "nodes",
    "nodes/node-4",
    "nodes/node-7",
    "pods",
    "pods/default/wide-0",
    "pods/default/unlucky",
    "pending",
    "mispredictions",
    "caches",
    "login",
    "nodes/nowhere",
)


class Site:
    """A dashboard that is served."""

    def __init__(self, source: Source, dashboard: Dashboard, url: str) -> None:
        self.source = source
        self.dashboard = dashboard
        self.url = url


@asynccontextmanager
async def site_of(source: Source) -> AsyncIterator[Site]:
    """Serve *source*."""
    gate = Gate(source.clock, host="127.0.0.1", path=PREFIX)
    dashboard = Dashboard(source, gate=gate, live=Live(source, pause=0.05))
    application = web.Application()
    application.add_routes(dashboard.routes(at_root=True))
    server = TestServer(application)
    await server.start_server()
    try:
        yield Site(source, dashboard, str(server.make_url(PREFIX)))
    finally:
        dashboard.close()
        await server.close()


@asynccontextmanager
async def small_site() -> AsyncIterator[Site]:
    """Serve a small cluster that has everything."""
    source = empty_source()
    small_world(source)
    async with site_of(source) as site:
        yield site


async def opened(browser: Browser, url: str, **others: bool | int) -> Page:
    """Return a page whose scripts have started."""
    page = await browser.open(url, **others)  # type: ignore[arg-type]
    await page.until(STARTED)
    return page


def unexpected(page: Page) -> list[str]:
    """Return the complaints of the browser, but for the page that is not there on purpose."""
    return [text for text in page.complaints if "nowhere" not in text]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
async def test_pages_render_for_everybody(browser: Browser, *, dark: bool) -> None:
    """No complaint, nothing from elsewhere, no sideways scrolling; structure, names, contrast."""
    async with small_site() as site:
        page = await opened(browser, site.url, dark=dark)
        for path in PAGES:
            await page.go(site.url + path)
            await page.until(STARTED)
            assert await problems_of(page) == [], path
            for width in (360, 1440):
                await page.resize(width, 900)
                assert await page.evaluate(OVERFLOW) == [], (path, width)
        assert unexpected(page) == []
        host = urlsplit(site.url).netloc
        assert {urlsplit(url).netloc for url in page.requests} <= {host, ""}
        await page.close()


async def test_the_map_of_a_large_cluster_is_drawn_and_steered(
    browser: Browser, record_property: Callable[[str, object], None]
) -> None:
    """5,000 nodes of 8 zones: painted, zoomed, panned, pointed at, walked by keys, opened."""
    source = empty_source()
    large_world(source)
    async with site_of(source) as site:
        page = await opened(browser, site.url)
        await page.until("document.getElementById('map-status').textContent.startsWith('5000 ')")
        colours = """(() => {
          const canvas = document.querySelector("#map canvas");
          const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
          return new Set(new Uint32Array(data.buffer)).size;
        })()"""
        await page.until("document.querySelector('#map').dataset.frameMilliseconds")
        assert await page.evaluate(colours) > 10
        box = await page.evaluate(
            "(() => { const r = document.querySelector('#map canvas').getBoundingClientRect();"
            " return [r.x, r.y, r.width, r.height]; })()"
        )
        x, y = box[0] + 40, box[1] + 40
        await page.mouse("mouseMoved", x, y)
        tip = await page.until("document.getElementById('map-tip').textContent")
        assert "cpu used" in tip or "no usable report" in tip
        await page.evaluate("document.querySelector('[data-zoom=\"1\"]').click()")
        await page.mouse("mousePressed", x, y, button="left", buttons=1, clickCount=1)
        await page.mouse("mouseMoved", x - 30, y - 20, button="left", buttons=1)
        await page.mouse("mouseReleased", x - 30, y - 20, button="left", clickCount=1)
        assert await page.evaluate("location.pathname") == PREFIX
        await page.evaluate("document.querySelector('#map canvas').focus()")
        for key in ("Home", "ArrowRight", "ArrowDown", "+", "-", "0"):
            await page.press(key)
        said = await page.until("document.getElementById('map-status').textContent")
        assert "used by zone" in said or "no usable report" in said
        frame = await page.evaluate("document.querySelector('#map').dataset.frameMilliseconds")
        record_property("frame_milliseconds", frame)
        print(f"one frame of 40,000 cells: {frame} ms")  # noqa: T201 - the figure is the report
        await page.press("Home")
        await page.press("Enter")
        await page.until(f"location.pathname === '{PREFIX}nodes/rack000-node00'")
        await page.until(STARTED)
        assert page.complaints == []
        await page.close()


async def test_the_order_and_the_filter_of_the_map_are_the_readers(browser: Browser) -> None:
    """So is the resource."""
    async with small_site() as site:
        page = await opened(browser, site.url)
        choose = """((id, value) => {
          const one = document.getElementById(id);
          one.value = value;
          one.dispatchEvent(new Event(one.tagName === "SELECT" ? "change" : "input"));
        })"""
        await page.evaluate(f"{choose}('map-filter', 'node-3')")
        await page.until("document.getElementById('map-status').textContent === '1 of 8 nodes'")
        await page.evaluate(f"{choose}('map-filter', '')")
        await page.evaluate(f"{choose}('map-resource', 'vendor.example/gpu')")
        await page.evaluate(f"{choose}('map-order', 'used')")
        await page.evaluate("document.querySelector('#map canvas').focus()")
        await page.press("Home")
        await page.until(
            "document.getElementById('map-status').textContent.includes('vendor.example/gpu')"
        )
        assert page.complaints == []
        await page.close()


async def test_an_open_page_follows_the_cluster(browser: Browser) -> None:
    """Figures, table and map; the focus stays where it was."""
    async with small_site() as site:
        page = await opened(browser, site.url)
        await page.until(LIVE)
        await page.evaluate("document.querySelector('#nodes a[href$=\"nodes/node-2\"]').focus()")
        site.source.pods.put(pod_object("one-more", message="0/8 nodes are available: 8 no."))
        await page.until("document.getElementById('stats').textContent.includes('6')")
        await page.until("document.getElementById('waiting').textContent.includes('no')")
        focus = "document.activeElement.getAttribute('href')"
        assert await page.evaluate(focus) == f"{PREFIX}nodes/node-2"
        await page.evaluate("document.querySelector('#map canvas').focus()")
        await page.press("Home")
        await page.until("document.getElementById('map-status').textContent.includes('0: 0 %')")
        model = kubelet()
        for number in range(8):
            model.admit(pod_object(f"filler-{number}", cpu="6", memory="2Gi", node="node-0"))
        site.source.topologies.put(report_of("node-0", model, version=5))
        await page.until("!document.getElementById('map-status').textContent.includes('3: 0 %')")
        assert page.complaints == []
        await page.close()


async def test_a_page_connects_again(browser: Browser) -> None:
    """And catches up with what it missed."""
    async with small_site() as site:
        page = await opened(browser, f"{site.url}pods?q=late")
        await page.until(LIVE)
        site.dashboard.live.close()
        await page.until("document.getElementById('live').dataset.state === 'lost'")
        site.source.pods.put(pod_object("late"))
        site.dashboard.live = Live(site.source, pause=0.05)
        await page.until(LIVE)
        await page.until("document.getElementById('pods').textContent.includes('late')")
        await page.close()


async def test_a_nodes_drawing_is_live(browser: Browser) -> None:
    """Who holds which CPU."""
    async with small_site() as site:
        page = await opened(browser, f"{site.url}nodes/node-0")
        await page.until(LIVE)
        assert await page.evaluate("document.querySelectorAll('#drawing .cpu').length") == 64
        assert await page.evaluate("document.querySelectorAll('#drawing .cpu.owned').length") == 0
        model, pod = kubelet(), pod_object("arrived", cpu="6", memory="2Gi", node="node-0")
        model.admit(pod)
        site.source.pods.put(pod)
        site.source.topologies.put(report_of("node-0", model, version=5))
        await page.until("document.querySelectorAll('#drawing .cpu.owned').length === 6")
        assert "arrived" in await page.evaluate("document.getElementById('drawing').textContent")
        assert page.complaints == []
        await page.close()


async def test_keys_lead_everywhere(browser: Browser) -> None:
    """The first is the link to the content; the focus can be seen."""
    async with small_site() as site:
        page = await opened(browser, site.url)
        await page.press("Tab")
        assert await page.evaluate("document.activeElement.className") == "skip"
        assert await page.evaluate("document.activeElement.getBoundingClientRect().top >= 0")
        await page.press("Enter")
        await page.until("document.activeElement.id === 'main'")
        await page.press("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert await page.evaluate(outline) != "none"
        await page.press("/")
        await page.until("document.activeElement.id === 'search'")
        await page.evaluate("document.activeElement.blur()")
        await page.press("g")
        await page.press("w")
        await page.until(f"location.pathname === '{PREFIX}pending'")
        await page.close()


async def test_colours_follow_the_system_until_the_reader_chooses(browser: Browser) -> None:
    """The choice is kept."""
    shade = "getComputedStyle(document.body).backgroundColor.match(/\\d+/)[0]"
    async with small_site() as site:
        page = await opened(browser, site.url)
        assert int(await page.evaluate(shade)) > 200
        await page.prefer("dark")
        await page.until(f"{shade} < 60")
        await page.evaluate("document.getElementById('theme').click()")
        await page.until(f"{shade} > 200")
        await page.go(f"{site.url}nodes")
        await page.until(STARTED)
        assert int(await page.evaluate(shade)) > 200
        assert await page.evaluate("document.getElementById('theme').textContent") == "Light"
        await page.evaluate("localStorage.clear()")
        await page.close()


async def test_without_scripts_the_tables_are_there(browser: Browser) -> None:
    """Sorted and turned by links."""
    source = empty_source()
    large_world(source, nodes=120)
    async with site_of(source) as site:
        page = await browser.open("about:blank")
        await page.without_scripts()
        await page.go(f"{site.url}?sort=-name")
        text = await page.text()
        assert "rack002-node39" in text
        assert "1\N{EN DASH}50 of 120" in text
        assert "The map needs JavaScript" in text
        await page.close()


async def test_a_page_stays_fluid_while_everything_changes(browser: Browser) -> None:
    """Hundreds of reports a second reach the map in bounded messages."""
    source = empty_source()
    large_world(source, nodes=1000)
    random = Random(5)
    async with site_of(source) as site:
        page = await opened(browser, site.url)
        await page.until(LIVE)
        await page.evaluate("document.querySelector('#map canvas').focus()")
        await page.press("Home")
        for turn in range(2, 8):
            for number in range(300):
                name = f"rack{number // 40:03}-node{number % 40:02}"
                load = 2.0 if turn == 7 else random.random()
                report = counted_report(name, random, zones=8, load=load, version=turn)
                source.topologies.put(report)
            await turns()
        await page.until("document.getElementById('map-status').textContent.includes('7: 100 %')")
        assert page.complaints == []
        await page.close()
