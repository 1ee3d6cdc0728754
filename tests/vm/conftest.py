"""Settings and machines of the tests on a real kubelet."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is tried; a long campaign is a matter of variables.

    Attributes:
        shape: of the virtual machine.
        pods: over all configurations of the kubelet, in the namespace; the machine gets a fifth.
        restarts: likewise.
        seed: of everything that is random.
    """

    shape: str
    pods: int
    restarts: int
    seed: int


@pytest.fixture(scope="session")
def settings() -> Settings:
    """What the environment says."""
    return Settings(
        shape=os.environ.get("NUMAKUBE_VM_SHAPE", "two-smt"),
        pods=int(os.environ.get("NUMAKUBE_VM_PODS", "60")),
        restarts=int(os.environ.get("NUMAKUBE_VM_RESTARTS", "20")),
        seed=int(os.environ.get("NUMAKUBE_VM_SEED", "1")),
    )


@pytest.fixture(scope="module")
def short_folder() -> Iterator[Path]:
    """A folder whose name is short enough for sockets."""
    with tempfile.TemporaryDirectory(prefix="nk-", ignore_cleanup_errors=True) as folder:
        yield Path(folder)
