"""``numakube exporter`` as a program of its own."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest

from numakube.cli.main import run
from numakube.kubelet.machines.synthetic import from_shape
from numakube_lab.cluster import uniform_plans
from numakube_lab.testing import Opener, Site, SiteOptions

PROGRAM = "from numakube.cli.main import main; main()"
MEGABYTE = 1024


@pytest.fixture
async def site(sites: Opener) -> AsyncIterator[Site]:
    """A cluster of one node, which knows the objects and exports nothing."""
    plans = uniform_plans(1, from_shape("2 sockets, 4 cores, smt 2, 16Gi, gpu 2"), "", "1.35")
    async with sites(SiteOptions(plans=plans, exporters=False)) as site:
        yield site


async def logged(process: asyncio.subprocess.Process, event: str) -> dict[str, str]:
    """Return the next event of that name in the program's log."""
    assert process.stderr is not None
    async for line in process.stderr:
        found: dict[str, str] = json.loads(line)
        if found["event"] == event:
            return found
    raise AssertionError(f"{event} was never logged")


def peak_of(pid: int) -> int:
    """Return the most memory that a process has had, in kB."""
    peak = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert peak is not None
    return int(peak[1])


async def fetch(url: str) -> tuple[int, str]:
    """Return status and text of an answer."""
    async with aiohttp.ClientSession() as session, session.get(url) as response:
        return response.status, await response.text()


async def test_it_runs_serves_and_ends_when_told(site: Site) -> None:
    """In less than 60 MB, and every line of its log is an event."""
    sockets = site.crew.pool.sockets("node-0")
    assert sockets is not None
    node = await site.crew.pool.folder("node-0")
    args = (
        *("--kubeconfig", str(site.kubeconfig), "--hostname", "node-0"),
        *("--sysfs", str(node / "sys"), "--kubelet-state-dir", str(node)),
        *("--podresources-socket", str(sockets.pod_resources)),
        *("--kubelet-config-file", str(node / "config.yaml")),
        *("--metrics-port", "0", "--log-format", "json"),
    )
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, "exporter", *args),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        url = (await logged(process, "serving"))["url"]
        await logged(process, "object_written")
        assert await fetch(f"{url}/readyz") == (200, "ok")
        status, text = await fetch(f"{url}/metrics")
        assert status == 200
        assert (
            'rte_noderesourcetopology_writes_total{node="node-0",operation="create",'
            'trigger="reactive"} 1.0' in text
        )
        assert 'numakube_exporter_wakeups_total{trigger="start"} 1.0' in text
        assert peak_of(process.pid) < 60 * MEGABYTE
        await site.crew.pool.kill("node-0")
        await logged(process, "kubelet_away")
        status, text = await fetch(f"{url}/readyz")
        assert status == 503
        assert "kubelet" in text
        process.send_signal(signal.SIGTERM)
        await logged(process, "exporter_ended")
        assert await process.wait() == 0
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


@pytest.mark.parametrize(
    ("args", "code", "complaint"),
    [
        (("--sleep-interval", "soon"), 2, "time: invalid duration"),
        (("--no-kubelet",), 2, "--no-kubelet goes with --dry-run only"),
        (("--kubeconfig", "/nowhere"), 1, "/nowhere"),
        (("--dry-run", "--podresources-socket", "tcp://x"), 1, 'protocol "tcp" not supported'),
    ],
)
def test_a_mistake_in_the_command_line_is_one_line(
    args: tuple[str, ...], code: int, complaint: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """And exit code 2 for wrong usage, 1 for what cannot work."""
    assert run(["exporter", "--log-level", "error", *args], program="numakube") == code
    error = capfd.readouterr().err
    assert complaint in error
    assert "Traceback" not in error
