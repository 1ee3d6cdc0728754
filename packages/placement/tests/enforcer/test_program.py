"""``numakube run enforcer`` as a program of its own: killed, told to end, and asked how it is."""

from __future__ import annotations

import contextlib
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from packages.placement.tests.enforcer.enforced import NODE, EnforcedCluster, enforced_lab
from tests.apps.own_process import fetch, logged, own_process

from numakube.node.cgroups.group_files import CPUS
from numakube.node.nri.fake_runtime import FakeRuntime
from numakube.node.nri.nri_objects import CpuLimits, NriContainer, Sandbox
from numakube.testing import until
from numakube_lab.nodes.node_cgroups import group_of
from numakube_placement.enforcer.enforcer_state_file import FILE

pytestmark = pytest.mark.timeout(300)


@contextlib.asynccontextmanager
async def running(world: EnforcedCluster, folder: Path, *options: str) -> AsyncIterator[Process]:
    """Run the program for the lab's node."""
    await world.cluster.pool.folder(NODE)
    tree = world.tree()
    async with own_process(
        "enforcer",
        *("--kubeconfig", str(world.cluster.site.kubeconfig), "--hostname", NODE),
        *("--cgroup-root", str(tree.root), "--sysfs", str(tree.root.parents[1])),
        *("--kubelet-state-dir", str(tree.root.parents[2]), "--state-dir", str(folder)),
        *("--bind-address", "127.0.0.1:0", "--nri-socket", str(folder / "nri.sock")),
        *options,
    ) as process:
        yield process


async def ends(process: Process) -> None:
    """Tell it to end, which must succeed; otherwise its log says why it did not."""
    process.send_signal(signal.SIGTERM)
    _, log = await process.communicate()
    assert process.returncode == 0, log.decode()


async def is_ready(url: str) -> bool:
    """Tell whether the program says so."""
    return (await fetch(f"{url}/readyz"))[0] == 200


async def test_what_a_killed_process_changed_is_put_back_by_the_next(tmp_path: Path) -> None:
    """It goes on where the other one ended, and tells how it is."""
    async with enforced_lab() as world:
        await world.create("bound", cpuset="0-1")
        await world.create("shared")
        async with running(world, tmp_path) as process:
            await world.runs_on("bound", "0-1")
            await world.runs_on("shared", "2-7")
            process.kill()
            await process.wait()
        assert (tmp_path / FILE).exists()
        assert await world.cpus("bound") == "0-1"

        async with running(world, tmp_path) as process:
            url = (await logged(process, "serving"))["url"]
            await until(lambda: is_ready(url))
            _, metrics = await fetch(f"{url}/metrics")
            assert 'numakube_enforcer_pods{kind="bound"} 1.0' in metrics
            assert 'numakube_enforcer_pool_cpus{numa_node="0",pool="ls"} 2.0' in metrics
            await ends(process)
        assert await world.cpus("bound") == await world.cpus("shared") == "0-7"
        assert {world.tree().cpus(group) for group in world.tree().groups()} == {""}

        async with running(world, tmp_path, "--cgroup-parent=elsewhere", "--nri=on") as process:
            url = (await logged(process, "serving"))["url"]
            _, said = await until(lambda: fetch(f"{url}/readyz"), lambda one: "no group" in one[1])
            assert "there is no group elsewhere of pods yet" in said
            assert f"{tmp_path}/nri.sock: " in said
            await ends(process)


async def test_the_runtime_is_answered_by_the_program(tmp_path: Path) -> None:
    """With what the scheduler allotted; it hears at the end what was put back."""
    container = NriContainer(id="c" * 64, sandbox_id="s", name="app", cpu=CpuLimits(quota=50000))
    socket = tmp_path / "nri.sock"
    async with enforced_lab() as world, FakeRuntime(socket) as runtime:
        pod = await world.create("bound", cpuset="0-1")
        identity = pod.metadata.uid
        sandbox = Sandbox(id="s", uid=identity, namespace="default", name="bound")
        async with running(world, tmp_path, "--nri", "on") as process:
            url = (await logged(process, "serving"))["url"]
            await runtime.connected.wait()
            await until(lambda: is_ready(url))
            # The first answer may come too late to count.
            given = CpuLimits(cpus="0-1", quota=-1)
            await until(lambda: runtime.create(sandbox, container), lambda cpu: cpu == given)
            world.tree().add(group := f"{group_of(pod)}/cri-containerd-{container.id}.scope")
            world.tree().files.write(group, CPUS, "0-1")
            await world.runs_on("bound", "0-1")
            await ends(process)
        assert world.tree().effective_cpus(group) == "0-7"
        assert runtime.updates[-1].cpu.quota == 50000
