"""What an annex writes into the annotations of reports, besides what is ours.

What it needs of the node is read with every scan, so that it is of the same moment; the report is
made from that without reading anything. What takes longer, or is of use between two scans, is read
beside the exporter's loop.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from random import Random

    from prometheus_client import CollectorRegistry

    from numakube.api.pod import Pod
    from numakube.apps.exporter.node_scan import NodeInputs
    from numakube.kube.clock import Clock


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSources:
    """Where an annex may read, and what it may do besides.

    Attributes:
        sysfs: the mount of sysfs.
        proc: the mount of procfs; the host's own, if the exporter is told where that is.
        pods: returns the node's pods in the API; none without a cluster.
        node: returns the annotations of the Node; likewise.
        node_name: its name.
        clock: the time.
        rng: the source of randomness.
        registry: takes further metrics; ``None`` where none are served.
        wake: has the exporter look, and write what has changed, soon.
    """

    sysfs: Path
    proc: Path
    pods: Callable[[], tuple[Pod, ...]]
    node: Callable[[], Mapping[str, str]]
    node_name: str
    clock: Clock
    rng: Random
    registry: CollectorRegistry | None
    wake: Callable[[], None]


class AnnotationInputs(Protocol):
    """What was read in one scan."""

    def annotations(self, inputs: NodeInputs, problems: list[str]) -> dict[str, str]:
        """Return what is to be written, given the rest of the scan; what is odd into *problems*."""
        ...


class AnnotationReader(Protocol):
    """Reads what annotations are made of, for as long as an exporter runs."""

    def read(self) -> AnnotationInputs:
        """Return what a scan needs; this is part of every scan and must be quick."""
        ...

    async def run(self) -> None:
        """Do what is to be done beside the exporter's loop until cancelled; it may end at once."""
        ...


class ReportAnnotations(Protocol):
    """What an annex adds to `numakube.annexes.Group.REPORT_ANNOTATIONS`."""

    @property
    def written(self) -> frozenset[str]:
        """The keys that are ours to write and to remove while it is wanted."""
        ...

    def reader(self, sources: NodeSources) -> AnnotationReader:
        """Return what reads that of which the annotations are made."""
        ...
