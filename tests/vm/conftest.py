"""Settings and machines of the tests on a real kubelet."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.vm.cluster import Cluster, cluster
from tests.vm.machines import opener_of
from tests.vm.node import NodeFailed
from tests.vm.programs import Missing


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is tried; a long campaign is a matter of variables.

    Attributes:
        shape: of the virtual machine.
        pods: over all configurations of the kubelet, in the namespace; the machine gets a fifth.
        restarts: likewise.
        seed: of everything that is random.
        numakube: the command that is tried; that of this working copy if not said otherwise.
    """

    shape: str
    pods: int
    restarts: int
    seed: int
    numakube: Path


@pytest.fixture(scope="session")
def settings() -> Settings:
    """What the environment says."""
    default = Path(sys.executable).with_name("numakube")
    return Settings(
        shape=os.environ.get("NUMAKUBE_VM_SHAPE", "two-smt"),
        pods=int(os.environ.get("NUMAKUBE_VM_PODS", "42")),
        restarts=int(os.environ.get("NUMAKUBE_VM_RESTARTS", "14")),
        seed=int(os.environ.get("NUMAKUBE_VM_SEED", "1")),
        numakube=Path(os.environ.get("NUMAKUBE_VM_COMMAND") or default),
    )


@pytest.fixture(scope="module")
def short_folder() -> Iterator[Path]:
    """A folder whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="nk-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextlib.asynccontextmanager
async def real_cluster(
    kind: str, shape: str, folder: Path, settings: Settings, *, exporter: Sequence[str] = ()
) -> AsyncIterator[Cluster]:
    """Run a cluster for the tests of a module, which fail if something is missing for it."""
    try:
        opener = opener_of(kind, shape, numakube=settings.numakube)
        async with cluster(
            folder / "c", opener, numakube=settings.numakube, exporter=exporter
        ) as running:
            yield running
    except (Missing, NodeFailed) as error:
        pytest.fail(str(error), pytrace=False)
