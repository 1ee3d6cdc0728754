"""A stock kube-scheduler beside the schedulers under test, when there is one."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest
import yaml
from tests.real.api_server import VARIABLE

SCHEDULER: Final = shutil.which("kube-scheduler", path=os.environ.get(VARIABLE, os.environ["PATH"]))
GATES: Final = "DRAExtendedResource=true,DRADeviceTaintRules=false"
"""What a lab has that is not on in Kubernetes 1.35, and what it lacks that is on in 1.37."""
STOCK: Final = "stock"
"""The name under which pods ask for it."""

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
