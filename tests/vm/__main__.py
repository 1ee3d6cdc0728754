"""`python -m tests.vm`: a cluster with a real kubelet to work on by hand, or a long campaign."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from random import Random

from tests.vm.campaign import Campaign
from tests.vm.cluster import Cluster, NodeOpener, cluster
from tests.vm.kubelets import Choice, every_choice, parse_choice
from tests.vm.machines import opener_of
from tests.vm.plan import run_plan
from tests.vm.programs import Missing
from tests.vm.shapes import SHAPES


def main() -> int:
    """Run a command; returns 1 if a count that must be 0 is not."""
    options = _parser().parse_args()
    try:
        return asyncio.run(_run(options))
    except Missing as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except asyncio.CancelledError:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.vm", description=__doc__)
    parser.add_argument("command", choices=("up", "campaign"))
    parser.add_argument("--node", choices=("namespace", "vm"), default="namespace")
    parser.add_argument("--shape", default="four", help=f"{', '.join(SHAPES)}, or any shape")
    parser.add_argument("--policy", help="words such as 'restricted pod full-pcpus-only'")
    parser.add_argument("--numakube", type=Path, help="the command of another worktree")
    parser.add_argument("--folder", type=Path, help="where to keep files; the logs stay there")
    parser.add_argument("--pods", type=int, default=200, help="over all configurations")
    parser.add_argument("--restarts", type=int, default=0, help="over all configurations")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--stuck", action="store_true", help="admit pods, but never start them")
    return parser


async def _run(options: argparse.Namespace) -> int:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    opener = opener_of(options.node, options.shape, numakube=_command(options.numakube))
    with _folder(options.folder) as folder:
        if options.command == "up":
            return await _up(options, folder, opener)
        return await _campaign(options, folder, opener)


async def _up(options: argparse.Namespace, folder: Path, opener: NodeOpener) -> int:
    choice = parse_choice(options.policy or "")
    async with cluster(folder, opener, numakube=_command(options.numakube)) as running:
        await running.start_kubelet(choice)
        _tell(running, folder, choice)
        await asyncio.Event().wait()
    return 0


def _tell(running: Cluster, folder: Path, choice: Choice) -> None:
    kubeconfig = running.plane.kubeconfig
    print(
        f"export KUBECONFIG={kubeconfig}\n"
        f"# node {running.node.name}, kubelet: {choice.name}\n"
        f"# scheduler {running.scheduler_url} (/metrics, /debug/pods)\n"
        f"# everything else is in {folder}; end with Ctrl-C",
        flush=True,
    )


async def _campaign(options: argparse.Namespace, folder: Path, opener: NodeOpener) -> int:
    choices = [parse_choice(options.policy)] if options.policy else list(every_choice())
    async with cluster(folder, opener, numakube=_command(options.numakube)) as running:
        campaign = Campaign(running, Random(options.seed), stuck=options.stuck)
        try:
            await run_plan(campaign, choices, pods=options.pods, restarts=options.restarts)
        finally:
            print(campaign.table(), file=sys.stderr)
            print(campaign.line(), flush=True)
            (folder / "details.txt").write_text("\n".join(campaign.details))
    return 1 if campaign.mistakes else 0


def _command(given: Path | None) -> Path:
    return given or Path(sys.executable).with_name("numakube")


@contextlib.contextmanager
def _folder(given: Path | None) -> Iterator[Path]:
    """Yield a folder whose name is short enough for sockets; one that was made here is removed."""
    if given is not None:
        given.mkdir(parents=True, exist_ok=True)
        yield given.absolute()
        return
    folder = Path(tempfile.mkdtemp(prefix="nk-", dir=os.environ.get("TMPDIR", "/tmp")))  # noqa: S108
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
