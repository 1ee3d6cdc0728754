"""Containers have what was allotted from their first instruction, if the runtime asks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.apps.enforcer.single import Node, allotted, group_of, pod_of

from numakube.apps.enforcer.allowed_cpus import NodeState
from numakube.apps.enforcer.enforce_loop import Enforcer
from numakube.apps.enforcer.node_reading import NodeReader
from numakube.apps.enforcer.nri import NriPlugin
from numakube.apps.enforcer.nri_link import NriLink
from numakube.kube.clock import JumpingClock, SystemClock
from numakube.node.cgroups.group_files import CPUS, MEMS, Version
from numakube.node.nri.fake_runtime import FakeRuntime
from numakube.node.nri.nri_objects import Container, Cpu, Sandbox, Update
from numakube.node.nri.nri_plugin import Event
from numakube.testing import turns

pytestmark = pytest.mark.timeout(60)

VERSIONS = pytest.mark.parametrize("version", list(Version))
BOUND = {"cpuset": "0-1", "numaNodeResources": [{"node": 0, "resources": {"memory": "1Gi"}}]}
WANTED = Cpu(quota=200000, period=100000)
QUOTA = {Version.V1: "200000", Version.V2: "200000 100000"}
LIFTED = Cpu(cpus="0-1", mems="0", quota=-1, period=100000)


def sandbox_of(uid: str, status: Mapping[str, Any] | None = None) -> Sandbox:
    """Return a pod as the runtime has it."""
    annotations = {} if status is None else allotted(status)
    return Sandbox(id=f"s-{uid}", uid=uid, namespace="ns", name=uid, annotations=annotations)


def container_of(uid: str, name: str = "app") -> Container:
    """Return a container that the kubelet wants."""
    identity = f"{uid}{name}".encode().hex().ljust(64, "0")
    return Container(id=identity, sandbox_id=f"s-{uid}", name=name, cpu=WANTED)


@dataclass
class Joined:
    """An enforcer and a runtime that asks it."""

    node: Node
    enforcer: Enforcer
    plugin: NriPlugin
    runtime: FakeRuntime

    async def start(self, uid: str, name: str = "app", status: Any = None) -> Cpu:
        """Make a container as runtimes do: with what the plugin says, and then with processes."""
        container = container_of(uid, name)
        cpu = await self.runtime.create(sandbox_of(uid, status), container)
        group, groups = group_of(uid, container.id), self.node.groups
        groups.add(group)
        groups.busy.add(group)
        written = {CPUS: cpu.cpus, MEMS: cpu.mems, groups.version.quota: str(cpu.quota)}
        if groups.version is Version.V2 and cpu.quota is not None:
            quota = "max" if cpu.quota < 0 else cpu.quota
            written[groups.version.quota] = f"{quota} {cpu.period}"
        for file, text in written.items():
            if text:
                assert groups.write(group, file, text) == ""
        return cpu

    def answered(self, answer: str) -> bool:
        """Tell whether the metric has counted such an answer."""
        name = "numakube_enforcer_nri_containers_total"
        return f'{name}{{answer="{answer}"}} 1.0' in self.node.shown(name)


@contextlib.asynccontextmanager
async def joined(
    node: Node, *, enforcer: Enforcer | None = None, seconds: float = 30.0
) -> AsyncIterator[Joined]:
    """Let a runtime ask the enforcer of a node, which answers in so many seconds at most."""
    enforcer = enforcer or node.enforcer
    plugin = NriPlugin(enforcer, node.metrics, SystemClock(), most_seconds=seconds)
    enforcer.wrote = plugin.wrote
    socket = node.folder / "nri.sock"
    link = NriLink(
        plugin, node.metrics, JumpingClock(), socket=socket, name="n", index="90", rng=Random(1)
    )
    async with FakeRuntime(socket, request_seconds=60.0) as runtime:
        task = asyncio.ensure_future(link.run())
        await runtime.connected.wait()
        try:
            yield Joined(node, enforcer, plugin, runtime)
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


@VERSIONS
async def test_a_container_begins_with_what_was_allotted(version: Version, tmp_path: Path) -> None:
    """CPUs, memory and no quota; others have left its CPUs, and nothing is left to write."""
    node = Node(tmp_path, version)
    node.known = {"a": pod_of("a", BOUND), "b": pod_of("b", app="b" * 64)}
    node.groups.add(group_of("a"))
    node.groups.add(group_of("b", "b" * 64))
    async with joined(node) as world:
        container = container_of("a")
        assert await world.runtime.create(sandbox_of("a"), container) == LIFTED
        assert node.groups.effective(group_of("b", "b" * 64), CPUS) == 0b1100
        assert world.answered("adjusted")
        await world.start("a")
        assert (await world.enforcer.step()).changes == []


@VERSIONS
@pytest.mark.parametrize("seen", [False, True])
@pytest.mark.parametrize("crash", [False, True])
async def test_what_the_kubelet_wanted_is_put_back(
    version: Version, crash: bool, seen: bool, tmp_path: Path
) -> None:
    """Although the group never had it; also if the process ends before it has seen the group."""
    node = Node(tmp_path, version, known={"a": pod_of("a", BOUND)})
    node.groups.add(group_of("a"))
    group = group_of("a", container_of("a").id)
    async with joined(node) as world:
        await world.start("a")
        if seen:
            await world.enforcer.step()
    enforcer = node.enforcing() if crash else world.enforcer
    assert (await enforcer.restore()).refused == []
    assert node.groups.effective(group, CPUS) == 0b1111
    assert node.groups.read(group, version.quota) == QUOTA[version]


@VERSIONS
async def test_a_container_of_several_has_its_own_at_once(version: Version, tmp_path: Path) -> None:
    """The pod's status does not have its id yet, and the next pass leaves it alone."""
    status = {
        "cpuset": "0-1",
        "containers": [{"name": "app", "cpuset": "0"}, {"name": "log", "cpuset": "1"}],
    }
    node = Node(tmp_path, version, known={"a": pod_of("a", status)})
    node.groups.add(group_of("a"))
    async with joined(node) as world:
        for name, cpus in (("app", "0"), ("log", "1")):
            assert (await world.start("a", name)).cpus == cpus
        assert (await world.enforcer.step()).changes == []
    assert (await world.enforcer.restore()).refused == []
    for name in ("app", "log"):
        assert node.groups.effective(group_of("a", container_of("a", name).id), CPUS) == 0b1111


async def test_a_container_that_shares_is_left_to_its_pod(tmp_path: Path) -> None:
    """The pod's group is confined, and the container follows it."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND), "b": pod_of("b")})
    node.groups.add(group_of("a"))
    node.groups.add(group_of("b"))
    async with joined(node) as world:
        assert await world.start("b") == WANTED
        assert node.groups.effective(group_of("b", container_of("b").id), CPUS) == 0b1100
        assert world.answered("nothing")


async def test_the_sandbox_says_what_the_api_has_not_said_yet(tmp_path: Path) -> None:
    """It has the annotations of the pod."""
    node = Node(tmp_path)
    async with joined(node) as world:
        await world.runtime.tell(Event.RUN_POD_SANDBOX, sandbox_of("a", BOUND))
        assert await world.start("a", status=BOUND) == LIFTED
        # What is forced out of the API then does not keep its CPUs.
        node.known["a"] = pod_of("a", BOUND)
        await world.enforcer.step()
        node.known = {"b": pod_of("b", BOUND)}
        await world.enforcer.step()
        assert node.groups.effective(group_of("a"), CPUS) == 0b1100


async def test_a_pod_that_is_not_known_yet_is_waited_for(tmp_path: Path) -> None:
    """Its allotment comes with it."""
    node = Node(tmp_path)
    async with joined(node) as world:
        starting = asyncio.ensure_future(world.start("a"))
        await turns()
        node.known["a"] = pod_of("a", BOUND)
        world.plugin.pods_changed()
        assert await starting == LIFTED


async def test_a_pod_that_stays_unknown_starts_nevertheless(tmp_path: Path) -> None:
    """After half of the time; it is counted, and mended when it is known."""
    node = Node(tmp_path)
    async with joined(node, seconds=4.0) as world:
        assert await world.start("a") == WANTED
        assert world.answered("unknown")
        node.known["a"] = pod_of("a", BOUND)
        await world.enforcer.step()
        assert node.groups.read(group_of("a", container_of("a").id), CPUS) == "0-1"


class Stuck(NodeReader):
    """A reader that takes its time when told so."""

    def hold(self) -> None:
        """Read no more until `release`."""
        self.go = threading.Event()

    def release(self) -> None:
        """Go on."""
        self.go.set()

    def read(self, annotations: Mapping[str, str]) -> NodeState:
        """Wait, and read."""
        if hasattr(self, "go"):
            self.go.wait()
        return super().read(annotations)


async def test_no_container_waits_for_a_slow_node(tmp_path: Path) -> None:
    """The answer comes in time to be still taken, and says nothing."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    reader = Stuck(sysfs=tmp_path / "sys", cpu_state=tmp_path / "none")
    async with joined(node, enforcer=node.enforcing(reader), seconds=1.0) as world:
        reader.hold()
        assert await world.start("a") == WANTED
        reader.release()
        assert world.answered("late")
        assert world.runtime.connected.is_set()


@VERSIONS
async def test_the_runtime_hears_of_changes(version: Version, tmp_path: Path) -> None:
    """Of other CPUs, of a release, and of the end: it would write the old ones again."""
    node = Node(tmp_path, version, known={"a": pod_of("a", BOUND)})
    node.groups.add(group_of("a"))
    identity = container_of("a").id
    async with joined(node) as world:
        await world.start("a")
        node.known["a"] = pod_of("a", {**BOUND, "cpuset": "2-3"})
        await world.enforcer.step()
        await world.plugin.all_told()
        assert world.runtime.updates == [Update(container_id=identity, cpu=Cpu(cpus="2-3"))]
        await world.enforcer.restore()
        await world.plugin.all_told()
        last = world.runtime.updates[-1]
        assert (last.container_id, last.cpu.cpus, last.cpu.quota) == (identity, "0-3", 200000)


async def test_a_resize_changes_what_is_put_back(tmp_path: Path) -> None:
    """A bound container stays without a quota."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    async with joined(node) as world:
        await world.start("a")
        await world.enforcer.step()
        resized = Cpu(quota=300000, period=100000)
        has = await world.runtime.update(sandbox_of("a"), container_of("a"), resized)
        assert (has.cpus, has.quota) == ("0-1", -1)
        await world.enforcer.restore()
    group = group_of("a", container_of("a").id)
    assert node.groups.read(group, Version.V2.quota) == "300000 100000"


async def test_what_runs_already_is_told_to_the_runtime(tmp_path: Path) -> None:
    """A runtime that comes back, too; and nothing of what shares."""
    one, other = container_of("a"), container_of("b")
    node = Node(tmp_path, known={"a": pod_of("a", BOUND, app=one.id), "b": pod_of("b")})
    node.groups.add(group_of("a", one.id), quota=QUOTA[Version.V2])
    node.groups.add(group_of("b", other.id))
    async with joined(node) as world:
        world.runtime.pods = {f"s-{uid}": sandbox_of(uid) for uid in ("a", "b")}
        world.runtime.containers = {one.id: one, other.id: other}
        world.runtime.hang_up()
        await world.runtime.connected.wait()
        assert world.runtime.registered == [("n", "90")] * 2
        given = Cpu(cpus="0-1", mems="0", quota=-1)
        assert world.runtime.updates == [Update(container_id=one.id, cpu=given)]


async def test_it_is_told_which_way_is_in_use(tmp_path: Path) -> None:
    """By a metric, and by the reason why the runtime does not ask."""
    node = Node(tmp_path)
    name = "numakube_enforcer_nri_connected"
    async with joined(node):
        assert node.shown(name) == [f"{name} 1.0"]
    assert node.shown(name) == [f"{name} 0.0"]
