"""``numakube lab-probe``: says every few seconds what a container in this lab sees.

Options: ``--every SECONDS`` (5 by default). It reads its mounted files, reaches the API server over
HTTPS with its service account, and ends on SIGTERM.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from numakube.errors import NumakubeError
from numakube.kube.catalog import PODS
from numakube.kube.connect import connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from numakube_lab.processes.program_table import Process

EVERY_SECONDS: Final = 5.0
_MAX_FILES: Final = 50
_USAGE: Final = 2


async def run_probe(process: Process) -> int:
    """Report until told to stop."""
    try:
        every = _every(process.args)
    except ValueError as error:
        process.log(f"lab-probe: {error}; usage: numakube lab-probe [--every SECONDS]")
        return _USAGE
    process.log(f"lab-probe: on node {process.env.get('NODE_NAME') or process.env['HOSTNAME']}")
    for path in _files(process.root):
        process.log(f"lab-probe: file {path}")
    while not process.stop.is_set():
        process.log(await _report(process))
        await _pause(process, every)
    process.log("lab-probe: told to stop")
    return 0


async def _report(process: Process) -> str:
    try:
        async with connect(process.cluster(), clock=process.clock, env=process.env) as client:
            pods = await client.list(PODS)
    except NumakubeError as error:
        return f"lab-probe: {error}"
    here = process.env["KUBERNETES_SERVICE_HOST"], process.env["KUBERNETES_SERVICE_PORT"]
    return f"lab-probe: {len(pods.items)} pods in the cluster at {':'.join(here)}"


async def _pause(process: Process, seconds: float) -> None:
    sleep = asyncio.ensure_future(process.clock.sleep(seconds))
    stop = asyncio.ensure_future(process.stop.wait())
    try:
        await asyncio.wait({sleep, stop}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        sleep.cancel()
        stop.cancel()


def _every(args: Sequence[str]) -> float:
    match list(args):
        case []:
            return EVERY_SECONDS
        case ["--every", text]:
            return float(text)
        case _:
            raise ValueError(f"cannot understand {' '.join(args)}")


def _files(root: Path) -> Iterator[str]:
    """Return the paths of mounted files, not those below folders of the node."""
    found = 0
    for point in sorted(root.rglob("*")):
        files = sorted(point.glob("*")) if point.is_symlink() and point.is_dir() else [point]
        for file in files:
            if file.is_file() and found < _MAX_FILES:
                found += 1
                yield f"/{file.relative_to(root).as_posix()}"
