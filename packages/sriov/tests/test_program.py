"""``numakube run sriov`` as a program of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from asyncio.subprocess import Process
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest
from packages.sriov.tests.build import Bed, pool
from packages.sriov.tests.kubelets import short_folder
from tests.apps.own_process import MEGABYTE, fetch, logged, own_process, peak_of

from numakube.cli.main import run
from numakube.node.device_plugin.plugin_protocol import PluginClient
from numakube.testing import until


def running(bed: Bed, folder: Path, *flags: str) -> AbstractAsyncContextManager[Process]:
    """Run the program for *bed*, with sockets in *folder*."""
    root = bed.root
    return own_process(
        "sriov",
        *("--sysfs", str(root / "sys"), "--dev", str(root / "dev"), "--proc", str(root / "proc")),
        *("--config-file", str(root / "config.json"), "--plugins-registry-dir", str(folder)),
        *("--device-info-dir", str(root / "info"), "--bind-address", "127.0.0.1:0", *flags),
        env={**os.environ, "GRPC_TRACE": "http"},  # the library would log every frame
    )


def configure(bed: Bed, *pools: object) -> None:
    """Write the configuration."""
    (bed.root / "config.json").write_text(json.dumps({"resourceList": pools}))


@pytest.mark.timeout(180)
async def test_it_offers_512_functions_in_60_megabytes_and_ends_when_told(bed: Bed) -> None:
    """Ready as soon as a kubelet follows; nothing is left behind."""
    for number in range(8):
        bed.pci.pf(f"0000:{number + 16:02x}:00.0", interface=f"ens{number}", numa_node=number % 2)
        bed.pci.vfs(f"0000:{number + 16:02x}:00.0", 64)
    configure(bed, pool())
    async with short_folder() as folder, running(bed, folder) as process:
        url = (await logged(process, "serving"))["url"]
        socket = folder / "intel.com_nic.sock"
        await until(socket.exists)
        client = PluginClient(socket)
        await client.dial()
        async with contextlib.aclosing(client.watch()) as lists:
            assert len(await anext(lists)) == 512

            async def is_ready() -> bool:
                return await fetch(f"{url}/readyz") == (200, "ok")

            await until(is_ready)
            _, text = await fetch(f"{url}/metrics")
            line = 'numakube_sriov_devices{health="healthy",numa_node="1",resource="intel.com/nic"}'
            assert f"{line} 256.0" in text
            # Python 3.13 takes some more than 3.11.
            assert peak_of(process.pid) < 70 * MEGABYTE
        await client.aclose()
        process.send_signal(signal.SIGTERM)
        await logged(process, "sriov_ended")
        assert await process.wait() == 0
        assert list(folder.iterdir()) == []


async def test_a_signal_makes_it_look_at_once(bed: Bed) -> None:
    """SIGHUP, which would end upstream."""
    bed.two_sockets(1)
    configure(bed)
    async with (
        short_folder() as folder,
        running(bed, folder, "--rescan-interval", "1h") as process,
    ):
        await logged(process, "serving")
        configure(bed, pool())
        process.send_signal(signal.SIGHUP)
        await logged(process, "configuration_read")
        await logged(process, "devices")
        await until((folder / "intel.com_nic.sock").exists)
        process.send_signal(signal.SIGTERM)
        assert await process.wait() == 0


@pytest.mark.parametrize(
    ("text", "args", "code", "complaint"),
    [
        ("{", (), 1, "config.json: is not JSON"),
        ('{"resourceList": [{"resourceName": "a.b"}]}', (), 1, "pool intel.com/a.b: resourceName"),
        ("{}", ("--explain",), 2, "--explain goes with --dry-run only"),
        ("{}", ("--rescan-interval", "soon"), 2, "time: invalid duration"),
    ],
)
def test_a_mistake_is_one_line_and_an_exit_code(
    text: str,
    args: tuple[str, ...],
    code: int,
    complaint: str,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Upstream would end with success."""
    config = tmp_path / "config.json"
    config.write_text(text)
    assert run(["sriov", "--config-file", str(config), *args], program="numakube") == code
    error = capfd.readouterr().err
    assert complaint in error
    assert "Traceback" not in error


def test_it_loads_neither_numpy_nor_what_a_cluster_needs() -> None:
    """It runs on every node."""
    program = (
        "import sys; from numakube.cli.program_commands import command_of; command_of('sriov')\n"
        "names = ('numpy', 'numakube_lab', 'numakube.scheduling', 'numakube.kube.client')\n"
        "print([name for name in names if name in sys.modules])"
    )
    done = subprocess.run(  # noqa: S603 - our own interpreter
        (sys.executable, "-c", program), capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
