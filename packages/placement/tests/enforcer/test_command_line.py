"""One pass, a dry run and putting things back, from the command line."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import click
import pytest
from packages.placement.tests.enforcer.enforced import NODE, EnforcedCluster, enforced_lab

from numakube.apps.host.process_life import Surroundings
from numakube.errors import ConfigError
from numakube.node.cgroups.fake_groups import FakeCgroups
from numakube.node.cgroups.group_files import Version
from numakube_placement.enforcer.process import PROGRAM

pytestmark = pytest.mark.timeout(300)


async def call(
    world: EnforcedCluster, folder: Path, *words: str, stop: asyncio.Event | None = None
) -> tuple[int, list[str]]:
    """Run the enforcer of the node on the host; return its exit code and what it printed."""
    await world.cluster.pool.folder(NODE)
    tree = world.tree()
    line = (
        f"--kubeconfig={world.cluster.site.kubeconfig}",
        f"--hostname={NODE}",
        f"--cgroup-root={tree.root}",
        f"--sysfs={tree.root.parents[1]}",
        f"--kubelet-state-dir={tree.root.parents[2]}",
        f"--state-dir={folder}",
        *words,
    )
    printed: list[str] = []
    around = Surroundings(env={}, serve=False, echo=printed.append)
    code = await PROGRAM.perform(line, around, stop or asyncio.Event())
    return code, printed


async def test_a_dry_run_one_pass_and_the_way_back(tmp_path: Path) -> None:
    """A dry run tells what one pass does, and what that did can be undone without a cluster."""
    async with enforced_lab() as world:
        await world.create("bound", cpuset="0-1")
        await world.create("shared")

        code, would = await call(world, tmp_path, "--dry-run")
        assert code == 0
        assert any("default/bound app\t" in line and "(inherit) -> 0-1" in line for line in would)
        assert await world.cpus("bound") == "0-7"

        code, did = await call(world, tmp_path, "--once")
        assert (code, sorted(did)) == (0, sorted(would))
        assert await world.cpus("bound") == "0-1"
        assert await world.cpus("shared") == "2-7"

        code, undone = await call(world, tmp_path, "--restore")
        assert code == 0
        assert len(undone) == len(did)
        assert await world.cpus("bound") == await world.cpus("shared") == "0-7"
        assert await call(world, tmp_path, "--restore") == (0, [])

        stop = asyncio.Event()
        staying = asyncio.ensure_future(
            call(world, tmp_path, "--no-restore-on-exit", "--nri=off", stop=stop)
        )
        await world.runs_on("bound", "0-1")
        stop.set()
        assert (await staying)[0] == 0
        assert await world.cpus("bound") == "0-1"


async def test_a_host_without_groups_of_pods_is_told(tmp_path: Path) -> None:
    """The kubelet has not run there yet, or keeps its pods elsewhere."""
    async with enforced_lab() as world:
        code, said = await call(world, tmp_path, "--once", "--cgroup-parent=elsewhere")
        assert (code, said) == (1, ["nothing done: there is no group elsewhere of pods yet"])


async def test_a_host_without_a_cpuset_controller_is_refused(tmp_path: Path) -> None:
    """At once, whatever is asked."""
    line = ("--restore", f"--cgroup-root={tmp_path}", f"--state-dir={tmp_path}")
    around = Surroundings(env={}, serve=False)
    with pytest.raises(ConfigError, match="cpuset controller"):
        await PROGRAM.perform(line, around, asyncio.Event())


async def test_state_that_cannot_be_kept_is_refused(tmp_path: Path) -> None:
    """Nothing is changed that could not be undone."""
    FakeCgroups.make(tmp_path / "groups", version=Version.V1, cpus=1, mems=1)
    (tmp_path / "file").touch()
    line = ("--restore", f"--cgroup-root={tmp_path}/groups", f"--state-dir={tmp_path}/file/state")
    around = Surroundings(env={}, serve=False)
    with pytest.raises(ConfigError, match="cannot keep state in"):
        await PROGRAM.perform(line, around, asyncio.Event())


def test_unknown_words_are_refused() -> None:
    """As by every command."""
    with pytest.raises(click.NoSuchOption):
        PROGRAM.parse(("--nonsense",))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--nri-plugin-name=a b", "'a b' is not made of letters, digits and _.+-"),
        ("--nri-plugin-index=9", "'9' is not made of two digits"),
    ],
)
def test_a_name_that_no_runtime_would_take_is_refused(option: str, words: str) -> None:
    """At the start, and not when the runtime hangs up."""
    with pytest.raises(click.BadParameter, match=re.escape(words)):
        PROGRAM.parse((option,))


def test_one_pass_and_the_way_back_exclude_each_other() -> None:
    """Whatever surrounds the program."""
    with pytest.raises(click.UsageError, match="--once and --restore"):
        PROGRAM.read(PROGRAM.parse(("--once", "--restore")), Surroundings(env={}))
