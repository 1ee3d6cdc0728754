"""What an annex writes into the annotations of reports, besides what is ours.

What it needs of the node is read with every scan, so that it is of the same moment; the report is
made from that without reading anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from numakube.api.pod import Pod
    from numakube.apps.exporter.node_scan import NodeInputs


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSources:
    """Where an annex may read.

    Attributes:
        sysfs: the mount of sysfs.
        proc: the mount of procfs.
        pods: returns the node's pods in the API; none without a cluster.
        node: returns the annotations of the Node; likewise.
    """

    sysfs: Path
    proc: Path
    pods: Callable[[], tuple[Pod, ...]]
    node: Callable[[], Mapping[str, str]]


class AnnotationInputs(Protocol):
    """What was read in one scan."""

    def annotations(self, inputs: NodeInputs, problems: list[str]) -> dict[str, str]:
        """Return what is to be written, given the rest of the scan; what is odd into *problems*."""
        ...


class ReportAnnotations(Protocol):
    """What an annex adds to `numakube.annexes.Group.REPORT_ANNOTATIONS`."""

    @property
    def written(self) -> frozenset[str]:
        """The keys that are ours to write and to remove while it is wanted."""
        ...

    def reader(self, sources: NodeSources) -> Callable[[], AnnotationInputs]:
        """Return what reads, with every scan, what the annotations are made of."""
        ...
