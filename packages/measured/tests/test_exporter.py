"""The exporter with ``--measure``: what it publishes, when it is woken, and its metrics."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random

import pytest
from packages.measured.tests.build import GIB, FakeNode, holding, running
from prometheus_client import CollectorRegistry

from numakube.api.meta import ObjectMeta
from numakube.api.nrt import NodeResourceTopology
from numakube.apps.exporter.process import PROGRAM
from numakube.apps.exporter.report_annotations import NodeSources
from numakube.apps.host.process_life import Surroundings
from numakube.kube.clock import ManualClock
from numakube.testing import until
from numakube_measured.measurement import ANNOTATION, Measurement, read_measurement
from numakube_measured.news import LEAST_SECONDS
from numakube_measured.report_annotation import EVERY_SECONDS, MeasuringReader


class Scene:
    """A node, what measures it, and how often the exporter was woken."""

    def __init__(self, root: Path) -> None:
        self.node = FakeNode(root)
        self.clock = ManualClock()
        self.registry = CollectorRegistry()
        self.wakes = 0
        self.reader = MeasuringReader(
            NodeSources(
                sysfs=root / "sys",
                proc=root / "proc",
                pods=lambda: tuple(self.node.pods.values()),
                node=dict,
                node_name="worker",
                clock=self.clock,
                rng=Random(1),
                registry=self.registry,
                wake=self._woken,
            )
        )

    def _woken(self) -> None:
        self.wakes += 1

    def published(self) -> Measurement:
        """Return what the next report says."""
        annotations = self.reader.read().annotations(self.node.inputs, [])
        found = read_measurement(
            NodeResourceTopology(metadata=ObjectMeta(name="worker", annotations=annotations))
        )
        assert isinstance(found, Measurement)
        return found

    @property
    def readings(self) -> float:
        """How often the node was measured."""
        value = self.registry.get_sample_value("numakube_measured_reading_seconds_count")
        assert value is not None
        return value


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """Return a node with a pod whose memory is local."""
    scene = Scene(tmp_path)
    group = scene.node.run(running("db"), holding("db", cpus=(1, 9), memory=0))
    scene.node.use(group, {0: 1000})
    return scene


async def test_the_exporter_is_woken_by_news_and_not_before(scene: Scene) -> None:
    assert scene.published().pods[0].memory_mi == {0: 1000}
    group = scene.node.run(scene.node.pods["db"])
    task = asyncio.create_task(scene.reader.run())
    try:
        scene.node.use(group, {0: 500, 1: 500})
        for count in range(2, int(LEAST_SECONDS / EVERY_SECONDS) + 1):
            await scene.clock.sleepers()
            await scene.clock.advance(EVERY_SECONDS)
            await until(lambda count=count: scene.readings == count)  # type: ignore[misc]
        assert scene.wakes == 0
        assert scene.published().pods[0].memory_mi == {0: 1000}
        await scene.clock.sleepers()
        await scene.clock.advance(EVERY_SECONDS)
        await until(lambda: scene.wakes == 1)
        assert scene.published().pods[0].memory_mi == {0: 500, 1: 500}
    finally:
        task.cancel()


async def test_metrics_name_pods_with_a_place(scene: Scene) -> None:
    scene.node.use(scene.node.run(running("web")), {1: 2000})
    scene.published()
    read = scene.registry.get_sample_value
    db = {"node": "worker", "pod_namespace": "team", "pod_name": "db"}
    web = {**db, "pod_name": "web"}
    assert read("numakube_measured_pod_local_memory_ratio", db) == 1.0
    assert read("numakube_measured_pod_local_memory_ratio", web) is None
    used = {**web, "zone": "node-1", "promised": "unknown"}
    assert read("numakube_measured_pod_memory_bytes", used) == 2000 << 20
    zone = {"node": "worker", "zone": "node-1"}
    assert read("numakube_measured_zone_memory_free_bytes", zone) == 16 * GIB


@pytest.mark.parametrize("name", ["cpuset.cpus.effective", "cpuset.mems.effective"])
@pytest.mark.parametrize("text", ["0-65535\n", "9" * 30 + "\n", "\xff,-1,5-2\n"])
async def test_files_that_are_no_kernels_do_not_end_the_exporter(
    scene: Scene, name: str, text: str
) -> None:
    (scene.node.root / "sys/fs/cgroup" / scene.node.container("db") / name).write_text(text)
    annotations = scene.reader.annotations(scene.node.inputs, [])
    found = read_measurement(
        NodeResourceTopology(metadata=ObjectMeta(name="worker", annotations=annotations))
    )
    assert annotations == {} or isinstance(found, Measurement)


async def test_what_is_published_names_nobody(scene: Scene) -> None:
    """Bundles keep it when they are made anonymous."""
    text = scene.reader.annotations(scene.node.inputs, [])[ANNOTATION]
    assert "db" not in text
    assert "team" not in text


@pytest.mark.parametrize("asked", [True, False])
async def test_the_option_decides(tmp_path: Path, asked: bool) -> None:
    FakeNode(tmp_path)
    told: list[str] = []
    line = (
        *("--dry-run", "--no-kubelet", "-o", "json", "--hostname", "worker"),
        *("--sysfs", str(tmp_path / "sys"), "--procfs", str(tmp_path / "proc")),
        *("--kubelet-state-dir", "", "--log-level", "error"),
        *(["--measure"] if asked else []),
    )
    around = Surroundings(env={}, echo=told.append)
    assert await PROGRAM.perform(line, around, asyncio.Event()) == 0
    annotations = json.loads("".join(told))["metadata"].get("annotations", {})
    assert (ANNOTATION in annotations) is asked
