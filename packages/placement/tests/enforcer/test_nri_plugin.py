"""What the plugin says to a runtime, to the letter; no socket is between them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import structlog
from packages.placement.tests.enforcer.single import Node, group_of, pod_of
from packages.placement.tests.enforcer.test_nri import (
    BOUND,
    LIFTED,
    VERSIONS,
    WANTED,
    Stuck,
    container_of,
    sandbox_of,
)

from numakube.api.pod import CONFIG_SOURCE
from numakube.kube.clock import JumpingClock, ManualClock, SystemClock
from numakube.node.cgroups.group_files import CPUS, Version
from numakube.node.cgroups.write_order import GroupSetting
from numakube.node.nri.fake_runtime import FakeRuntime
from numakube.node.nri.nri_objects import CpuLimits, Sandbox
from numakube.node.nri.nri_plugin import ConnectedRuntime, NriEvent
from numakube.testing import until
from numakube_placement.enforcer.enforcer_state_file import OriginalsFile
from numakube_placement.enforcer.nri import RETRY_SECONDS, NriLink, NriPlugin

A, B = container_of("a"), container_of("b")
POD = sandbox_of("a")
MEMORY = {"numaNodeResources": BOUND["numaNodeResources"]}
HELD = replace(LIFTED, period=None)
LET_GO = CpuLimits(cpus="0-3", quota=200000, period=100000)


def plugin_of(node: Node, clock: Any = None) -> NriPlugin:
    """Return a plugin that has time."""
    plugin = NriPlugin(node.enforcer, node.metrics, clock or SystemClock(), most_seconds=30.0)
    plugin.configured(ConnectedRuntime(name="r", version="1", request_seconds=60.0))
    node.enforcer.wrote = plugin.wrote
    return plugin


async def started(folder: Path, version: Version = Version.V2) -> tuple[Node, NriPlugin]:
    """Return a node on which a container runs with what the plugin gave to it."""
    node = Node(folder, version, known={"a": pod_of("a", BOUND)})
    node.groups.add(group_of("a"))
    plugin = plugin_of(node)
    assert (await plugin.creating(POD, A)).cpu == HELD
    group = group_of("a", A.id)
    node.groups.add(group, quota=version.unlimited if version is Version.V1 else "max 100000")
    node.groups.busy.add(group)
    for file, text in ((CPUS, "0-1"), ("cpuset.mems", "0")):
        assert node.groups.write(group, file, text) == ""
    return node, plugin


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        (BOUND, HELD),
        ({"cpuset": "0-1"}, CpuLimits(cpus="0-1", quota=-1)),
        (MEMORY, CpuLimits(cpus="0-3", mems="0")),
    ],
)
async def test_only_what_was_allotted_is_given(status: Any, cpu: CpuLimits, tmp_path: Path) -> None:
    """The quota is lifted for CPUs alone; a runtime that has the same by whatever else is right."""
    node = Node(tmp_path, known={"a": pod_of("a", status)})
    node.groups.add(group_of("a"))
    plugin = plugin_of(node)
    assert (await plugin.creating(POD, A)).cpu == cpu
    filled = CpuLimits(cpus=cpu.cpus or "3", mems=cpu.mems or "0", quota=cpu.quota or 7)
    assert await plugin.synchronized([POD], [replace(A, cpu=filled)]) == []


@VERSIONS
@pytest.mark.parametrize(
    ("wanted", "texts"),
    [
        (CpuLimits(), ("-1", "max 100000")),
        (CpuLimits(quota=-1, period=50000), ("-1", "max 50000")),
        (CpuLimits(quota=0), ("-1", "max 100000")),
        (CpuLimits(quota=1), ("1", "1 100000")),
        (CpuLimits(quota=70000, period=50000), ("70000", "70000 50000")),
    ],
)
async def test_what_the_kubelet_wants_is_kept_before_the_container_is_made(
    version: Version, wanted: CpuLimits, texts: tuple[str, str], tmp_path: Path
) -> None:
    """As the file of its group would have it."""
    node = Node(tmp_path, version, known={"a": pod_of("a", BOUND)})
    node.groups.add(group_of("a"))
    container = replace(A, cpu=replace(wanted, cpus="2-3", mems="0"))
    await plugin_of(node).creating(POD, container)
    declared = OriginalsFile(tmp_path).load().declared
    quota = texts[version is Version.V2]
    assert declared == {A.id: GroupSetting(cpus=0b1100, mems=0b1, quota=quota)}


@pytest.mark.parametrize(
    ("status", "wanted", "quota"),
    [
        (BOUND, CpuLimits(quota=300000, period=100000), "300000 100000"),
        (BOUND, CpuLimits(cpus="0-3"), "200000 100000"),
        (MEMORY, CpuLimits(quota=300000, period=100000), "200000 100000"),
    ],
)
async def test_only_a_new_limit_of_a_container_without_one_is_kept(
    status: Any, wanted: CpuLimits, quota: str, tmp_path: Path
) -> None:
    """The runtime writes the others itself."""
    node = Node(tmp_path, known={"a": pod_of("a", status)})
    plugin = plugin_of(node)
    given = await plugin.creating(POD, A)
    answer = await plugin.updating(POD, A, wanted)
    assert (answer.cpu, answer.others) == (given.cpu, [])
    assert OriginalsFile(tmp_path).load().declared[A.id].quota == quota


@pytest.mark.parametrize(
    ("wanted", "left"),
    [
        (CpuLimits(), LET_GO),
        (CpuLimits(cpus="3"), replace(LET_GO, cpus="")),
        (CpuLimits(mems="0"), LET_GO),
        (CpuLimits(quota=70000, period=50000), CpuLimits(cpus="0-3")),
    ],
)
async def test_where_the_kubelet_says_nothing_a_container_keeps_what_it_got_back(
    wanted: CpuLimits, left: CpuLimits, tmp_path: Path
) -> None:
    """Part by part; a period belongs to its quota."""
    node, plugin = await started(tmp_path)
    node.known["a"] = pod_of("a")
    await node.enforcer.step()
    held = node.groups.read(group_of("a", A.id), "cpuset.mems") or ""
    mems = "" if wanted.mems else held
    answer = await plugin.updating(POD, A, wanted)
    assert answer.cpu == replace(left, mems=mems)
    assert (await plugin.updating(sandbox_of("b"), B, wanted)).cpu is None


@VERSIONS
async def test_the_runtime_hears_of_a_quota_that_is_put_back_and_lifted_again(
    version: Version, tmp_path: Path
) -> None:
    """With its period where the file has one."""
    node, plugin = await started(tmp_path, version)
    period = 100000 if version is Version.V2 else None
    for pod, cpus, quota in ((pod_of("a"), "0-3", 200000), (pod_of("a", BOUND), "0-1", -1)):
        node.known["a"] = pod
        await node.enforcer.step()
        (told,) = await plugin.stopping(sandbox_of("b"), B)
        assert told.container_id == A.id
        assert (told.cpu.cpus, told.cpu.quota, told.cpu.period) == (cpus, quota, period)
        assert await plugin.stopping(sandbox_of("b"), B) == []


async def test_what_a_runtime_that_comes_back_has_already_is_not_told_later(tmp_path: Path) -> None:
    """It was owed before."""
    node, plugin = await started(tmp_path)
    node.known["a"] = pod_of("a", {**BOUND, "cpuset": "2-3"})
    await node.enforcer.step()
    assert await plugin.synchronized([POD], [replace(A, cpu=replace(HELD, cpus="2-3"))]) == []
    assert await plugin.stopping(sandbox_of("b"), B) == []


@pytest.mark.parametrize("crash", [False, True])
async def test_a_runtime_that_comes_back_hears_of_a_container_that_was_let_go(
    crash: bool, tmp_path: Path
) -> None:
    """From the process that gave the CPUs whatever the runtime has, or from the next."""
    node, plugin = await started(tmp_path)
    await node.enforcer.step()
    node.known["a"] = pod_of("a", app=A.id)
    if crash:
        node.enforcer = node.enforcing()
        plugin = plugin_of(node)
    runs = replace(A, cpu=CpuLimits(cpus="0-1") if crash else WANTED)
    (told,) = await plugin.synchronized([POD], [runs])
    assert (told.container_id, told.cpu.cpus, told.cpu.quota) == (A.id, "0-3", 200000)


async def test_a_container_that_has_stopped_is_not_told_of(tmp_path: Path) -> None:
    """Also one that is gone when the runtime comes back."""
    node, plugin = await started(tmp_path)
    node.known["a"] = pod_of("a", {**BOUND, "cpuset": "2-3"})
    await node.enforcer.step()
    assert await plugin.synchronized([POD], []) == []
    assert await plugin.stopping(sandbox_of("b"), B) == []


async def test_what_happens_to_a_pod_is_heard(tmp_path: Path) -> None:
    """It comes with its annotations, and its containers go with it or alone."""
    node, plugin = await started(tmp_path)
    announced = node.enforcer.announced
    plugin.happened(NriEvent.RUN_POD_SANDBOX, sandbox_of("b", BOUND), None)
    assert announced.with_pods({})["b"].metadata.annotations == sandbox_of("b", BOUND).annotations
    plugin.happened(NriEvent.REMOVE_CONTAINER, sandbox_of("b"), None)
    assert "b" in announced.with_pods({})
    plugin.happened(NriEvent.REMOVE_POD_SANDBOX, sandbox_of("b"), None)
    assert "b" not in announced.with_pods({})


@pytest.mark.parametrize("event", [NriEvent.REMOVE_CONTAINER, NriEvent.REMOVE_POD_SANDBOX])
async def test_what_a_removed_container_would_have_is_forgotten_with_the_next_one(
    event: NriEvent, tmp_path: Path
) -> None:
    """Nothing is told of it either; the end of its pod alone says nothing of containers."""
    node = Node(tmp_path, known={uid: pod_of(uid, BOUND) for uid in "ab"})
    plugin = plugin_of(node)
    await plugin.creating(POD, A)
    plugin.wrote(await node.enforcer.step())
    plugin.happened(event, POD, A)
    answer = await plugin.creating(sandbox_of("b"), B)
    kept = {B.id} if event is NriEvent.REMOVE_CONTAINER else {A.id, B.id}
    assert (set(OriginalsFile(tmp_path).load().declared), answer.others) == (kept, [])


async def test_a_removed_container_is_owed_nothing(tmp_path: Path) -> None:
    """A runtime would look for it in vain."""
    node, plugin = await started(tmp_path)
    node.known["a"] = pod_of("a", {**BOUND, "cpuset": "2-3"})
    await node.enforcer.step()
    plugin.happened(NriEvent.REMOVE_CONTAINER, POD, A)
    assert await plugin.stopping(sandbox_of("b"), B) == []


@pytest.mark.parametrize(
    ("pod", "known", "answer", "level"),
    [
        (POD, pod_of("a", BOUND), "adjusted", "debug"),
        (POD, pod_of("a"), "nothing", "debug"),
        (sandbox_of("a", BOUND), None, "adjusted", "debug"),
        (replace(POD, annotations={CONFIG_SOURCE: "file"}), None, "nothing", "debug"),
        (replace(POD, annotations={CONFIG_SOURCE: "api"}), None, "unknown", "warning"),
        (POD, None, "unknown", "warning"),
    ],
)
async def test_a_pod_is_waited_for_that_can_only_be_known_from_the_api(
    pod: Sandbox, known: Any, answer: str, level: str, tmp_path: Path
) -> None:
    """For half of the time that there is, on a clock that otherwise stands still."""
    node, clock = Node(tmp_path, known={} if known is None else {"a": known}), ManualClock()
    plugin = plugin_of(node, clock)
    with structlog.testing.capture_logs() as logs:
        asked = asyncio.ensure_future(plugin.creating(pod, A))
        if answer == "unknown":
            await clock.timeouts(2)
            await clock.advance(14.9)
            assert not asked.done()
            assert node.shown("numakube_enforcer_pass_seconds_count")[0].endswith(" 0.0")
            await clock.advance(0.1)
        await asked
    said = {"pod": "a", "container": "app", "answer": answer, "log_level": level}
    assert [log for log in logs if log["event"] == "nri_container"] == [
        {"event": "nri_container", **said}
    ]


@pytest.mark.parametrize(("request_seconds", "most"), [(60.0, 30.0), (2.0, 1.0), (600.0, 30.0)])
async def test_an_answer_takes_half_of_what_the_runtime_waits_at_most(
    request_seconds: float, most: float, tmp_path: Path
) -> None:
    """The runtime hangs up otherwise."""
    node, clock = Node(tmp_path, known={"a": pod_of("a", BOUND)}), ManualClock()
    reader = Stuck(sysfs=tmp_path / "sys", cpu_state=tmp_path / "none")
    node.enforcer = node.enforcing(reader)
    plugin = plugin_of(node, clock)
    plugin.configured(ConnectedRuntime(name="r", version="1", request_seconds=request_seconds))
    reader.hold()
    asked = asyncio.ensure_future(plugin.creating(POD, A))
    await reader.asked()
    await clock.advance(most * 0.99)
    assert not asked.done()
    await clock.advance(most * 0.01)
    assert (await asked).cpu is None
    reader.release()
    await node.enforcer.step()


def refusing(socket: Path) -> Any:
    """Return a runtime that hangs up at once."""

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    return asyncio.start_unix_server(hang_up, socket)


async def test_a_runtime_that_answered_is_looked_for_at_once_when_it_refuses_again(
    tmp_path: Path,
) -> None:
    """The pauses begin anew after a session that began."""
    node, clock, socket = Node(tmp_path), JumpingClock(), tmp_path / "nri.sock"
    link = NriLink(
        plugin_of(node), node.metrics, clock, socket=socket, name="n", index="90", rng=Random(1)
    )

    async def refused(times: int) -> None:
        wanted = len(clock.slept) + times
        async with await refusing(socket):
            await until(lambda: len(clock.slept) > wanted)
        socket.unlink(missing_ok=True)

    with structlog.testing.capture_logs() as logs:
        task = asyncio.ensure_future(link.run())
        await refused(9)
        async with FakeRuntime(socket):
            await until(lambda: link.trouble == "")
            before = len(clock.slept)
        socket.unlink(missing_ok=True)
        await refused(1)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert max(clock.slept[:before]) > 4 * RETRY_SECONDS
    assert max(clock.slept[before:][:3]) <= 2 * RETRY_SECONDS
    events = [log["event"] for log in logs]
    assert events.count("nri_connected") == 1
    assert events.index("nri_away") < events.index("nri_connected")
