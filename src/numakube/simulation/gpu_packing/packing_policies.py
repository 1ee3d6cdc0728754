"""The six policies that the FGD experiment compares: how each rates nodes and chooses a shared GPU.

Scores are whole numbers from 0 to 100, as a score plugin of kube-scheduler gives them; the rounding
is a part of the policies, since it makes scores equal. A policy is asked about
nodes that have room only. For pods with whole GPUs the first free ones are taken, by every policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from numakube.simulation.gpu_packing.fragmentation import Floats, fragmentation
from numakube.simulation.gpu_packing.gpu_nodes import GpuRows, Ints, Mask, Rows, tightest
from numakube.simulation.traces.trace_rows import WHOLE_GPU

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.simulation.gpu_packing.fragmentation import TypicalPods
    from numakube.simulation.traces.trace_rows import TracePod

MOST: Final = 100
_MOST_CPU: Final = 128_000
"""Of a node, in thousandths; scores are relative to the largest nodes."""
_MOST_GPU: Final = 8 * WHOLE_GPU


class Policy(Protocol):
    """How nodes are rated, and which GPU a pod with a part of one gets."""

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:
        """Rate the nodes at *rows*; *kind* is the bit of the pod's kind."""
        ...

    def pick(self, equals: Rows, rng: np.random.Generator) -> int:
        """Return one of the nodes with the highest score."""
        ...

    def choose(self, row: GpuRows, pod: TracePod, rng: np.random.Generator) -> int:
        """Return the GPU for a part of one, on the single node *row*."""
        ...


class _First:
    def pick(self, equals: Rows, rng: np.random.Generator) -> int:
        return int(equals[0])


class _Tightest(_First):
    def choose(self, row: GpuRows, pod: TracePod, rng: np.random.Generator) -> int:
        return int(tightest(row.gpu, pod)[0])


class RandomFit:
    """Any node, and any GPU."""

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:  # noqa: D102
        return np.zeros(len(rows.cpu), dtype=np.int64)

    def pick(self, equals: Rows, rng: np.random.Generator) -> int:  # noqa: D102
        return int(rng.choice(equals))

    def choose(self, row: GpuRows, pod: TracePod, rng: np.random.Generator) -> int:  # noqa: D102
        return int(rng.choice(np.flatnonzero(row.gpu[0] >= pod.gpu_milli)))


class DotProduct(_Tightest):
    """The node on which what is free is least like what is asked for (Tetris, reversed)."""

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:  # noqa: D102
        cpu = rows.cpu / _MOST_CPU * (pod.cpu_milli / _MOST_CPU)
        gpu = rows.gpu_total / _MOST_GPU * (pod.total_gpu_milli / _MOST_GPU)
        return _whole(MOST * (1 - (cpu + gpu) / 2))


class GpuClustering(_Tightest):
    """Pods of one kind together: first with none but their like, last with none of their like."""

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:  # noqa: D102
        if not pod.gpus:
            return np.zeros(len(rows.cpu), dtype=np.int64)
        used = MOST // 4 * (_MOST_GPU - rows.gpu_total) // _MOST_GPU
        like = np.where(rows.kinds == kind, 3, 2)
        unlike = np.where(rows.kinds == 0, 1, 0)
        quarter = np.where(rows.kinds & kind, like, unlike)
        scores: Ints = used + quarter * (MOST // 4)
        return scores


class GpuPacking(_Tightest):
    """GPUs in use first, then free GPUs of nodes in use, then free nodes."""

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:  # noqa: D102
        if not pod.gpus:
            return np.zeros(len(rows.cpu), dtype=np.int64)
        free = (rows.gpu == WHOLE_GPU).sum(axis=1)
        idle = np.maximum(MOST // 3 - free, free)
        tight = np.take_along_axis(rows.gpu, tightest(rows.gpu, pod)[:, np.newaxis], axis=1)[:, 0]
        opened = np.full(len(free), max(MOST // 2 - pod.gpus, MOST // 3))
        shared = np.maximum(MOST - tight * 100 // WHOLE_GPU // 10, MOST // 2)
        used = np.where((tight == WHOLE_GPU) | (not pod.shares_gpu), opened, shared)
        return np.where(free == rows.gpus, idle, used)


class BestFit(_Tightest):
    """The node that has least left of CPUs and GPUs, each as a part of the largest node."""

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:  # noqa: D102
        cpu = (rows.cpu - pod.cpu_milli) / _MOST_CPU
        gpu = (rows.gpu_total - pod.total_gpu_milli) / _MOST_GPU
        return _whole(MOST * (1 - (cpu + gpu) / 2))


class FragmentationGradient(_First):
    """FGD: the node, and the GPU, where `fragmentation` grows least or shrinks most."""

    def __init__(self, typical: TypicalPods) -> None:
        self._typical = typical

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:  # noqa: D102
        before = fragmentation(rows, self._typical)
        if pod.shares_gpu:
            best: Ints = self._by_gpu(rows, pod, before).max(axis=1)
            return best
        return self._gained(before, after(rows, pod, _first_free(rows.gpu, pod)))

    def choose(self, row: GpuRows, pod: TracePod, rng: np.random.Generator) -> int:  # noqa: D102
        before = fragmentation(row, self._typical)
        return int(self._by_gpu(row, pod, before)[0].argmax())

    def _by_gpu(self, rows: GpuRows, pod: TracePod, before: Floats) -> Ints:
        """Return the score by node and GPU; -1 where the GPU has no room."""
        scores = np.full(rows.gpu.shape, -1, dtype=np.int64)
        for gpu in range(rows.gpu.shape[1]):
            chosen = np.zeros(rows.gpu.shape, dtype=np.bool_)
            chosen[:, gpu] = True
            gained = self._gained(before, after(rows, pod, chosen))
            roomy = rows.gpu[:, gpu] >= pod.gpu_milli
            scores[roomy, gpu] = gained[roomy]
        return scores

    def _gained(self, before: Floats, rows: GpuRows) -> Ints:
        gradient = (before - fragmentation(rows, self._typical)) / WHOLE_GPU
        return _whole(MOST / (1 + np.exp(-gradient)))


def after(rows: GpuRows, pod: TracePod, chosen: Mask) -> GpuRows:
    """Return what is free once *pod* has its CPUs and its part of the *chosen* GPUs."""
    return GpuRows(
        rows.cpu - pod.cpu_milli,
        rows.memory - pod.memory_bytes,
        rows.gpu - chosen * pod.gpu_milli,
        rows.gpus,
        rows.model,
        rows.kinds,
    )


def _first_free(gpu: Ints, pod: TracePod) -> Mask:
    free = gpu == WHOLE_GPU
    first: Mask = free & (free.cumsum(axis=1) <= pod.gpus)
    return first


def _whole(scores: Floats) -> Ints:
    return scores.astype(np.int64)


def policies(typical: TypicalPods) -> Mapping[str, Policy]:
    """Return the policies of the experiment by name, in its order."""
    return {
        "Random": RandomFit(),
        "DotProd": DotProduct(),
        "GpuClustering": GpuClustering(),
        "GpuPacking": GpuPacking(),
        "BestFit": BestFit(),
        "FGD": FragmentationGradient(typical),
    }
