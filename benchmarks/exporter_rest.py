"""What the exporter's program takes at rest: memory and CPU.

The node is one of a lab, with two NUMA nodes and no pods; the program is ``numakube run exporter``
with its metrics served, as in a DaemonSet. Nothing happens on the node while it is measured.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from numakube.kubelet.machines.shape_text import from_shape
from numakube_lab.lab_cluster import uniform_plans
from numakube_lab.testing import SiteOptions, lab_site

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.testing import Site

PROGRAM: Final = "from numakube.cli.main import main; main()"
SHAPE: Final = "2 sockets, 8 cores, smt 2, 32Gi, gpu 2"
REST_SECONDS: Final = 30.0
BUDGET_MB: Final = 60
BUDGET_PERCENT: Final = 0.5


def run() -> Iterator[dict[str, object]]:
    """Yield the memory and the CPU share."""
    megabytes, share = asyncio.run(measure())
    yield {"metric": "memory", "value": round(megabytes, 1), "unit": "MB", "budget": BUDGET_MB}
    percent = round(100 * share, 2)
    yield {"metric": "CPU of one core", "value": percent, "unit": "%", "budget": BUDGET_PERCENT}


async def measure() -> tuple[float, float]:
    """Return the resident megabytes of a resting exporter, and its share of a core."""
    plans = uniform_plans(1, from_shape(SHAPE), "", "1.35")
    async with lab_site(SiteOptions(plans=plans, exporters=False)) as site:
        process = await _start(site)
        try:
            assert process.stderr is not None
            async for line in process.stderr:
                if b"object_written" in line:
                    break
            before, _ = _usage(process.pid)
            await asyncio.sleep(REST_SECONDS)
            after, resident = _usage(process.pid)
        finally:
            process.terminate()
            await process.communicate()
    return resident / 1e6, (after - before) / REST_SECONDS


async def _start(site: Site) -> asyncio.subprocess.Process:
    sockets, node = site.crew.pool.sockets("node-0"), await site.crew.pool.folder("node-0")
    assert sockets is not None
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, "exporter"),
        *("--kubeconfig", str(site.kubeconfig), "--hostname", "node-0"),
        *("--sysfs", str(node / "sys"), "--kubelet-state-dir", str(node)),
        *("--podresources-socket", str(sockets.pod_resources)),
        *("--kubelet-config-file", str(node / "config.yaml"), "--metrics-port", "0"),
        stderr=asyncio.subprocess.PIPE,
    )


def _usage(pid: int) -> tuple[float, int]:
    """Return the CPU seconds and the resident bytes of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK"), int(fields[21]) * os.sysconf("SC_PAGE_SIZE")
