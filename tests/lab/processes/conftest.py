"""A lab of two nodes, as a user has it."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from numakube.kubelet.machines.shape_text import from_shape
from numakube_lab.lab_cluster import Lab, LabOptions, uniform_plans
from numakube_lab.run_folder import RunDir

SHAPE = "2 sockets, 4 cores, smt 2, 16Gi"


@pytest.fixture
def folder() -> Iterator[RunDir]:
    """A folder with a short path, for sockets."""
    with tempfile.TemporaryDirectory(prefix="lab-") as path:
        folder = RunDir(Path(path) / "t")
        folder.create()
        yield folder


@pytest.fixture
async def lab(folder: RunDir) -> AsyncIterator[Lab]:
    """A lab that runs."""
    plans = uniform_plans(2, from_shape(SHAPE), "", "1.35")
    async with Lab(LabOptions(name="t", plans=plans), folder) as lab:
        yield lab
