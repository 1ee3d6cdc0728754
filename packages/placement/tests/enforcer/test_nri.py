"""Containers have what was allotted from their first instruction, if the runtime asks."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from packages.placement.tests.enforcer.single import Node, allotted, group_of, pod_of
from tests.api.mirrors import MIRROR, mirror_of

from numakube.kube.clock import JumpingClock, ManualClock, SystemClock
from numakube.node.cgroups.group_files import CPUS, MEMS, Version
from numakube.node.nri.fake_runtime import FakeRuntime
from numakube.node.nri.nri_objects import CpuLimits, NriContainer, Sandbox, Update
from numakube.node.nri.nri_plugin import NriEvent
from numakube.testing import bound, turns, until
from numakube_placement.enforcer.allowed_cpus import MachineReader, NodeState, PodState
from numakube_placement.enforcer.enforce_loop import Enforcer
from numakube_placement.enforcer.nri import MOST_RIDING, RETRY_SECONDS, NriLink, NriPlugin

pytestmark = pytest.mark.timeout(60)

VERSIONS = pytest.mark.parametrize("version", list(Version))
BOUND = {"cpuset": "0-1", "numaNodeResources": [{"node": 0, "resources": {"memory": "1Gi"}}]}
WANTED = CpuLimits(quota=200000, period=100000)
QUOTA = {Version.V1: "200000", Version.V2: "200000 100000"}
SPLIT = {
    "cpuset": "0-1",
    "containers": [{"name": "app", "cpuset": "0"}, {"name": "log", "cpuset": "1"}],
}
LIFTED = CpuLimits(cpus="0-1", mems="0", quota=-1, period=100000)


def sandbox_of(uid: str, status: Mapping[str, Any] | None = None) -> Sandbox:
    """Return a pod as the runtime has it."""
    annotations = {} if status is None else allotted(status)
    return Sandbox(id=f"s-{uid}", uid=uid, namespace="ns", name=uid, annotations=annotations)


def container_of(uid: str, name: str = "app") -> NriContainer:
    """Return a container that the kubelet wants."""
    identity = f"{uid}{name}".encode().hex().ljust(64, "0")
    return NriContainer(id=identity, sandbox_id=f"s-{uid}", name=name, cpu=WANTED)


@dataclass
class Joined:
    """An enforcer and a runtime that asks it."""

    node: Node
    enforcer: Enforcer
    plugin: NriPlugin
    runtime: FakeRuntime
    link: NriLink
    task: asyncio.Task[None]

    async def end(self) -> None:
        """Let the enforcer hang up."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)

    async def start(self, uid: str, name: str = "app", status: Any = None) -> CpuLimits:
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
        world = Joined(node, enforcer, plugin, runtime, link, task)
        try:
            yield world
        finally:
            await world.end()


class Stuck(MachineReader):
    """A reader that takes its time when told so."""

    def hold(self) -> None:
        """Read no more until `release`."""
        self.go = threading.Event()
        self.waits = threading.Event()

    async def asked(self) -> None:
        """Wait until somebody wants to read."""
        await asyncio.to_thread(self.waits.wait)

    def release(self) -> None:
        """Go on."""
        self.go.set()

    def read(self, annotations: Mapping[str, str]) -> NodeState:
        """Wait, and read."""
        if hasattr(self, "go"):
            self.waits.set()
            self.go.wait()
        return super().read(annotations)


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
    node = Node(tmp_path, version, known={"a": pod_of("a", SPLIT)})
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
        await world.runtime.tell(NriEvent.RUN_POD_SANDBOX, sandbox_of("a", BOUND))
        assert await world.start("a", status=BOUND) == LIFTED
        # What is forced out of the API then does not keep its CPUs.
        node.known["a"] = pod_of("a", BOUND)
        await world.enforcer.step()
        node.known = {"b": pod_of("b", BOUND)}
        await world.enforcer.step()
        assert node.groups.effective(group_of("a"), CPUS) == 0b1100


@pytest.mark.parametrize("sandboxed", [False, True])
async def test_no_pod_takes_the_place_of_another(sandboxed: bool, tmp_path: Path) -> None:
    """Whatever its annotations say that it mirrors, in the API or in its sandbox."""
    victim, liar = pod_of("a", BOUND), pod_of("z", {"cpuset": "3"})
    liar.metadata.annotations[MIRROR] = "a"
    node = Node(tmp_path, known={"a": victim} if sandboxed else {"a": victim, "z": liar})
    node.groups.add(group_of("a"))
    async with joined(node) as world:
        if sandboxed:
            annotations = liar.metadata.annotations
            pod = Sandbox(id="s-z", uid="z", namespace="ns", name="z", annotations=annotations)
            await world.runtime.tell(NriEvent.RUN_POD_SANDBOX, pod)
        await world.enforcer.step()
        assert node.groups.read(group_of("a"), CPUS) == "0-1"


async def test_a_static_pod_has_the_groups_that_its_image_names(tmp_path: Path) -> None:
    """With all the marks of its kubelet."""
    image = mirror_of(bound(pod_of("api", BOUND), "n1"), "a")
    node = Node(tmp_path, known={"api": image})
    node.groups.add(group_of("a"))
    await node.enforcer.step()
    assert node.groups.read(group_of("a"), CPUS) == "0-1"


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
@pytest.mark.parametrize("hook", ["create", "update", "stop"])
async def test_the_runtime_hears_of_changes_when_it_asks(
    version: Version, hook: str, tmp_path: Path
) -> None:
    """About any container, once, and never before: it would stand still if it were called."""
    node = Node(tmp_path, version, known={"a": pod_of("a", BOUND), "b": pod_of("b")})
    node.groups.add(group_of("a"))
    identity = container_of("a").id
    async with joined(node) as world:
        await world.start("a")
        node.known["a"] = pod_of("a", {**BOUND, "cpuset": "2-3"})
        await world.enforcer.step()
        assert world.runtime.updates == []
        ask = getattr(world.runtime, hook)
        wanted = (WANTED,) if hook == "update" else ()
        for _ in range(2):
            await ask(sandbox_of("b"), container_of("b"), *wanted)
            held = replace(LIFTED, cpus="2-3", period=None)
            assert world.runtime.updates == [Update(container_id=identity, cpu=held)]
        name = "numakube_enforcer_nri_updates_total"
        assert node.shown(name) == [f"{name} 1.0"]


async def test_the_runtime_hears_that_memory_is_elsewhere(tmp_path: Path) -> None:
    """The CPUs and the quota are what they were."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)}, shape="2 sockets, 2 cores, 4Gi")
    node.groups.add(group_of("a"))
    async with joined(node) as world:
        await world.start("a")
        elsewhere = [{"node": 1, "resources": {"memory": "1Gi"}}]
        node.known["a"] = pod_of("a", {**BOUND, "numaNodeResources": elsewhere})
        await world.enforcer.step()
        await world.runtime.stop(sandbox_of("b"), container_of("b"))
        (update,) = world.runtime.updates
        assert update.cpu == replace(LIFTED, mems="1", period=None)


async def test_an_answer_about_a_container_has_one_word_about_it(tmp_path: Path) -> None:
    """A pass that comes in between has another; two are a quarrel, and the update fails."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    reader = Stuck(sysfs=tmp_path / "sys", cpu_state=tmp_path / "none")
    async with joined(node, enforcer=node.enforcing(reader)) as world:
        await world.start("a")
        await world.enforcer.step()
        reader.hold()
        node.known["a"] = pod_of("a", {**BOUND, "cpuset": "2-3"})
        passing = asyncio.ensure_future(world.enforcer.step())
        await reader.asked()
        resized = asyncio.ensure_future(
            world.plugin.updating(sandbox_of("a"), container_of("a"), WANTED)
        )
        await turns()
        reader.release()
        await passing
        assert (await resized).others == []


async def test_a_container_that_is_gone_has_no_name_any_more(tmp_path: Path) -> None:
    """Thousands come and go in the life of an enforcer."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    async with joined(node) as world:
        await world.start("a")
        pod = PodState(uid="a", name="ns/a")
        assert world.enforcer.announced.with_containers(pod).containers
        await world.runtime.tell(NriEvent.REMOVE_CONTAINER, sandbox_of("a"), container_of("a"))
        assert not world.enforcer.announced.with_containers(pod).containers


@pytest.mark.parametrize("refuses", [False, True])
async def test_a_runtime_that_refuses_is_asked_less_and_less(refuses: bool, tmp_path: Path) -> None:
    """Each session costs it some work; to look for a socket costs nothing."""
    node, clock, socket = Node(tmp_path), JumpingClock(), tmp_path / "nri.sock"
    plugin = NriPlugin(node.enforcer, node.metrics, SystemClock())
    link = NriLink(plugin, node.metrics, clock, socket=socket, name="n", index="90", rng=Random(1))
    async with contextlib.AsyncExitStack() as stack:
        if refuses:

            async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                writer.close()

            await stack.enter_async_context(await asyncio.start_unix_server(hang_up, socket))
        task = asyncio.ensure_future(link.run())
        await until(lambda: len(clock.slept), lambda times: times > 8)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert (max(clock.slept) > 4 * RETRY_SECONDS) is refuses
    assert link.trouble.startswith(f"{socket}: ")


async def test_one_answer_carries_a_few_updates_and_the_next_ones_the_rest(tmp_path: Path) -> None:
    """The runtime makes them one by one, and whoever asked for the container waits."""
    names = [f"c{number}" for number in range(MOST_RIDING + 1)]
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    node.groups.add(group_of("a"))
    async with joined(node) as world:
        for name in names:
            await world.start("a", name)
        node.known["a"] = pod_of("a", {**BOUND, "cpuset": "2-3"})
        await world.enforcer.step()
        for told in (MOST_RIDING, len(names)):
            await world.runtime.stop(sandbox_of("b"), container_of("b"))
            assert len({update.container_id for update in world.runtime.updates}) == told


@pytest.mark.parametrize("event", ["stop", "remove"])
async def test_containers_that_have_ended_are_not_updated(event: str, tmp_path: Path) -> None:
    """A runtime would look for them in vain."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    node.groups.add(group_of("a"))
    async with joined(node) as world:
        await world.start("a")
        node.known["a"] = pod_of("a", {**BOUND, "cpuset": "2-3"})
        await world.enforcer.step()
        if event == "stop":
            await world.runtime.stop(sandbox_of("a"), container_of("a"))
        else:
            await world.runtime.tell(NriEvent.REMOVE_CONTAINER, sandbox_of("a"), container_of("a"))
        await world.runtime.stop(sandbox_of("b"), container_of("b"))
        assert world.runtime.updates == []


async def test_a_container_keeps_its_cpus_whatever_the_kubelet_writes(tmp_path: Path) -> None:
    """As its static CPU Manager does every ten seconds; also while no pass can be made."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    pools = CpuLimits(cpus="0-3", mems="0")
    async with joined(node) as world:
        await world.start("a")
        (tmp_path / "cpu_manager_state").write_text("{")
        for trouble in (False, True):
            if trouble:
                assert (await world.enforcer.step()).trouble
            has = await world.runtime.update(sandbox_of("a"), container_of("a"), pools)
            assert (has.cpus, has.mems, has.quota) == ("0-1", "0", -1)
        assert (await world.runtime.create(sandbox_of("a"), container_of("a", "new"))) == WANTED


async def test_a_container_that_was_let_go_keeps_what_it_got_back(tmp_path: Path) -> None:
    """The runtime would write its old CPUs again; what the kubelet says itself counts."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    async with joined(node) as world:
        await world.start("a")
        node.known["a"] = pod_of("a")
        await world.enforcer.step()
        shares = await world.runtime.update(sandbox_of("a"), container_of("a"), CpuLimits())
        assert (shares.cpus, shares.quota) == ("0-3", 200000)
        mine = CpuLimits(cpus="3", quota=70000, period=100000)
        has = await world.runtime.update(sandbox_of("a"), container_of("a"), mine)
        assert (has.cpus, has.quota, has.period) == ("3", 70000, 100000)


async def test_a_resize_changes_what_is_put_back(tmp_path: Path) -> None:
    """A bound container stays without a quota."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    async with joined(node) as world:
        await world.start("a")
        await world.enforcer.step()
        resized = CpuLimits(quota=300000, period=100000)
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
        given = CpuLimits(cpus="0-1", mems="0", quota=-1)
        assert world.runtime.updates == [Update(container_id=one.id, cpu=given)]


@VERSIONS
async def test_a_runtime_that_comes_back_hears_what_it_has_missed(
    version: Version, tmp_path: Path
) -> None:
    """Of a container that was let go in between, and not of one that has what it should."""
    node = Node(tmp_path, version, known={uid: pod_of(uid, BOUND) for uid in ("a", "b")})
    for uid in ("a", "b"):
        node.groups.add(group_of(uid))
    async with joined(node) as world:
        for uid in ("a", "b"):
            await world.start(uid)
            world.runtime.pods[f"s-{uid}"] = sandbox_of(uid)
        world.runtime.hang_up()
        node.known["a"] = pod_of("a")
        await world.enforcer.step()
        await world.runtime.connected.wait()
        (last,) = world.runtime.updates
        assert last.container_id == container_of("a").id
        assert last.cpu.cpus == node.groups.read(group_of("a", last.container_id), CPUS) != "0-1"


async def test_the_runtime_hears_at_the_end_what_was_put_back(tmp_path: Path) -> None:
    """In a session of its own: what it asks then is answered, and it is not called."""
    node = Node(tmp_path, known={"a": pod_of("a", BOUND)})
    node.groups.add(group_of("a"))
    async with joined(node) as world:
        await world.start("a")
        world.runtime.pods["s-a"] = sandbox_of("a")
        await world.enforcer.restore()
        await world.end()
        await world.link.say_farewell()
        (last,) = world.runtime.updates
        assert (last.cpu.cpus, last.cpu.quota) == ("0-3", 200000)
        assert len(world.runtime.registered) == 2


async def test_no_farewell_is_said_to_a_runtime_that_is_gone(tmp_path: Path) -> None:
    """The process ends all the same."""
    async with joined(Node(tmp_path)) as world:
        await world.end()
    await world.link.say_farewell()


UNPINNED = "numakube_enforcer_unpinned_starts_total"


@VERSIONS
@pytest.mark.parametrize("why", ["late", "closed", "restarted"])
async def test_a_container_that_started_unpinned_is_set_right_and_counted(
    version: Version, why: str, tmp_path: Path
) -> None:
    """Runtimes start containers all the same when a plugin does not answer."""
    node = Node(tmp_path, version, known={"a": pod_of("a", SPLIT)})
    node.groups.add(group_of("a"))
    reader = Stuck(sysfs=tmp_path / "sys", cpu_state=tmp_path / "none")
    async with joined(node, enforcer=node.enforcing(reader), seconds=1.0) as world:
        world.runtime.pods["s-a"] = sandbox_of("a")
        if why == "late":
            reader.hold()
            assert await world.start("a") == WANTED
            reader.release()
            await world.enforcer.step()
        else:
            world.runtime.hang_up()
            assert await world.start("a") == WANTED
        if why == "restarted":
            await world.end()
            world = replace(world, enforcer=node.enforcing())
            node.known["a"] = pod_of("a", SPLIT, app=container_of("a").id)
            await world.enforcer.step()
        group = group_of("a", container_of("a").id)
        await until(lambda: node.groups.read(group, CPUS), lambda cpus: cpus == "0")
        await until(lambda: node.shown(UNPINNED), lambda lines: lines == [f"{UNPINNED} 1.0"])
        await world.enforcer.step()
        assert node.shown(UNPINNED) == [f"{UNPINNED} 1.0"]


@VERSIONS
async def test_a_container_that_began_with_its_cpus_is_not_counted(
    version: Version, tmp_path: Path
) -> None:
    """Even if its group is seen before the runtime has written it, and later when others drift."""
    node = Node(tmp_path, version, known={"a": pod_of("a", SPLIT)})
    node.groups.add(group_of("a"))
    group = group_of("a", container_of("a").id)
    async with joined(node) as world:
        assert (await world.runtime.create(sandbox_of("a"), container_of("a"))).cpus == "0"
        node.groups.add(group)
        node.groups.busy.add(group)
        await world.enforcer.step()
        assert node.groups.write(group, CPUS, "0-1") == ""
        await world.enforcer.step()
    assert node.groups.read(group, CPUS) == "0"
    assert node.shown(UNPINNED) == [f"{UNPINNED} 0.0"]


@pytest.mark.parametrize(
    "has",
    [
        CpuLimits(cpus="0-1", mems="1", quota=-1),
        CpuLimits(cpus="0", mems="0", quota=-1),
        CpuLimits(cpus="0-1", mems="0", quota=5),
        CpuLimits(cpus="0,1", mems="0", quota=-1),
    ],
)
async def test_a_runtime_is_told_of_every_part_that_differs(has: CpuLimits, tmp_path: Path) -> None:
    """And of nothing if all is the same, however it is written."""
    one = replace(container_of("a"), cpu=has)
    node = Node(tmp_path, known={"a": pod_of("a", BOUND, app=one.id)})
    node.groups.add(group_of("a", one.id))
    async with joined(node) as world:
        told = await world.plugin.synchronized([sandbox_of("a")], [one])
        assert bool(told) is (has.cpus != "0,1")


async def test_a_container_that_has_nothing_of_ours_is_left_to_the_kubelet(tmp_path: Path) -> None:
    """Whatever the runtime tells of it."""
    node = Node(tmp_path, known={"b": pod_of("b")})
    async with joined(node) as world:
        await world.plugin.synchronized([sandbox_of("b")], [container_of("b")])
        assert (
            await world.runtime.update(sandbox_of("b"), container_of("b"), CpuLimits())
            == CpuLimits()
        )


@pytest.mark.parametrize("event", [NriEvent.RUN_POD_SANDBOX, None])
async def test_news_of_the_runtime_make_a_pass(event: NriEvent | None, tmp_path: Path) -> None:
    """Of a pod that comes, and of a container that stops."""
    node, clock = Node(tmp_path), ManualClock()
    node.enforcer.clock = clock
    async with joined(node) as world:
        passing = asyncio.ensure_future(world.enforcer.run(asyncio.Event()))
        await clock.timeouts()
        if event is None:
            await world.runtime.stop(sandbox_of("a"), container_of("a"))
        else:
            await world.runtime.tell(event, sandbox_of("a"))
        await clock.sleepers()
        passing.cancel()
        await asyncio.gather(passing, return_exceptions=True)


async def test_it_is_told_which_way_is_in_use(tmp_path: Path) -> None:
    """By a metric, and by the reason why the runtime does not ask."""
    node = Node(tmp_path)
    name = "numakube_enforcer_nri_connected"
    async with joined(node):
        assert node.shown(name) == [f"{name} 1.0"]
    assert node.shown(name) == [f"{name} 0.0"]


async def test_memory_that_an_earlier_process_gave_is_taken_back_from_the_runtime_too(
    tmp_path: Path,
) -> None:
    """Also of a container that had no CPUs of its own."""
    one = container_of("a")
    given = {"numaNodeResources": [{"node": 0, "resources": {"memory": "1Gi"}}]}
    node = Node(
        tmp_path,
        known={"a": pod_of("a", given, app=one.id)},
        shape="2 sockets, 2 cores, 4Gi",
    )
    node.groups.add(group_of("a", one.id))
    node.groups.busy.add(group_of("a", one.id))
    await node.enforcer.step()
    assert node.groups.read(group_of("a", one.id), MEMS) == "0"
    async with joined(node, enforcer=node.enforcing()) as world:
        node.known["a"] = pod_of("a", app=one.id)
        running = replace(one, cpu=CpuLimits(mems="0"))
        (told,) = await world.plugin.synchronized([sandbox_of("a")], [running])
        assert (told.container_id, told.cpu.mems) == (one.id, "0-1")


async def test_only_a_pod_that_is_not_known_yet_is_waited_for(tmp_path: Path) -> None:
    """By a clock that stands still: one that is known has its answer at once."""
    node, clock = Node(tmp_path, known={"a": pod_of("a", BOUND)}), ManualClock()
    plugin = NriPlugin(node.enforcer, node.metrics, clock, most_seconds=30.0)
    for uid in ("a", "b"):
        node.groups.add(group_of(uid))
    async with asyncio.timeout(10):
        at_once = await plugin.creating(sandbox_of("a"), container_of("a"))
    assert at_once.cpu is not None
    assert at_once.cpu.cpus == "0-1"
    late = asyncio.create_task(plugin.creating(sandbox_of("b"), container_of("b")))
    await clock.timeouts()
    await turns()
    assert not late.done()
    node.known["b"] = pod_of("b", {**BOUND, "cpuset": "2-3"})
    plugin.pods_changed()
    answer = await late
    assert answer.cpu is not None
    assert answer.cpu.cpus == "2-3"
