"""What the dashboard costs its process at 5,000 nodes of 8 zones: CPU, bytes, and an event."""

from __future__ import annotations

import asyncio
import gzip
import time
import tracemalloc
from random import Random
from typing import TYPE_CHECKING, Any, Final

import msgspec

from numakube.api.meta import ObjectMeta
from numakube.api.nodes import Node, NodeCondition, NodeStatus
from numakube.api.nrt import Attribute, Cost, NodeResourceTopology, Zone, ZoneResource
from numakube.kube.clock import SystemClock
from numakube.kube.store import Store
from numakube_pages.overview import overview_of
from numakube_pages.page_source import Source

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

_NODES: Final = 5000
_ZONES: Final = 8
_CHANGED: Final = 500
_WHOLE: Final = {"cpu": 16, "memory": 64 << 30, "vendor.example/gpu": 2}


def run() -> Iterator[dict[str, object]]:
    """Yield the figures."""
    return iter(asyncio.run(_run()))


async def _run() -> list[dict[str, object]]:
    random, source = Random(1), _source(_NODES)
    book = source.zone_book
    first = await _milliseconds(book.rows)
    cold = await _milliseconds(lambda: book.heat("cpu"))
    warm = min([await _milliseconds(lambda: book.heat("cpu")) for _ in range(3)])
    heat, rows = await book.heat("cpu"), await book.rows()
    body = msgspec.json.encode(heat)
    noted = _noted(source, random)
    place = {"layout": heat["layout"], "version": heat["version"]}
    again = await _milliseconds(lambda: book.heat_since("cpu", **place))
    start = time.process_time()
    overview_of(source, rows)
    figures = (time.process_time() - start) * 1000
    return [
        _figure("first look: all reports are read, in slices", first, "ms"),
        _figure("the whole map of a resource, first", cold, "ms"),
        _figure("the whole map of a resource, again", warm, "ms", budget=50),
        _figure("the whole map, JSON", len(body) / 1024, "KB"),
        _figure("the whole map, compressed", len(gzip.compress(body)) / 1024, "KB"),
        _figure(f"{_CHANGED} changed rows", again, "ms", budget=250),
        _figure("figures of the overview", figures, "ms", budget=50),
        _figure("an event between two looks", noted, "us"),
        _figure("memory once somebody has looked", await _kilobytes_per_node(), "KB/node"),
    ]


async def _kilobytes_per_node() -> float:
    source = _source(_CHANGED)
    tracemalloc.start()
    await source.zone_book.rows()
    found = tracemalloc.get_traced_memory()[0] / 1024 / _CHANGED
    tracemalloc.stop()
    return found


def _noted(source: Source, random: Random) -> float:
    reports = [_report(number, random, 2) for number in range(_CHANGED)]
    start = time.process_time()
    for report in reports:
        source.topologies.put(report)
    return (time.process_time() - start) * 1e6 / _CHANGED


def _figure(metric: str, value: float, unit: str, budget: float | None = None) -> dict[str, object]:
    found: dict[str, object] = {"metric": metric, "value": round(value, 1), "unit": unit}
    return found if budget is None else {**found, "budget": budget}


async def _milliseconds(work: Callable[[], Coroutine[Any, Any, object]]) -> float:
    start = time.process_time()
    await work()
    return (time.process_time() - start) * 1000


def _source(nodes: int) -> Source:
    random = Random(1)
    source = Source(nodes=Store(), pods=Store(), topologies=Store(), clock=SystemClock())
    source.open()
    for number in range(nodes):
        source.nodes.put(_node(number))
        source.topologies.put(_report(number, random, 1))
    return source


def _node(number: int) -> Node:
    ready = NodeCondition(type="Ready", status="True")
    return Node(
        metadata=ObjectMeta(name=f"node-{number}", uid=f"n{number}"),
        status=NodeStatus(conditions=(ready,)),
    )


def _report(number: int, random: Random, version: int) -> NodeResourceTopology:
    return NodeResourceTopology(
        metadata=ObjectMeta(name=f"node-{number}", uid=f"t{number}", resource_version=str(version)),
        attributes=(Attribute(name="topologyManagerPolicy", value="single-numa-node"),),
        zones=tuple(_zone(zone, random) for zone in range(_ZONES)),
    )


def _zone(number: int, random: Random) -> Zone:
    costs = tuple(Cost(name=f"node-{to}", value=10 if to == number else 21) for to in range(_ZONES))
    resources = tuple(
        ZoneResource(
            name=name,
            capacity=str(whole),
            allocatable=str(whole),
            available=str(whole * random.randrange(17) // 16),
        )
        for name, whole in _WHOLE.items()
    )
    return Zone(name=f"node-{number}", type="Node", costs=costs, resources=resources)
