"""Whether a pod of some shape would fit, as the overview answers it."""

from __future__ import annotations

import re

import pytest
from packages.pages.tests.serving import page, served, words
from packages.pages.tests.world import empty_source, kubelet, node_object, report_of, small_world

from numakube_pages import explain_view
from numakube_pages.dashboard import PREFIX
from numakube_pages.explain_view import Explainer
from numakube_pages.page_source import Source
from numakube_pages.pages import REFRESH


def small_source() -> Source:
    """Return a small cluster that has everything."""
    source = empty_source()
    small_world(source)
    return source


async def test_the_page_and_the_map_get_the_same_answer() -> None:
    """In words, and by node."""
    async with served(small_source()) as visitor:
        async with visitor.get(f"{PREFIX}fits?shape=cpu=4,memory=8Gi") as response:
            answer = await response.json()
        shown = words(await page(visitor, "?shape=cpu=4,memory=8Gi"))
    assert answer["total"] == sum(answer["nodes"].values()) > 0
    fit, on = answer["total"], len(answer["nodes"])
    assert f"{fit} more such pods fit, on {on} of 8 nodes." in shown


async def test_the_answer_is_in_the_table_and_by_group() -> None:
    """Sorted by it on request."""
    async with served(small_source()) as visitor:
        text = await page(visitor, "?shape=cpu=4,memory=8Gi&group=pool&sort=-fits")
        async with visitor.get(f"{PREFIX}fits?shape=cpu=4,memory=8Gi") as response:
            nodes = (await response.json())["nodes"]
    shown = words(text)
    best = max(nodes.values())
    first = next(name for name, count in nodes.items() if count == best)
    table = re.search(r"Node Fits State .* Pods (\S+) (\d+) ready", shown)
    assert table is not None
    assert table.groups() == (first, str(best))
    web = sum(count for name, count in nodes.items() if int(name[-1]) % 2 == 0)
    assert re.search(rf"web 4 16 .*? {web} ", shown)
    assert "sort=fits" in text
    assert "shape=cpu%3D4" in text


async def test_a_resource_that_no_node_offers_is_called_that() -> None:
    """Instead of a bare zero; a short name will do."""
    async with served(small_source()) as visitor:
        shown = words(await page(visitor, "?shape=no/such=1")).replace("&#39;", "'")
        short = words(await page(visitor, "?shape=gpu=1"))
    assert "no node offers 'no/such'; there are cpu" in shown
    assert "more such pods fit, on" in short


async def test_why_none_fits_is_said_in_the_words_of_the_scheduler() -> None:
    """Beside the zero."""
    async with served(small_source()) as visitor:
        shown = words(await page(visitor, "?shape=cpu=4000"))
    assert "0 more such pods fit. 0/8 nodes are available: " in shown


@pytest.mark.parametrize(
    ("shape", "problem"),
    [
        ("cpu=x", "'x' is not an amount like 8 or 32Gi"),
        ("cpu", "'cpu' is not like cpu=8"),
        ("=4", "'=4' is not like cpu=8"),
        ("cpu=-1", "'cpu=-1' is not like cpu=8"),
        ("cpu=0", "nothing is asked for"),
        (",,", "nothing is asked for"),
        ("cpu=1," * 60, "too long"),
        (f"cpu={'9' * 150}", "is not like cpu=8"),
    ],
)
async def test_what_is_no_shape_is_said_in_the_page(shape: str, problem: str) -> None:
    """Beside what was typed, which stays to be corrected."""
    async with served(small_source()) as visitor:
        async with visitor.get(PREFIX, params={"shape": shape}) as response:
            assert response.status == 200
            text = await response.text()
        async with visitor.get(f"{PREFIX}fits", params={"shape": shape}) as response:
            assert response.status == 400
    shown = words(text).replace("&#39;", "'")
    assert problem in shown
    assert f'value="{shape}"' in text


async def test_an_answer_is_kept_until_something_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a large cluster until somebody asks again, however often the page is refreshed."""
    source = small_source()
    explainer = Explainer(source)
    first = await explainer.room_for("cpu=4")
    assert await explainer.room_for("cpu=4") is first
    source.nodes.put(node_object("one-more"))
    source.topologies.put(report_of("one-more", kubelet()))
    second = await explainer.room_for("cpu=4", keep=True)
    assert second.total > first.total
    monkeypatch.setattr(explain_view, "UNASKED_NODES", 0)
    source.nodes.put(node_object("another"))
    assert await explainer.room_for("cpu=4", keep=True) is second
    assert await explainer.room_for("cpu=4") is not second


async def test_what_takes_too_long_is_not_counted_to_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And the page says so."""
    monkeypatch.setattr(explain_view, "LONGEST_SECONDS", 0.0)
    async with served(small_source()) as visitor:
        shown = words(await page(visitor, "?shape=cpu=1"))
    assert "At least 0 more such pods fit" in shown
    assert "not all nodes were tried" in shown


async def test_a_refreshed_page_does_not_ask_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not in a large cluster."""
    monkeypatch.setattr(explain_view, "UNASKED_NODES", 0)
    source = small_source()
    async with served(source) as visitor:
        before = words(await page(visitor, "?shape=cpu=4"))
        for name in tuple(f"node-{number}" for number in range(8)):
            source.nodes.put(node_object(name, cordoned=True, version=2))
        count = re.search(r"(\d+) more such pods fit", before)
        assert count is not None
        async with visitor.get(f"{PREFIX}?shape=cpu=4", headers={REFRESH: "1"}) as response:
            assert f"{count[1]} more such pods fit" in words(await response.text())
        assert "0 more such pods fit" in words(await page(visitor, "?shape=cpu=4"))
