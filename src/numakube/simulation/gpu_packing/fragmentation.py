"""How much of the free GPUs a typical pod cannot use: the measure of FGD.

    typical = typical_pods(pods)                 # what is asked for, and how often
    amount = fragmentation(rows, typical)        # thousandths of GPU, one number for each node

A pod that finds no room on a node can use none of its GPUs: everything free there is a fragment to
it. If there is room, the GPUs with less free than it asks for on each are fragments. For a pod
without GPU, all free GPUs are. The measure is the mean over the typical pods by how often they
come.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023. As in the authors' experiments, the typical pods are the commonest
shapes (CPUs, GPUs, models; not memory) that make up 95 % of a workload.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube.simulation.traces.trace_samples import commonest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.simulation.gpu_packing.gpu_nodes import GpuRows, Ints, Mask
    from numakube.simulation.traces.trace_rows import TracePod

Floats: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class TypicalPods:
    """Shapes of pods as arrays.

    Attributes:
        cpu: millicores.
        gpus: how many GPUs.
        share: how often a shape comes; all together 1.
        level: position in *levels* of what is asked of each GPU.
        levels: thousandths of a GPU that are asked for by any shape, each once.
        models: by shape and model of GPU, whether the shape accepts it.
    """

    cpu: Ints
    gpus: Ints
    share: Floats
    level: Ints
    levels: Ints
    models: Mask


def typical_pods(pods: Iterable[TracePod], models: tuple[str, ...]) -> TypicalPods:
    """Return the typical shapes of *pods*, for nodes with GPUs of these *models*."""
    shapes = commonest(pods)
    cpu, gpus, milli = (
        np.array([shape[field] for shape in shapes], dtype=np.int64) for field in range(3)
    )
    levels, level = np.unique(milli, return_inverse=True)
    accepted = [np.isin(models, shape[3]) | (not shape[3]) for shape in shapes]
    share = np.array(list(shapes.values()), dtype=np.float64) / shapes.total()
    return TypicalPods(cpu, gpus, share, level, levels, np.array(accepted))


def fragmentation(rows: GpuRows, typical: TypicalPods) -> Floats:
    """Return for each node the thousandths of GPU that typical pods cannot use, on average."""
    free = rows.gpu[:, :, np.newaxis]
    roomy = free >= typical.levels
    suitable = roomy.sum(axis=1)
    total = rows.gpu_total
    usable = (free * roomy).sum(axis=1)[:, typical.level]
    hosts = suitable[:, typical.level] >= typical.gpus
    hosts &= rows.cpu[:, np.newaxis] >= typical.cpu
    hosts &= typical.models[:, rows.model].T
    hosts &= typical.gpus > 0
    amount: Floats = total - (usable * hosts) @ typical.share
    return amount
