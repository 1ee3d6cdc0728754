"""The loop: what happens when the kubelet or the API server is away."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from prometheus_client import CollectorRegistry
from tests.apps.exporter.build import inputs_of
from tests.kubelet.build import admit, guaranteed, pod, start
from tests.kubelet.conftest import dual_socket_ht

from numakube.apps.exporter.export_loop import SECOND_LOOKS_SECONDS, Exporter
from numakube.apps.exporter.kubelet_checkpoints import read_checkpoints
from numakube.apps.exporter.metrics import ExporterMetrics
from numakube.apps.exporter.node_scan import NodeInputs
from numakube.apps.exporter.nrt_writer import Operation, Written
from numakube.apps.exporter.report import Report
from numakube.apps.exporter.report_options import ReportOptions, Trouble
from numakube.apps.exporter.scan_wakeups import Trigger, Wakeup, Wakeups
from numakube.apps.exporter.surprises import Silence
from numakube.errors import (
    ClusterUnreachable,
    KubeletUnavailable,
    KubeletWillNotStart,
    NumakubeError,
)
from numakube.kube.clock import ManualClock
from numakube.kubelet.state_files import StateFiles


@dataclass
class Node:
    """A kubelet that answers, or not."""

    away: str = ""
    hopeless: str = ""
    reads: int = 0
    inputs: NodeInputs = field(default_factory=NodeInputs)
    busy: NodeInputs | None = None
    busy_reads: int = 0

    async def read(self) -> NodeInputs:
        """Answer."""
        self.reads += 1
        if self.hopeless:
            raise KubeletWillNotStart(self.hopeless)
        if self.away:
            raise KubeletUnavailable(self.away)
        if self.busy is not None and self.busy_reads:
            self.busy_reads -= 1
            return self.busy
        return self.inputs


@dataclass
class Board:
    """Where reports are put up, unless it cannot be reached."""

    trouble: NumakubeError | None = None
    causes: list[str] = field(default_factory=list)
    exact: list[bool] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    slept: list[float | None] = field(default_factory=list)

    async def publish(self, report: Report, *, cause: str, slept: float | None) -> Written:
        """Take note."""
        if self.trouble is not None:
            raise self.trouble
        self.causes.append(cause)
        self.slept.append(slept)
        self.exact.append(report.exact is not None)
        return Written(Operation.UPDATE, 10, 100)

    async def mark_stale(self, reason: str) -> Written:
        """Take note."""
        if self.trouble is not None:
            raise self.trouble
        self.marks.append(reason)
        return Written(Operation.UPDATE)


@dataclass
class Scene:
    """An exporter that runs."""

    clock: ManualClock
    registry: CollectorRegistry
    node: Node
    board: Board
    exporter: Exporter

    def metric(self, name: str, **labels: str) -> float | None:
        """Return the value of a metric."""
        return self.registry.get_sample_value(name, labels)

    async def pass_time(self, seconds: float, *, step: float = 0.25) -> None:
        """Let time pass in steps, so that everything that becomes due is done on the way."""
        for _ in range(round(seconds / step)):
            await self.clock.advance(step)


@pytest.fixture
async def scene(clock: ManualClock) -> AsyncIterator[Scene]:
    """An exporter whose first report is out."""
    registry = CollectorRegistry()
    node, board = Node(), Board()
    exporter = Exporter(
        source=node,
        publisher=board,
        wakeups=Wakeups(clock=clock, period=60, rate=0),
        options=ReportOptions(node_name="worker-0"),
        clock=clock,
        metrics=ExporterMetrics("worker-0", registry),
        stale_after=10,
    )
    task = asyncio.create_task(exporter.run())
    await clock.timeouts()
    yield Scene(clock, registry, node, board, exporter)
    exporter.wakeups.close()
    await task


async def test_what_keeps_the_kubelet_from_starting_is_added_to_a_stale_report(
    scene: Scene,
) -> None:
    """Also if that is found later than its absence."""
    scene.node.away = "gone"
    scene.exporter.wakeups.note(Trigger.STATE)
    await scene.pass_time(15)
    scene.node.hopeless = "the kubelet will not start: old state"
    await scene.pass_time(15)

    assert scene.board.marks == [
        "the kubelet does not answer: gone",
        "the kubelet will not start: old state",
    ]


async def test_the_first_report_is_out_at_once(scene: Scene) -> None:
    """And then one every period."""
    assert scene.board.causes == ["reactive"]
    await scene.pass_time(60)
    assert scene.board.causes == ["reactive", "periodic"]
    labels = {"node": "worker-0", "operation": "update", "trigger": "periodic"}
    assert scene.metric("rte_noderesourcetopology_writes_total", **labels) == 1
    assert scene.metric("numakube_exporter_report_bytes") == 100


async def test_wakeups_are_counted_by_what_led_to_them(scene: Scene) -> None:
    """One look may have several causes."""
    scene.exporter.wakeups.note(Trigger.STATE)
    scene.exporter.wakeups.note(Trigger.POD)
    await scene.pass_time(1)
    for trigger in ("start", "kubelet-state", "pod"):
        assert scene.metric("numakube_exporter_wakeups_total", trigger=trigger) == 1


async def test_problems_are_counted_as_long_as_they_are_there(scene: Scene) -> None:
    """Those of the last scan, not of all."""

    def damaged() -> float | None:
        return scene.metric("numakube_exporter_problems", kind=str(Trouble.BAD_CHECKPOINT))

    healthy = scene.node.inputs
    scene.node.inputs = replace(healthy, checkpoints=read_checkpoints(StateFiles(cpu=b"{")))
    for _ in range(2):
        await scene.pass_time(60)
        assert damaged() == 1
    scene.node.inputs = healthy
    await scene.pass_time(60)
    assert damaged() is None


async def test_what_readers_cannot_foresee_is_published(clock: ManualClock) -> None:
    """Though only surprises are reported: without exact data everything is one."""
    registry, board = CollectorRegistry(), Board()
    silence = Silence(lambda: (), seconds=600, clock=clock, random=Random(1))
    exporter = Exporter(
        source=Node(),
        publisher=board,
        wakeups=Wakeups(clock=clock, period=60, rate=0),
        options=ReportOptions(node_name="worker-0", exact=False),
        clock=clock,
        metrics=ExporterMetrics("worker-0", registry),
        silence=silence,
    )
    for _ in range(2):
        assert await exporter.step(Wakeup(frozenset({Trigger.START})))
    assert len(board.causes) == 2
    assert registry.get_sample_value("numakube_exporter_foreseen_total") == 0


async def test_a_kubelet_that_is_away_for_long_makes_the_object_stale(scene: Scene) -> None:
    """Once, and not for a short restart."""
    scene.node.away = "connection refused"
    scene.exporter.wakeups.note(Trigger.STATE)
    await scene.pass_time(9)
    assert scene.board.marks == []
    assert "connection refused" in scene.exporter.kubelet_trouble
    await scene.pass_time(30)
    assert scene.board.marks == ["the kubelet does not answer: connection refused"]
    assert scene.metric("numakube_exporter_stale") == 1


async def test_the_time_for_which_a_kubelet_is_away_begins_when_it_goes(scene: Scene) -> None:
    """However long it was there."""
    await scene.pass_time(100)
    scene.node.away = "connection refused"
    scene.exporter.wakeups.note(Trigger.STATE)
    await scene.pass_time(9)
    assert scene.board.marks == []
    await scene.pass_time(30)
    assert len(scene.board.marks) == 1


async def test_a_kubelet_that_comes_back_is_picked_up_soon(scene: Scene) -> None:
    """Within the longest pause, and the mark goes with the new report."""
    scene.node.away = "gone"
    scene.exporter.wakeups.note(Trigger.SOCKET)
    await scene.pass_time(100)
    before = len(scene.board.causes)
    scene.node.away = ""
    await scene.pass_time(10.5)
    assert len(scene.board.causes) == before + 1
    assert scene.exporter.kubelet_trouble == ""
    assert scene.metric("numakube_exporter_stale") == 0


async def test_a_kubelet_that_is_away_is_not_asked_all_the_time(scene: Scene) -> None:
    """Pauses grow to ten seconds."""
    scene.node.away = "gone"
    scene.exporter.wakeups.note(Trigger.STATE)
    await scene.pass_time(60)
    before = scene.node.reads
    await scene.pass_time(60)
    assert 5 <= scene.node.reads - before <= 7


async def test_what_could_not_be_written_is_read_anew_and_written_later(scene: Scene) -> None:
    """Nothing old is ever published."""
    scene.board.trouble = ClusterUnreachable("no route to host")
    scene.exporter.wakeups.note(Trigger.POD)
    await scene.pass_time(5)
    assert scene.exporter.publish_trouble == "no route to host"
    reads = scene.node.reads
    scene.board.trouble = None
    await scene.pass_time(10)
    assert scene.node.reads > reads
    assert len(scene.board.causes) == 2
    assert scene.exporter.publish_trouble == ""
    labels = {"node": "worker-0", "trigger": "send_patch"}
    failures = scene.metric("rte_noderesourcetopology_patch_failures_total", **labels)
    assert failures is not None
    assert failures >= 1


@pytest.mark.parametrize(("moments", "exact"), [(3, [True]), (9, [False, True])])
async def test_a_busy_kubelet_is_looked_at_again_before_exact_data_is_given_up(
    scene: Scene, moments: int, exact: list[bool]
) -> None:
    """For less than two seconds, so that a report comes in any case."""
    model = start(dual_socket_ht())
    before = inputs_of(model, {})
    one = pod(guaranteed("main"))
    admit(model, one)
    scene.node.inputs = inputs_of(model, {"uid": one})
    scene.node.busy = replace(scene.node.inputs, checkpoints=before.checkpoints)
    scene.node.busy_reads = moments

    for _ in exact:
        scene.exporter.wakeups.note(Trigger.STATE)
        await scene.pass_time(2, step=0.05)
        scene.node.busy_reads = 0

    assert scene.board.exact[1:] == exact


async def test_a_mark_that_could_not_be_set_is_set_later(scene: Scene) -> None:
    """When the API server is back and the kubelet still away."""
    scene.node.away = "gone"
    scene.board.trouble = ClusterUnreachable("away too")
    scene.exporter.wakeups.note(Trigger.STATE)
    await scene.pass_time(30)
    scene.board.trouble = None
    await scene.pass_time(11)
    assert len(scene.board.marks) == 1


async def test_a_kubelet_that_contradicts_itself_for_long_is_looked_at_once_a_time(
    scene: Scene,
) -> None:
    """Further looks were in vain the last time; they are worth it again after one that was not."""
    model = start(dual_socket_ht())
    before = inputs_of(model, {})
    one = pod(guaranteed("main"))
    admit(model, one)
    scene.node.inputs = inputs_of(model, {"uid": one})
    scene.node.busy = replace(scene.node.inputs, checkpoints=before.checkpoints)
    reads = []
    for busy_reads in (99, 99, 0, 99):
        scene.node.busy_reads, scene.node.reads = busy_reads, 0
        scene.exporter.wakeups.note(Trigger.STATE)
        await scene.pass_time(3, step=0.05)
        reads.append(scene.node.reads)
    looks = len(SECOND_LOOKS_SECONDS) + 1
    assert reads == [looks, 1, 1, looks]


async def test_publishers_hear_how_long_the_exporter_has_slept(scene: Scene) -> None:
    """Since the last look, whatever that was for; nothing before the first one."""
    await scene.pass_time(60)
    await scene.pass_time(7)
    scene.exporter.wakeups.note(Trigger.STATE)
    await scene.pass_time(1)
    first, period, change = scene.board.slept
    assert (first, period) == (None, 60)
    assert change is not None
    assert 7 <= change < 8
