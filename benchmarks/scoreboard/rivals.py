"""Which schedulers take part, how each is started, and in which version.

They are looked for in the folder that ``KUBEBUILDER_ASSETS`` names: ``kube-scheduler``, more
versions of it as ``kube-scheduler-VERSION``, and ``nrt-scheduler``, a kube-scheduler with the
plugin NodeResourceTopologyMatch. All of them take pods of one scheduler name, have no limit on
their requests, and elect no leader.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from benchmarks.scheduler_throughput import NAME, kube_scheduler, scheduler
from numakube.version import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.scheduler_throughput import Start
    from numakube.kube.resource_types import Document

OURS: Final = "numakube"
GO_PLUGIN: Final = "nrt-scheduler"
STOCK: Final = "kube-scheduler"
_RESYNC_SECONDS: Final = 1
"""The shortest that the Go plugin's cache knows; it is its best setting here."""


@dataclass(frozen=True, slots=True)
class Rival:
    """A scheduler.

    Attributes:
        name: as its program is called.
        version: as it says itself.
        aligns: whether it knows of NUMA zones.
    """

    name: str
    version: str
    aligns: bool
    start: Start

    @property
    def is_ours(self) -> bool:
        """Whether it is the one that the others are compared with."""
        return self.name == OURS


def rivals(binaries: Path) -> tuple[Rival, ...]:
    """Return all that are there, ours first."""
    ours = Rival(OURS, VERSION, aligns=True, start=scheduler)
    return (ours, *_stock(binaries), *_go_plugin(binaries))


def absent(binaries: Path) -> tuple[str, ...]:
    """Return the names of those that are not there."""
    there = {rival.name for rival in rivals(binaries)}
    return tuple(name for name in (STOCK, GO_PLUGIN) if name not in there)


def _stock(binaries: Path) -> Iterator[Rival]:
    for program in sorted(binaries.glob(f"{STOCK}*")):
        start = partial(kube_scheduler, binaries, program=program.name)
        yield Rival(program.name, version_of(program), aligns=False, start=start)


def _go_plugin(binaries: Path) -> Iterator[Rival]:
    program = binaries / GO_PLUGIN
    if program.exists():
        start = partial(kube_scheduler, binaries, program=GO_PLUGIN, profile=go_profile())
        yield Rival(GO_PLUGIN, version_of(program), aligns=True, start=start)


def go_profile() -> Document:
    """Return a profile with the Go plugin, and its cache that books pods on their way."""
    arguments = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "NodeResourceTopologyMatchArgs",
        "scoringStrategy": {"type": "LeastAllocated"},
        "cacheResyncPeriodSeconds": _RESYNC_SECONDS,
    }
    plugin = "NodeResourceTopologyMatch"
    return {
        "schedulerName": NAME,
        "plugins": {"multiPoint": {"enabled": [{"name": plugin}]}},
        "pluginConfig": [{"name": plugin, "args": arguments}],
    }


def version_of(program: Path) -> str:
    """Return the version that a Go program of Kubernetes tells of itself."""
    told = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)  # noqa: S603
    found = re.search(r"v(\d+\.\d+\.\S+)", told.stdout)
    return found[1] if found else "unknown"
