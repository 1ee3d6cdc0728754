"""512 virtual functions: how long until they are offered, and the memory of the program.

The host is a folder on disk that looks like sysfs: 8 physical functions on 2 NUMA nodes with 64
virtual functions each. Measured are one look at it, the time from the plugin's start until a
kubelet that waits at the socket has the list of all of them, and what the program takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from prometheus_client import CollectorRegistry

from numakube.kube.clock import SystemClock
from numakube.node.device_plugin.plugin_protocol import PluginClient
from numakube.node.pci.fake_pci import FakePci
from numakube.node.pci.host_scan import SurveyOptions, look
from numakube.node.pci.pci_discovery import Host
from numakube.node.pci.pool_config import read_config_file
from numakube_sriov.metrics import SriovMetrics
from numakube_sriov.pool_plugin import Places
from numakube_sriov.pool_registration import KubeletFolders, Way
from numakube_sriov.sriov_loop import Agent, AgentOptions

if TYPE_CHECKING:
    from collections.abc import Iterator

FUNCTIONS: Final = 512
PHYSICAL: Final = 8
ROUNDS: Final = 9
BUDGET_MS: Final = 500
BUDGET_MB: Final = 60
PROGRAM: Final = "from numakube.cli.main import main; main()"


def make_host(root: Path) -> AgentOptions:
    """Write the host and a configuration with two pools; return what a plugin needs."""
    fake = FakePci(root / "sys")
    for number in range(PHYSICAL):
        pf = f"0000:{0x20 + number:02x}:00.0"
        fake.pf(pf, interface=f"ens{number}", numa_node=number % 2, total=64)
        fake.vfs(pf, FUNCTIONS // PHYSICAL, driver=("iavf", "vfio-pci")[number // 4])
    pools = [
        {"resourceName": "net", "selectors": {"drivers": ["iavf"], "linkTypes": ["ether"]}},
        {
            "resourceName": "dpdk",
            "selectors": {
                "drivers": ["vfio-pci"],
                "pfNames": ["ens4", "ens5", "ens6", "ens7#0-63"],
            },
        },
    ]
    (root / "config.json").write_text(json.dumps({"resourceList": pools}), encoding="utf-8")
    (root / "r").mkdir()
    host = Host(sysfs=root / "sys", dev=root / "dev", proc=root / "proc")
    return AgentOptions(
        config_file=root / "config.json",
        prefix="intel.com",
        places=Places(host=host, device_info=root / "info", choices=root / "choices"),
        folders=KubeletFolders(device_plugins=root / "d", registry=root / "r", way=Way.REGISTRY),
    )


def time_look(options: AgentOptions) -> float:
    """Return the milliseconds of one look at the host."""
    config = read_config_file(options.config_file, prefix="intel.com")
    started = time.perf_counter()
    survey = look(config, options.places.host, SurveyOptions(), now=0.0)
    elapsed = time.perf_counter() - started
    assert sum(map(len, survey.standings.values())) == FUNCTIONS
    return elapsed * 1000


async def time_offer(options: AgentOptions) -> float:
    """Return the milliseconds until a kubelet has the lists of both pools."""
    started = time.perf_counter()
    agent = Agent(options, clock=SystemClock(), metrics=SriovMetrics(CollectorRegistry()))
    stop = asyncio.Event()
    task = asyncio.create_task(agent.run(stop))
    count = 0
    for name in ("net", "dpdk"):
        socket = options.folders.registry / f"intel.com_{name}.sock"
        while not socket.exists():  # noqa: ASYNC110 - a file, which has no event
            await asyncio.sleep(0.001)
        client = PluginClient(socket)
        async with contextlib.aclosing(client.watch()) as lists:
            count += len(await anext(lists))
        await client.aclose()
    elapsed = time.perf_counter() - started
    stop.set()
    await task
    assert count == FUNCTIONS
    return elapsed * 1000


def memory_of_program(root: Path) -> float:
    """Return the peak memory in MB of the program that offers them all."""
    arguments = ("--config-file", "config.json", "--sysfs", "sys", "--log-format", "json")
    folders = ("--plugins-registry-dir", "r", "--bind-address", "127.0.0.1:0")
    process = subprocess.Popen(  # noqa: S603 - our own program
        (sys.executable, "-c", PROGRAM, "sriov", *arguments, *folders),
        cwd=root,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        served = 0
        for line in process.stderr or ():
            served += '"event": "devices"' in line
            if served == 2:
                break
        time.sleep(0.5)
        status = Path(f"/proc/{process.pid}/status").read_text(encoding="ascii")
    finally:
        process.terminate()
        process.wait()
    peak = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert peak is not None
    return int(peak[1]) / 1024


def run() -> Iterator[dict[str, object]]:
    """Measure."""
    with tempfile.TemporaryDirectory(prefix="sv-") as name:
        root = Path(name)
        options = make_host(root)
        looks = [time_look(options) for _ in range(ROUNDS)]
        offers = [asyncio.run(time_offer(options)) for _ in range(ROUNDS)]
        peak = memory_of_program(root)
    yield _milliseconds("one look at 512 functions", looks)
    yield {**_milliseconds("512 functions offered", offers), "budget": BUDGET_MS}
    yield {
        "metric": "memory with 512 functions",
        "value": round(peak, 1),
        "unit": "MB",
        "budget": BUDGET_MB,
    }


def _milliseconds(metric: str, times: list[float]) -> dict[str, object]:
    return {"metric": metric, "value": round(statistics.median(times), 1), "unit": "ms"}
