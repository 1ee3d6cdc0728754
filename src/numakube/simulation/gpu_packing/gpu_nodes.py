"""Nodes with GPUs that pods can share, as arrays: one row for each node, one column for each GPU.

Policies look at some rows at a time (`GpuNodes.rows`), since only nodes that have changed need to
be rated again. A GPU that a node does not have is a column with nothing free, which no pod fits on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.simulation.traces.trace_rows import WHOLE_GPU

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.simulation.traces.trace_rows import TraceNode, TracePod

Ints: TypeAlias = npt.NDArray[np.int64]
Mask: TypeAlias = npt.NDArray[np.bool_]
Rows: TypeAlias = npt.NDArray[np.intp]

NO_MODEL: Final = ""


@dataclass(frozen=True, slots=True)
class GpuRows:
    """What is free on some nodes.

    Attributes:
        cpu: millicores.
        gpu: thousandths, by node and GPU.
        gpus: how many GPUs each node has.
        model: position of the GPUs' model in `GpuNodes.models`.
        kinds: a bit for each kind of GPU pod (`GpuNodes.kind_of`) that the node has.
    """

    cpu: Ints
    memory: Ints
    gpu: Ints
    gpus: Ints
    model: Ints
    kinds: Ints

    @property
    def gpu_total(self) -> Ints:
        """Thousandths that are free of all GPUs of a node together."""
        total: Ints = self.gpu.sum(axis=1)
        return total


class GpuNodes:
    """The state of all nodes: what is free, and when each last changed."""

    def __init__(self, nodes: Sequence[TraceNode]) -> None:
        widest = max((node.gpus for node in nodes), default=0)
        columns = np.arange(max(widest, 1))
        self.models = (NO_MODEL, *sorted({node.gpu_model for node in nodes} - {NO_MODEL}))
        self.gpus = np.array([node.gpus for node in nodes], dtype=np.int64)
        self.changes = np.zeros(len(nodes), dtype=np.int64)
        self._cpu = np.array([node.cpu_milli for node in nodes], dtype=np.int64)
        self._memory = np.array([node.memory_bytes for node in nodes], dtype=np.int64)
        self._gpu = np.where(columns < self.gpus[:, np.newaxis], WHOLE_GPU, 0).astype(np.int64)
        self._model = np.array([self.models.index(node.gpu_model) for node in nodes])
        self._kinds = np.zeros(len(nodes), dtype=np.int64)
        self._kind_bits: dict[tuple[int, bool], int] = {}

    @property
    def capacity_milli(self) -> int:
        """Thousandths of all GPUs, free or not."""
        return int(self.gpus.sum()) * WHOLE_GPU

    def rows(self, rows: Rows | slice = slice(None)) -> GpuRows:
        """Return what is free on the nodes at *rows*."""
        return GpuRows(
            self._cpu[rows],
            self._memory[rows],
            self._gpu[rows],
            self.gpus[rows],
            self._model[rows],
            self._kinds[rows],
        )

    def kind_of(self, pod: TracePod) -> int:
        """Return the bit of *pod*'s kind: a part of a GPU, or so many whole ones; 0 without GPU."""
        if not pod.gpus:
            return 0
        kind = (pod.gpus, pod.shares_gpu)
        return self._kind_bits.setdefault(kind, 1 << len(self._kind_bits))

    def take(self, node: int, pod: TracePod, gpus: Sequence[int]) -> None:
        """Let *pod* have its CPUs, memory and these *gpus* of *node*."""
        self._cpu[node] -= pod.cpu_milli
        self._memory[node] -= pod.memory_bytes
        self._gpu[node, list(gpus)] -= pod.gpu_milli
        self._kinds[node] |= self.kind_of(pod)
        self.changes[node] += 1

    def accepted_models(self, pod: TracePod) -> Mask:
        """Return for each model whether *pod* accepts it."""
        if not pod.gpu_models:
            return np.ones(len(self.models), dtype=np.bool_)
        return np.isin(self.models, pod.gpu_models)


def fits(rows: GpuRows, pod: TracePod, models: Mask) -> Mask:
    """Tell which nodes have room for *pod*; *models* are those that it accepts."""
    room = (rows.cpu >= pod.cpu_milli) & (rows.memory >= pod.memory_bytes)
    if not pod.gpus:
        return room
    enough = (rows.gpu >= pod.gpu_milli).sum(axis=1) >= pod.gpus
    mask: Mask = room & enough & models[rows.model]
    return mask


def tightest(gpu: Ints, pod: TracePod) -> Ints:
    """Return for each node the GPU with the least room that is enough; the first of equals."""
    chosen: Ints = np.where(gpu >= pod.gpu_milli, gpu, WHOLE_GPU + 1).argmin(axis=1)
    return chosen


def whole_gpus(gpu: Ints, pod: TracePod) -> Rows:
    """Return the GPUs of one node that a pod with whole ones gets: the first that are all free."""
    return np.flatnonzero(gpu == WHOLE_GPU)[: pod.gpus]
