"""The map of all zones, whole and piece by piece."""

from __future__ import annotations

from base64 import b64decode
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from packages.pages.tests.world import (
    counted_report,
    empty_source,
    kubelet,
    node_object,
    pod_object,
    report_of,
    small_world,
)

from numakube.api.nrt import Zone
from numakube.insight.usage.zone_usage import node_usage
from numakube.topology.topology_view import NodeTopology, view_of
from numakube_pages.heatmap import LARGEST, MEASURES, NO_RESOURCE, NO_ZONE
from numakube_pages.node_rows import (
    CORDONED,
    NO_REPORT,
    NOT_READY,
    ODD,
    STALE,
    UNUSABLE,
    natural,
    row_of,
    used_percent,
)

GPU = "vendor.example/gpu"


def rows_in(heat: dict[str, Any]) -> dict[str, list[int]]:
    """Return the cells by node."""
    cells, width = b64decode(heat["cells"]), heat["zones"]
    return {
        name: list(cells[index * width : (index + 1) * width])
        for index, name in enumerate(heat["nodes"])
    }


async def test_the_map_has_a_cell_for_each_zone_of_each_node_in_natural_order() -> None:
    """A node without a report has cells without zones."""
    source = empty_source()
    for name in ("node-10", "node-2"):
        source.nodes.put(node_object(name))
    model = kubelet()
    model.admit(pod_object("busy", cpu="14", memory="16Gi", node="node-2"))
    source.topologies.put(report_of("node-2", model))
    heat = await source.zone_book.heat("cpu")
    assert heat["nodes"] == ["node-2", "node-10"]
    rows = rows_in(heat)
    assert sorted(rows["node-2"])[:3] == [0, 0, 0]
    assert max(rows["node-2"]) > 80
    assert rows["node-10"] == [NO_ZONE] * 4
    assert list(b64decode(heat["flags"])) == [0, NO_REPORT]


async def test_a_resource_that_no_zone_has_is_told_apart_from_one_that_is_free() -> None:
    """Nothing of nothing is not zero percent."""
    source = empty_source()
    source.nodes.put(node_object("a"))
    source.topologies.put(report_of("a", kubelet()))
    assert rows_in(await source.zone_book.heat("no.such/thing")) == {"a": [NO_RESOURCE] * 4}


async def test_colours_may_mean_what_is_free_stranded_or_largest() -> None:
    """In percent of the zone; whatever one pod can have is limited by the memory beside it."""
    source = empty_source()
    source.nodes.put(node_object("a"))
    model = kubelet()
    model.admit(pod_object("hog", cpu="2", memory="60Gi", node="a"))
    source.topologies.put(report_of("a", model))
    by_measure = {
        measure: rows_in(await source.zone_book.heat("cpu", measure))["a"] for measure in MEASURES
    }
    usage = node_usage(source.facts(), "a")[1]
    whole = [zone.allocatable["cpu"] for zone in usage]
    held = by_measure["used"].index(max(by_measure["used"]))
    assert 0 < by_measure["used"][held] < 20
    assert by_measure["free"] == [100 - value for value in by_measure["used"]]
    assert usage[held].stranded["cpu"] > 0
    assert by_measure["stranded"] == [
        used_percent(all_of, all_of - zone.stranded.get("cpu", 0))
        for all_of, zone in zip(whole, usage, strict=True)
    ]
    assert by_measure["largest"] == [
        used_percent(all_of, all_of - zone.largest.cpus * 1000)
        for all_of, zone in zip(whole, usage, strict=True)
    ]
    assert by_measure["largest"][held] < by_measure["free"][held]


async def test_changed_rows_are_told_in_the_measure_of_the_map() -> None:
    """Not in another."""
    source = empty_source()
    source.nodes.put(node_object("a"))
    source.topologies.put(report_of("a", kubelet()))
    heat = await source.zone_book.heat("cpu", LARGEST)
    assert rows_in(heat)["a"] == [100] * 4
    model = kubelet()
    model.admit(pod_object("big", cpu="16", memory="1Gi", node="a"))
    source.topologies.put(report_of("a", model, version=2))
    place = {"layout": heat["layout"], "version": heat["version"]}
    news = await source.zone_book.heat_since("cpu", measure=LARGEST, **place)
    assert sorted(b64decode(news["rows"][0][2])) == [0, 100, 100, 100]


async def test_the_map_knows_the_labels_that_put_nodes_together() -> None:
    """A byte a node; labels that tell nodes apart, or say nothing, are left out."""
    source = empty_source()
    for number in range(70):
        pool = {"pool": "ab"[number % 2]} if number else {}
        labels = {"serial": str(number), "role": "", **pool}
        source.nodes.put(node_object(f"n{number:02}", labels=labels))
    heat = await source.zone_book.heat("cpu")
    assert heat["labels"].keys() == {"pool"}
    assert heat["labels"]["pool"]["values"] == ["a", "b"]
    assert list(b64decode(heat["labels"]["pool"]["of"]))[:4] == [0, 2, 1, 2]
    layout = heat["layout"]
    source.nodes.put(node_object("n00", version=2, labels={"pool": "a"}))
    assert "rows" not in await source.zone_book.heat_since("cpu", layout=layout, version=0)


async def test_numa_ids_with_holes_are_told() -> None:
    """Others are counted from zero."""
    source = empty_source()
    source.nodes.put(node_object("a"))
    report = report_of("a", kubelet())
    holed = msgspec.structs.replace(report, zones=(report.zones[0], report.zones[2]))
    source.topologies.put(holed)
    heat = await source.zone_book.heat("cpu")
    assert heat["ids"] == {0: (0, 2)}


async def test_only_changed_rows_are_told_afterwards() -> None:
    """Nothing if nothing has changed."""
    source = empty_source()
    small_world(source)
    heat = await source.zone_book.heat("cpu")
    place = {"layout": heat["layout"], "version": heat["version"]}
    assert (await source.zone_book.heat_since("cpu", **place))["rows"] == []
    model = kubelet()
    model.admit(pod_object("new", cpu="16", node="node-0"))
    source.topologies.put(report_of("node-0", model, version=2))
    news = await source.zone_book.heat_since("cpu", **place)
    index = heat["nodes"].index("node-0")
    assert [(row[0], row[1]) for row in news["rows"]] == [(index, 0)]
    assert sorted(b64decode(news["rows"][0][2])) == [0, 0, 0, 100]


async def test_a_node_that_comes_or_goes_or_grows_asks_for_the_whole_map() -> None:
    """Rows are known by their place."""
    source = empty_source()
    source.nodes.put(node_object("a"))
    source.topologies.put(report_of("a", kubelet()))

    async def told_whole() -> bool:
        news = await source.zone_book.heat_since("cpu", layout=layout, version=0)
        return "rows" not in news

    layout = (await source.zone_book.heat("cpu"))["layout"]
    source.nodes.put(node_object("b"))
    assert await told_whole()
    layout = (await source.zone_book.heat("cpu"))["layout"]
    source.nodes.remove(next(key for key in source.nodes.keys() if key.name == "b"))  # noqa: SIM118
    assert await told_whole()
    layout = (await source.zone_book.heat("cpu"))["layout"]
    source.topologies.put(counted_report("a", Random(1), zones=2, load=0.5, version=2))
    assert await told_whole()


async def test_a_report_that_somebody_has_read_is_not_read_again() -> None:
    """The row is the same either way."""
    report = report_of("a", kubelet())
    view = view_of(report)
    assert isinstance(view, NodeTopology)
    assert row_of(node_object("a"), report, view=view) == row_of(node_object("a"), report)


def test_trouble_is_told_by_flags_and_in_words() -> None:
    """Of the node first, then of its report."""
    report = report_of("a", kubelet(), attributes={"topology.numakube.dev/stale": "kubelet away"})
    row = row_of(node_object("a", ready=False, cordoned=True), report)
    assert row.flags == NOT_READY | CORDONED | STALE
    assert row.trouble == (
        "node is not ready",
        "node is cordoned",
        "report is stale: kubelet away",
    )
    broken = msgspec.structs.replace(report, zones=(Zone(name="what", type="Node"),))
    assert row_of(node_object("a"), broken).flags == UNUSABLE
    odd = report_of("a", kubelet(), attributes={"topologyManagerPolicy": "nonsense"})
    assert row_of(node_object("a"), odd).flags == ODD


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_a_percentage_never_hides_the_last_bit(whole: int, free: int) -> None:
    """0 means nothing and 100 means all."""
    percent = used_percent(whole, free)
    assert 0 <= percent <= 100
    if 0 < free < whole:
        assert 1 <= percent <= 99


def test_names_are_sorted_as_people_do() -> None:
    """By the values of numbers."""
    names = ["node-10", "node-9", "a", "node-9b", "10", "9"]
    assert sorted(names, key=natural) == ["9", "10", "a", "node-9", "node-9b", "node-10"]
