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
from typing import Final

import pytest
import yaml
from tests.real.api_server import VARIABLE

SCHEDULER: Final = shutil.which("kube-scheduler", path=os.environ.get(VARIABLE, os.environ["PATH"]))
GATES: Final = "DRAExtendedResource=true"
"""What a lab has that is not on in Kubernetes 1.35."""
STOCK: Final = "stock"
"""The name under which pods ask for it."""


def _serves_devices() -> bool:
    """Tell whether the kube-scheduler knows all of `GATES`, as 1.35 and later do."""
    if SCHEDULER is None:
        return False
    told = subprocess.run([SCHEDULER, "--version"], capture_output=True, text=True, check=True)  # noqa: S603
    found = re.search(r"v1\.(\d+)", told.stdout)
    return found is not None and int(found[1]) >= 35


needs_device_scheduler: Final = pytest.mark.skipif(
    not _serves_devices(), reason="needs kube-scheduler 1.35 or later on the PATH"
)
needs_scheduler: Final = pytest.mark.skipif(
    SCHEDULER is None, reason="needs kube-scheduler on the PATH"
)


@contextlib.asynccontextmanager
async def kube_scheduler(directory: Path, *arguments: str) -> AsyncIterator[None]:
    """Run kube-scheduler with *arguments*; its log is in *directory*."""
    assert SCHEDULER is not None
    with (directory / "kube-scheduler.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            SCHEDULER, *arguments, "--secure-port=0", stdout=log, stderr=log
        )
        try:
            yield
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
