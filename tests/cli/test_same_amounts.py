"""The same amount reads the same in a map, a table, an explanation, an event and a page."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from packages.pages.tests.serving import page, served, words
from packages.pages.tests.world import empty_source
from tests.cli.conftest import Ended
from tests.insight.explain.bundling import collected_of

from numakube.apps.bundle import pack
from numakube.insight.pod_timeline import use_text
from numakube.kubelet.admission_trace import amount
from numakube.scheduling.numa.alignment_refusal import AlignmentRefusal, Kind
from numakube.testing import World, pod

Run = Callable[..., Ended]

HELD = "12345678Ki"
HELD_TEXT = "11.7Gi"
"""To the nearest tenth it would be 11.8Gi; nothing that is free may look larger than it is."""
FREE_BYTES = 16 * (1 << 30) - 12345678 * 1024
FREE_TEXT = "4.2Gi"
OTHERWISE = re.compile(r"12345678Ki|12641974272|11\.8|4431538Ki|4537894912")
"""The same amounts in other forms."""


@pytest.fixture
def world() -> World:
    """Both zones of a node have pods that hold an uneven amount of memory; another pod waits."""
    world = World()
    world.add_node("node-a")
    for name in ("one", "two"):
        world.run(pod(name, cpu="2", memory=HELD), "node-a")
    world.pods.append(pod("waits", cpu="2", memory="8Gi"))
    return world


@pytest.fixture
def bundle(world: World, tmp_path: Path) -> Path:
    """Return the cluster as a bundle."""
    file = tmp_path / "bundle.tgz"
    file.write_bytes(pack(collected_of(world.facts())))
    return file


def test_commands_agree(numakube: Run, bundle: Path) -> None:
    """What a pod holds, and what a zone has left."""
    source = ("--from", bundle)
    held = [
        numakube("map", "node-a", *source).out,
        numakube("top", "pods", "-A", *source).out,
        numakube("explain", "pod", "waits", *source).out,
    ]
    free = [held[0], held[2], numakube("top", "zones", *source).out]
    assert [HELD_TEXT in text for text in held] == [True] * 3, held
    assert [FREE_TEXT in text for text in free] == [True] * 3, free
    assert not any(OTHERWISE.search(text) for text in (*held, *free))


async def test_pages_agree_with_commands(world: World) -> None:
    """The page of a node, and the explanation of a pod."""
    facts, source = world.facts(), empty_source()
    for node in facts.nodes.values():
        source.nodes.put(node)
        source.topologies.put(facts.topologies[node.metadata.name])
    for one in facts.pods:
        source.pods.put(one)
    async with served(source) as visitor:
        for path in ("nodes/node-a", "pods/default/waits?explain=yes"):
            text = words(await page(visitor, path))
            assert HELD_TEXT in text, text
            assert FREE_TEXT in text, text
            assert not OTHERWISE.search(text), text


def test_events_traces_and_timelines_agree() -> None:
    """What schedulers write and what the kubelet model says."""
    event = AlignmentRefusal(
        kind=Kind.ALIGN, resource="memory", zones=(1,), wanted=8 << 30, free=FREE_BYTES
    )
    assert f"memory: best zone has {FREE_TEXT} of 8Gi" in event.message
    assert amount("memory", FREE_BYTES) == FREE_TEXT
    use = {"zones": [{"ids": [1], "amounts": {"cpu": "1500m", "memory": HELD}}]}
    assert use_text(use) == f"zone 1: cpu 1500m, memory {HELD_TEXT}"
