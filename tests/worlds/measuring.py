"""Exporters that also measure: kubelets of the lab keep counters as a kernel does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from numakube.apps.exporter.report_annotations import AnnotationReader, NodeSources
from numakube.kube.client import Client
from numakube_lab.exporters import MoreAnnotations
from numakube_lab.nodes.node_pool import NODE_INDEX, NodePool
from numakube_measured.measurement import ANNOTATION
from numakube_measured.report_annotation import MEASURED

FALSE_ALARMS: Final = {
    "NUMA-MEASURED-MEMORY-ELSEWHERE",
    "NUMA-MEASURED-FAR-INTERRUPTS",
    "NUMA-MEASURED-CPUS-DISTURBED",
}
"""Rules that find nothing in a lab, where everything is where it was promised."""


class Measuring:
    """Which nodes are measured, and where their kernels' files are."""

    def __init__(self, client: Client, pool: NodePool, root: Path) -> None:
        self._client = client
        self._pool = pool
        self._root = root
        self.nodes: set[str] = set()

    async def begin(self, name: str) -> None:
        """Have the files of a node written that its kernel would show."""
        if name in self.nodes:
            await self._pool.folder(name)
            cgroups = self._pool.kubelet(name).cgroups
            assert cgroups is not None
            assert cgroups.tree is not None  # It is made when it is asked for.

    def annotations(self) -> MoreAnnotations:
        """Return what exporters write of the nodes that are measured."""
        return MoreAnnotations(frozenset({ANNOTATION}), self._readers)

    def _readers(self, name: str, wake: Callable[[], None]) -> tuple[AnnotationReader, ...]:
        if name not in self.nodes:
            return ()
        sources = NodeSources(
            sysfs=self._root / name / "sys",
            proc=self._root / name / "proc",
            pods=lambda: tuple(self._pool.pods.select(NODE_INDEX, name)),
            node=dict,
            node_name=name,
            clock=self._client.clock,
            rng=self._client.rng,
            registry=None,
            wake=wake,
        )
        return (MEASURED.reader(sources),)
