"""Labs for tests that need the lab itself: its rights, and pods that really run."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from numakube.kubelet.machines.synthetic import from_shape
from numakube_lab.cluster import Lab, LabOptions, uniform_plans
from numakube_lab.rundir import RunDir


@contextlib.asynccontextmanager
async def lab_of(
    nodes: int, shape: str = "2 sockets, 4 cores, smt 2, 16Gi", *, rbac: bool = False
) -> AsyncIterator[Lab]:
    """Run a lab of equal nodes under single-numa-node, without exporters."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "t")
        folder.create()
        plans = uniform_plans(nodes, from_shape(shape), "", "1.35")
        async with Lab(LabOptions(name="t", plans=plans, rbac=rbac), folder) as lab:
            yield lab
