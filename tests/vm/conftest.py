"""Settings and machines of the tests on a real kubelet."""

from __future__ import annotations

import os
import sys
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
