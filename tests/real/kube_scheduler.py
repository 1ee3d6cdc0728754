"""A stock kube-scheduler beside the schedulers under test, when there is one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import BinaryIO, Final

import pytest
import yaml
from tests.real.api_server import VARIABLE

from numakube.testing import elapse

SCHEDULER: Final = shutil.which("kube-scheduler", path=os.environ.get(VARIABLE, os.environ["PATH"]))
GATES: Final = "DRAExtendedResource=true"
"""What a lab has that is not on in Kubernetes 1.35."""
STOCK: Final = "stock"
"""The name under which pods ask for it."""
_PAUSE_SECONDS: Final = 1.0
"""From the end of one to the start of the next: one that cannot start keeps no core busy."""


def _is_from(minor: int) -> bool:
    """Tell whether there is a kube-scheduler 1.*minor* or later."""
    if SCHEDULER is None:
        return False
    told = subprocess.run([SCHEDULER, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    found = re.search(r"v1\.(\d+)", told.stdout)
    return found is not None and int(found[1]) >= minor


needs_device_scheduler: Final = pytest.mark.skipif(
    not _is_from(35), reason="needs kube-scheduler 1.35 or later on the PATH"
)
"""One that knows all of `GATES`."""
needs_sharing_scheduler: Final = pytest.mark.skipif(
    not _is_from(36), reason="needs kube-scheduler 1.36 or later on the PATH"
)
"""One by which claims share devices without more ado."""
needs_scheduler: Final = pytest.mark.skipif(
    SCHEDULER is None, reason="needs kube-scheduler on the PATH"
)


@contextlib.asynccontextmanager
async def kube_scheduler(directory: Path, *arguments: str) -> AsyncIterator[None]:
    """Run kube-scheduler with *arguments*, again whenever it ends; its log is in *directory*.

    A kubelet would start it again too. It ends itself when it hears of a pod on another node than
    the one of that name before, which was deleted while it had no connection (1.35 to 1.37).
    """
    assert SCHEDULER is not None
    with (directory / "kube-scheduler.log").open("ab") as log:
        running = asyncio.create_task(_run_again_and_again([SCHEDULER, *arguments], log))
        try:
            yield
        finally:
            running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await running


async def _run_again_and_again(words: list[str], log: BinaryIO) -> None:
    while True:
        process = await asyncio.create_subprocess_exec(
            *words, "--secure-port=0", stdout=log, stderr=log
        )
        try:
            await process.wait()
            await elapse(_PAUSE_SECONDS)
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()


@contextlib.asynccontextmanager
async def stock_scheduler(directory: Path, kubeconfig: Path) -> AsyncIterator[None]:
    """Run kube-scheduler for the pods that ask for `STOCK`, with its default plugins."""
    config = directory / "config.yaml"
    config.write_text(
        yaml.safe_dump(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(kubeconfig)},
                "leaderElection": {"leaderElect": False},
                "profiles": [{"schedulerName": STOCK}],
            }
        )
    )
    async with kube_scheduler(directory, f"--config={config}", f"--feature-gates={GATES}"):
        yield
