"""The pages as HTML."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING
from urllib.parse import quote

import msgspec
import pytest
from packages.pages.tests.serving import page, served, words
from packages.pages.tests.world import (
    empty_source,
    kubelet,
    large_world,
    node_object,
    pod_object,
    report_of,
    small_world,
)

from numakube.api.nrt import Attribute
from numakube.insight.facts import ClusterFacts
from numakube.kube.clock import SystemClock
from numakube.kube.resource_types import key_of
from numakube.values.display import amount_text
from numakube_pages.dashboard import PREFIX
from numakube_pages.pages import amount

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from packages.pages.tests.serving import Visitor

    from numakube_pages.page_source import Source

PAGES = ("", "nodes", "pods", "pending", "mispredictions", "caches", "history")
EVIL = "<script>alert(1)\"'><img src=x onerror=alert(2)>{{7*7}}"


@pytest.fixture
def source() -> Source:
    """Return a small cluster that has everything."""
    source = empty_source()
    small_world(source)
    return source


@pytest.fixture
async def visitor(source: Source) -> AsyncIterator[Visitor]:
    """Return somebody who visits its dashboard."""
    async with served(source) as visitor:
        yield visitor


class Outline(HTMLParser):
    """Collects what matters for structure: elements, headings, ids, attributes that run code."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take an element."""
        self.elements.append((tag, dict(attrs)))


async def test_the_overview_counts_what_there_is(visitor: Visitor) -> None:
    """Nodes, zones, pods by state, reports."""
    shown = words(await page(visitor))
    assert "Nodes ready 7 of 8" in shown
    assert "NUMA zones 28" in shown
    assert "Pods waiting 5" in shown
    assert "Refused by kubelets 1" in shown
    assert "3 cannot align container (cpu: best zone has 10 of 20)" in shown
    assert "1 node with a stale report" in shown
    assert "When reports last changed 7 less than a minute ago" in shown
    assert "Mispredictions not known here" in shown


async def test_the_first_address_leads_to_the_overview(visitor: Visitor) -> None:
    """With and without the slash."""
    for path in ("/", PREFIX.rstrip("/")):
        async with visitor.get(path, allow_redirects=False) as response:
            assert (response.status, response.headers["Location"]) == (302, PREFIX)


async def test_a_node_page_tells_zones_pods_kubelet_and_problems(visitor: Visitor) -> None:
    """As the node's report has it."""
    shown = words(await page(visitor, "nodes/node-4"))
    assert "Topology Manager single-numa-node scope container" in shown
    assert "CPU Manager static" in shown
    assert "report is stale: the kubelet does not answer" in shown
    assert "exact: CPUs, memory and devices by pod" in shown
    assert re.search(r"worker-4-0 Running Guaranteed \d cpu", shown)
    assert re.search(r"zone \d \d cpu", shown)


async def test_a_node_without_a_report_says_what_to_look_for(visitor: Visitor) -> None:
    """Instead of an empty table."""
    assert "no exporter has reported it" in words(await page(visitor, "nodes/node-7"))


async def test_what_does_not_exist_is_a_page_too(visitor: Visitor) -> None:
    """With status 404."""
    assert "There is no node nope." in await page(visitor, "nodes/nope", status=404)
    assert "There is no pod a/b." in await page(visitor, "pods/a/b", status=404)
    assert "There is no such page." in await page(visitor, "no/such/page", status=404)


async def test_a_page_that_is_missing_has_the_way_on(visitor: Visitor) -> None:
    """Navigation and search, as everywhere."""
    text = await page(visitor, "nodes/nope", status=404)
    assert '<nav aria-label="Pages">' in text
    assert 'id="search"' in text


async def test_amounts_are_those_of_the_command_line(source: Source, visitor: Visitor) -> None:
    """Not the manifest's spelling: 27580Mi is 26.9Gi."""
    model, pod = kubelet(), pod_object("odd", cpu="2", memory="27580Mi", node="node-0")
    model.admit(pod)
    source.pods.put(pod)
    source.topologies.put(report_of("node-0", model, version=9))
    for path in ("pods/default/odd", "nodes/node-0"):
        shown = words(await page(visitor, path))
        assert "27580Mi" not in shown
        assert amount_text("memory", 27580 << 20) in shown


async def test_pods_in_the_drawing_of_a_node_lead_to_their_pages(visitor: Visitor) -> None:
    """From the legend by keys too, from every CPU by pointer; the node's name is not repeated."""
    text = await page(visitor, "nodes/node-4")
    drawing = text.partition('id="drawing"')[2].partition("</svg>")[0]
    legend = re.findall(rf'<a href="{PREFIX}pods/([^"]+)" aria-label="([^"]+)">', drawing)
    assert legend
    assert all(path == name for path, name in legend)
    assert f'<a href="{PREFIX}pods/{legend[0][0]}" tabindex="-1" aria-hidden="true">' in drawing
    assert ">node-4<" not in drawing


async def test_the_search_finds_nodes_and_pods(visitor: Visitor) -> None:
    """By a part of their names."""
    shown = words(await page(visitor, "search?q=node-3"))
    assert re.search(r"Nodes Node State CPU used Pods node-3 ready", shown)
    assert "No pod matches." in shown
    shown = words(await page(visitor, "search?q=wide-1"))
    assert "No node matches." in shown
    assert "wide-1 Pending" in shown
    assert "Type a part of a name" in words(await page(visitor, "search"))


async def test_nodes_are_filtered_by_label_and_by_trouble(visitor: Visitor) -> None:
    """All words have to hold."""
    only = words(await page(visitor, "nodes?q=pool%3Dbatch"))
    assert "node-1" in only
    assert "node-2" not in only
    others = words(await page(visitor, "nodes?q=pool%21%3Dbatch+node-2"))
    assert "1&ndash;1 of 1" in others
    troubled = words(await page(visitor, "nodes?q=is:cordoned"))
    assert "node-5" in troubled
    assert "node-4" not in troubled
    assert f'href="{PREFIX}nodes?q=is:cordoned"' in await page(visitor)


async def test_nodes_are_added_up_by_a_label(visitor: Visitor) -> None:
    """Each group leads to its nodes."""
    text = await page(visitor, "nodes?group=pool")
    assert re.search(r"pool Nodes Zones .* batch 4 12 .* web 4 16 ", words(text))
    assert 'href="?q=pool%3Dbatch"' in text
    assert "<option selected>pool</option>" in text
    assert "hostname</option>" not in text
    missing = words(await page(visitor, "nodes?group=no-such-label"))
    assert "&lt;none&gt; 8 28" in missing


async def test_a_waiting_pod_shows_each_reason(visitor: Visitor) -> None:
    """With the number of nodes that gave it."""
    shown = words(await page(visitor, "pods/default/wide-0"))
    assert "Why it waits" in shown
    assert "6 cannot align container (cpu: best zone has 10 of 20)" in shown
    assert "2 node(s) were unschedulable" in shown


async def test_a_refused_pod_shows_the_kubelets_words(visitor: Visitor) -> None:
    """And when it said them."""
    shown = words(await page(visitor, "pods/default/unlucky"))
    assert "Why it was refused" in shown
    assert "rejected by the kubelet of node-3" in shown


async def test_a_running_pod_shows_the_zones_it_holds(source: Source, visitor: Visitor) -> None:
    """By resource."""
    model = kubelet()
    pod = pod_object("held", cpu="4", memory="8Gi", node="node-0")
    model.admit(pod)
    source.pods.put(pod)
    source.topologies.put(report_of("node-0", model, version=9))
    shown = words(await page(visitor, "pods/default/held"))
    assert re.search(r"Zones zone \d 4 cpu 8Gi memory", shown)


async def test_pods_on_one_side_only_are_named(source: Source, visitor: Visitor) -> None:
    """On the page of reports."""
    source.pods.put(pod_object("newcomer", node="node-1"))
    shown = words(await page(visitor, "caches"))
    assert "other pods" in shown
    assert "default/ newcomer" in shown


async def test_reports_of_missing_nodes_are_listed(source: Source, visitor: Visitor) -> None:
    """With what removes them."""
    source.topologies.put(report_of("ghost", kubelet()))
    shown = words(await page(visitor, "caches"))
    assert "Reports without a node ghost" in shown
    assert "numakube gc" in shown


async def test_tables_are_sorted_and_filtered_by_the_address(visitor: Visitor) -> None:
    """Without a script."""
    shown = words(await page(visitor, "nodes?sort=-name&q=node-"))
    assert shown.index("node-7") < shown.index("node-0")
    only = words(await page(visitor, "nodes?q=node-3"))
    assert "node-3" in only
    assert "node-4" not in only
    assert "No node matches." in words(await page(visitor, "nodes?q=nothing"))
    assert "No pod matches." in words(await page(visitor, "pods?q=nothing"))


async def test_an_empty_cluster_has_pages_as_well() -> None:
    """That say so."""
    async with served(empty_source(missing=lambda: "nodes are not listed yet")) as visitor:
        for path in PAGES:
            assert "nodes are not listed yet" in await page(visitor, path)


async def test_a_recorded_state_is_told_with_its_time() -> None:
    """And nothing claims to be live."""
    source = empty_source(facts=ClusterFacts(taken_at="2026-11-15T12:00:00Z"))
    async with served(source) as visitor:
        shown = await page(visitor)
    assert "recorded 2026-11-15T12:00:00Z" in shown
    assert 'id="live"' not in shown


@pytest.mark.parametrize(
    "path",
    [
        *PAGES,
        "?shape=cpu=4&group=pool",
        "?shape=nonsense",
        "search?q=node",
        "nodes/node-3",
        "pods/default/wide-0",
        "login",
        "nodes/nope",
    ],
)
async def test_pages_are_well_formed_for_readers_and_programs(visitor: Visitor, path: str) -> None:
    """One first heading, unique ids, labelled inputs, table headers, no code in the page."""
    outline = Outline(await page(visitor, path, status=404 if "nope" in path else 200))
    names = [tag for tag, _ in outline.elements]
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert names.count("h1") == 1
    assert names.count("main") == 1
    assert len(ids) == len(set(ids))
    labelled = {attributes.get("for") for tag, attributes in outline.elements if tag == "label"}
    for tag, attributes in outline.elements:
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        if tag == "script":
            assert (attributes.get("src") or "").startswith(f"{PREFIX}static/")
        if tag == "th":
            assert attributes.get("scope") in ("col", "row")
        if tag == "input" and attributes.get("type") != "hidden" and "id" in attributes:
            assert attributes["id"] in labelled or attributes["id"] == "map-filter"


async def test_whatever_a_cluster_says_is_text(source: Source, visitor: Visitor) -> None:
    """Never markup, never a template, never an address outside."""
    pod = pod_object("evil", namespace=EVIL, scheduler=EVIL, message=EVIL)
    labels = msgspec.structs.replace(pod.metadata, labels={EVIL: EVIL})
    source.pods.put(msgspec.structs.replace(pod, metadata=labels))
    source.pods.put(pod_object(EVIL, node=EVIL, refused=EVIL, devices={EVIL: "1"}))
    source.pods.put(pod_object(EVIL, namespace="other", node=EVIL, refused="TopologyAffinityError"))
    source.nodes.put(node_object(EVIL, labels={EVIL: EVIL}))
    model, drawn = kubelet(), pod_object(EVIL, namespace=EVIL, node=EVIL, cpu="2")
    model.admit(drawn)
    source.pods.put(drawn)
    report = report_of(EVIL, model)
    attributes = (*report.attributes, Attribute(name="topologyManagerPolicy", value=EVIL))
    source.topologies.put(msgspec.structs.replace(report, attributes=attributes))
    segment = quote(EVIL, safe="")
    query = f"?q={segment}&sort={segment}&page={segment}&group={segment}&shape={segment}"
    paths = [
        f"search?q={segment}",
        *PAGES,
        *(path + query for path in PAGES),
        f"nodes/{segment}",
        f"nodes/{segment}x",
    ]
    paths += [f"pods/{segment}/evil", f"pods/other/{segment}", f"login?next={segment}"]
    for path in paths:
        text = await page(visitor, path, status=404 if path.endswith("x") else 200)
        assert "<script>alert" not in text, path
        assert "<img" not in text, path
        assert "49" not in text.partition("{{7*7}}")[0][-40:], path
        if path == f"nodes/{segment}":
            assert 'class="numakube-map"' in text
        for tag, values in Outline(text).elements:
            assert not [name for name in values if name.startswith("on")], (path, tag)
            for name in ("href", "src", "action"):
                assert re.match(rf"{PREFIX}|#|\?|$", values.get(name) or ""), (path, values)


async def test_files_are_kept_by_browsers_and_named_by_content(visitor: Visitor) -> None:
    """Another version has another name, and old names are gone."""
    text = await page(visitor)
    address = re.search(rf"{PREFIX}static/\w+/dashboard\.css", text)
    assert address is not None
    async with visitor.get(address[0]) as response:
        assert response.status == 200
        assert response.content_type == "text/css"
        assert "immutable" in response.headers["Cache-Control"]
    for wrong in (f"{PREFIX}static/0/dashboard.css", address[0].replace("dashboard", "no")):
        async with visitor.get(wrong) as response:
            assert response.status == 404


async def test_a_large_cluster_has_pages_of_bounded_size() -> None:
    """And a map of a byte a zone."""
    source = empty_source(SystemClock())
    large_world(source, nodes=1000, zones=8)
    async with served(source) as visitor:
        for path in PAGES:
            assert len(await page(visitor, path)) < 200_000
        async with visitor.get(f"{PREFIX}heat?resource=memory") as response:
            heat = await response.json()
    assert (len(heat["nodes"]), heat["zones"]) == (1000, 8)
    assert len(heat["cells"]) == -(-8000 // 3) * 4


async def test_a_node_whose_exporter_is_gone_is_trouble() -> None:
    """From the moment at which its pod is; pods that are gone with it hold nothing any more."""
    source, model = empty_source(), kubelet()
    attributes = {"topology.numakube.dev/exporter": "numakube/exporter-x7k2p"}
    running = pod_object("exporter-x7k2p", namespace="numakube", node="n1")
    source.nodes.put(node_object("n1"))
    source.pods.put(running)
    source.topologies.put(report_of("n1", model, attributes=attributes))
    async with served(source) as visitor:
        assert "All nodes are ready and report." in await page(visitor)
        source.pods.remove(key_of(running), last=running)
        assert "whose exporter is gone" in words(await page(visitor))
        told = words(await page(visitor, "nodes?q=is:no-exporter"))
    assert "its exporter, pod numakube/exporter-x7k2p, is gone" in told


async def test_the_map_is_no_black_box_until_its_data_come(visitor: Visitor) -> None:
    """A canvas without transparency is black: it is hidden, and a sentence stands there."""
    text = await page(visitor, "")
    assert "Reading the zones" in text
    address = re.search(rf"{PREFIX}static/\w+/dashboard\.css", text)
    assert address
    async with visitor.get(address[0]) as response:
        assert "#map > canvas:not(.painted) { visibility: hidden; }" in await response.text()


def test_large_numbers_have_separators_everywhere() -> None:
    """CPUs and devices, as nodes and pods have them."""
    assert amount(29_000_000, "cpu") == "29,000"
    assert amount(1600, "nvidia.com/gpu") == "1,600"
    assert amount(2500, "cpu") == "2500m"
