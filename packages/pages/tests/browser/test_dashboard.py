"""The dashboard in a real browser."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from urllib.parse import urlsplit

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from packages.pages.tests.browser.audit import OVERFLOW, problems_of
from packages.pages.tests.browser.devtools import Browser, Page
from packages.pages.tests.world import (
    counted_report,
    empty_source,
    kubelet,
    large_world,
    node_object,
    pod_object,
    report_of,
    small_world,
)

from numakube.testing import turns
from numakube_pages.dashboard import PREFIX, Dashboard
from numakube_pages.live_updates import Live
from numakube_pages.page_access import Gate
from numakube_pages.page_source import Source

pytestmark = [pytest.mark.asyncio(loop_scope="module"), pytest.mark.timeout(300)]

STARTED = "document.documentElement.dataset.started === 'yes'"
LIVE = "document.getElementById('live').dataset.state === 'on'"
STATUS = "document.getElementById('map-status').textContent"
CHOOSE = """((id, value) => {
  const one = document.getElementById(id);
  one.value = value;
  one.dispatchEvent(new Event(one.tagName === "SELECT" ? "change" : "input"));
})"""
PAGES = (
    "",
    "?shape=cpu=4&group=pool",
    "?shape=nonsense",
    "search?q=node-",
    "nodes",
    "nodes/node-4",
    "nodes/node-7",
    "pods",
    "pods/default/wide-0",
    "pods/default/unlucky",
    "pending",
    "mispredictions",
    "caches",
    "history",
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


async def into_map(page: Page) -> None:
    """Give the keys to the map. One without data yet ignores them."""
    await page.until("document.querySelector('#map canvas.painted') !== null")
    await page.evaluate("document.querySelector('#map canvas').focus()")


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
        await into_map(page)
        for key in ("Home", "ArrowRight", "ArrowDown", "+", "-", "0"):
            await page.press(key)
        await page.until(f"/used by zone|no usable report/.test({STATUS})")
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
        choose = CHOOSE
        for text, count in (
            ("node-3", 1),
            ("pool=web", 4),
            ("pool!=web node-3", 1),
            ("is:stale", 1),
        ):
            await page.evaluate(f"{choose}('map-filter', '{text}')")
            await page.until(f"{STATUS} === '{count} of 8 nodes'")
        await page.evaluate(f"{choose}('map-filter', '')")
        await page.until(f"{STATUS} === '8 nodes with 4 NUMA zones each'")
        await page.evaluate(f"{choose}('map-resource', 'vendor.example/gpu')")
        await page.evaluate(f"{choose}('map-order', 'high')")
        await into_map(page)
        await page.press("Home")
        await page.until(
            "document.getElementById('map-status').textContent.includes('vendor.example/gpu')"
        )
        assert page.complaints == []
        await page.close()


@pytest.mark.parametrize("measure", ["used", "free", "stranded", "largest"])
async def test_colours_of_the_map_mean_what_the_reader_chooses(
    browser: Browser, measure: str
) -> None:
    """The legend says so, and so does the line for those who do not see colours."""
    async with small_site() as site:
        page = await opened(browser, site.url)
        await page.until(LIVE)
        await page.evaluate(f"{CHOOSE}('map-measure', '{measure}')")
        words = "largest free" if measure == "largest" else measure
        await page.until(f"document.getElementById('map-high').textContent === '100 % {words}'")
        await into_map(page)
        await page.press("Home")
        value = 0 if measure in ("used", "stranded") else 100
        await page.until(f"{STATUS}.startsWith('node-0, cpu {words} by zone: 0: {value} %')")
        assert "not ready" in await page.evaluate(
            "document.getElementById('map-kinds').textContent"
        )
        assert page.complaints == []
        await page.close()


async def test_groups_of_the_map_are_walked_by_keys(browser: Browser) -> None:
    """From one group into the next; slots without a node are passed over."""
    async with small_site() as site:
        page = await opened(browser, site.url)
        await page.evaluate(f"{CHOOSE}('map-group', 'pool')")
        await into_map(page)
        await page.press("Home")
        await page.until(f"{STATUS}.startsWith('node-1')")
        for _ in range(4):
            await page.press("ArrowRight")
        await page.until(f"{STATUS}.startsWith('node-0')")
        await page.press("ArrowLeft")
        await page.until(f"{STATUS}.startsWith('node-7')")
        await page.press("End")
        await page.until(f"{STATUS}.startsWith('node-6')")
        assert "not ready" in await page.evaluate(STATUS)
        assert page.complaints == []
        await page.close()


async def test_the_box_says_what_fits_and_colours_the_map(browser: Browser) -> None:
    """Without leaving the page; what is no shape is said, and colours nothing."""
    ask = """((text) => {
      document.getElementById("shape").value = text;
      document.getElementById("whatif-form").requestSubmit();
    })"""
    answer = "document.getElementById('whatif').textContent"
    async with small_site() as site:
        page = await opened(browser, site.url)
        await page.until(LIVE)
        await page.evaluate(f"{ask}('cpu=8,memory=8Gi')")
        await page.until(f"{answer}.includes('more such pods fit')")
        await page.until("document.getElementById('map-measure').value === 'fits'")
        assert "shape=cpu" in await page.evaluate("location.search")
        await into_map(page)
        await page.press("Home")
        assert await page.until(f"/^node-0: [1-9]\\d* pods fit$/.test({STATUS})")
        for name in [f"node-{number}" for number in range(8)]:
            site.source.nodes.put(node_object(name, cordoned=True, version=2))
        await page.until(f"{answer}.includes('0 more such pods fit')")
        await page.until(f"{STATUS}.startsWith('node-0: 0 pods fit')")
        await page.evaluate(f"{ask}('cpu=lots')")
        await page.until(f"{answer}.includes('is not an amount')")
        await page.until("document.getElementById('map-measure').value === 'used'")
        assert page.complaints == []
        await page.close()


async def test_no_page_claims_to_be_live_while_its_server_has_lost_the_cluster(
    browser: Browser,
) -> None:
    """The badge and the notice come and go together."""
    trouble = [""]
    source = empty_source(missing=lambda: trouble[0])
    small_world(source)
    async with site_of(source) as site:
        page = await opened(browser, site.url)
        await page.until(LIVE)
        trouble[0] = "nodes: the API server cannot be reached"
        await page.until("document.getElementById('live').textContent === 'not live'")
        await page.until("document.getElementById('notices').textContent.includes('be reached')")
        late = await opened(browser, f"{site.url}nodes")
        await late.until("document.getElementById('live').dataset.state === 'lost'")
        await late.close()
        trouble[0] = ""
        await page.until("document.getElementById('live').textContent === 'live'")
        await page.until("document.getElementById('notices').textContent === ''")
        await page.close()


async def test_on_a_phone_pods_show_their_state_and_all_pages_can_be_reached(
    browser: Browser,
) -> None:
    """Without scrolling sideways."""
    seen = """((selector) => {
      const box = document.querySelector(selector).getBoundingClientRect();
      return box.width > 0 && box.left >= 0 && box.right <= innerWidth;
    })"""
    async with small_site() as site:
        name = "a-deployment-with-a-rather-long-name-5d8f7c9b6d-x2x7q"
        site.source.pods.put(pod_object(name, namespace="a-team-of-many-words"))
        page = await opened(browser, site.url, width=390, height=844)
        for path in ("pods?sort=name", "pods/default/wide-0", "search?q=long-name", "nodes/node-4"):
            await page.go(site.url + path)
            await page.until(STARTED)
            assert await page.evaluate(f"{seen}('nav a[href$=caches]')"), path
            if path != "pods/default/wide-0":
                assert await page.evaluate(f"{seen}('.pods tbody .badge')"), path
        await page.close()


async def test_an_overview_of_few_nodes_has_no_hole(browser: Browser) -> None:
    """The table follows the map, whatever stands beside it."""
    gap = """(() => {
      const bottom = document.querySelector(".map").getBoundingClientRect().bottom;
      return document.getElementById("nodes-title").getBoundingClientRect().top - bottom;
    })()"""
    async with small_site() as site:
        page = await opened(browser, site.url, width=1400, height=900)
        await page.until(f"{STATUS} !== ''")
        await page.until(f"{gap} > 0 && {gap} < 60")
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
        await into_map(page)
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
        button = await page.evaluate("document.getElementById('theme').textContent")
        assert button == "Colours: Light"
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
        await into_map(page)
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
