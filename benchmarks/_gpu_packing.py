"""Fragmentation of shared GPUs: the measure, the policies and the experiment of FGD.

    typical = typical_pods(pods)                 # what is asked for, and how often
    amount = fragmentation(rows, typical)        # thousandths of GPU, one number for each node

Nodes with GPUs that pods can share are arrays: one row for each node, one column for each GPU.
Policies look at some rows at a time (`GpuNodes.rows`), since only nodes that have changed need to
be rated again. A GPU that a node does not have is a column with nothing free, which no pod fits on.

A pod that finds no room on a node can use none of its GPUs: everything free there is a fragment to
it. If there is room, the GPUs with less free than it asks for on each are fragments. For a pod
without GPU, all free GPUs are. The measure is the mean over the typical pods by how often they
come. Typical pods are the commonest shapes (CPUs, GPUs, models; not memory) that make up 95 % of a
workload.

Scores of policies are whole numbers from 0 to 100, as a score plugin of kube-scheduler gives them;
the rounding is a part of the policies, since it makes scores equal. A policy is asked about nodes
that have room only. For pods with whole GPUs the first free ones are taken, by every policy.

In the experiment all pods of a trace come in random order, and then pods drawn from the trace,
until together they ask for a given part of all GPUs (130 % in the paper). None leaves. A pod that
fits nowhere is left out, and the next one is tried. What counts is the part of all GPUs that is
allocated in the end. The nodes are shuffled once. Of nodes with equal scores, the first is taken,
so that pods which a policy does not rate (those without GPU, in some) fill one node after the
other. A score depends on the shape of the pod and the state of the node alone: the scores of each
shape are kept, and only nodes that changed since the shape was last seen are rated again.

Nodes have CPUs, memory and GPUs that can be shared, but no NUMA nodes and no kubelet: this is the
published experiment, and the proof that we read the trace and rate nodes as its authors do.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from numakube_planning.simulation.trace_rows import WHOLE_GPU, arrivals, commonest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube_planning.simulation.trace_rows import TraceNode, TracePod

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

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:
        return np.zeros(len(rows.cpu), dtype=np.int64)

    def pick(self, equals: Rows, rng: np.random.Generator) -> int:
        return int(rng.choice(equals))

    def choose(self, row: GpuRows, pod: TracePod, rng: np.random.Generator) -> int:
        return int(rng.choice(np.flatnonzero(row.gpu[0] >= pod.gpu_milli)))


class DotProduct(_Tightest):
    """The node on which what is free is least like what is asked for (Tetris, reversed)."""

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:
        cpu = rows.cpu / _MOST_CPU * (pod.cpu_milli / _MOST_CPU)
        gpu = rows.gpu_total / _MOST_GPU * (pod.total_gpu_milli / _MOST_GPU)
        return _whole(MOST * (1 - (cpu + gpu) / 2))


class GpuClustering(_Tightest):
    """Pods of one kind together: first with none but their like, last with none of their like."""

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:
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

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:
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

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:
        cpu = (rows.cpu - pod.cpu_milli) / _MOST_CPU
        gpu = (rows.gpu_total - pod.total_gpu_milli) / _MOST_GPU
        return _whole(MOST * (1 - (cpu + gpu) / 2))


class FragmentationGradient(_First):
    """FGD: the node, and the GPU, where `fragmentation` grows least or shrinks most."""

    def __init__(self, typical: TypicalPods) -> None:
        self._typical = typical

    def score(self, rows: GpuRows, pod: TracePod, kind: int) -> Ints:
        before = fragmentation(rows, self._typical)
        if pod.shares_gpu:
            best: Ints = self._by_gpu(rows, pod, before).max(axis=1)
            return best
        return self._gained(before, after(rows, pod, _first_free(rows.gpu, pod)))

    def choose(self, row: GpuRows, pod: TracePod, rng: np.random.Generator) -> int:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """What became of the pods.

    Attributes:
        allocated: the part of all GPUs that is in use in the end.
        fragmented: the part of the free GPUs that typical pods cannot use, when 90 % of all GPUs
            have been asked for.
        placed: how many pods found room.
        pods: how many came.
    """

    allocated: float
    fragmented: float
    placed: int
    pods: int


class Packer:
    """Places pods by one policy, one after the other."""

    def __init__(self, nodes: GpuNodes, policy: Policy, rng: np.random.Generator) -> None:
        self._nodes = nodes
        self._policy = policy
        self._rng = rng
        self._boards: dict[object, tuple[Ints, Ints]] = {}

    def place(self, pod: TracePod) -> bool:
        """Place *pod* where its score is highest; tell whether it fits."""
        scores = self._scores(pod)
        best = scores.max()
        if best < 0:
            return False
        node = self._policy.pick(np.flatnonzero(scores == best), self._rng)
        self._nodes.take(node, pod, self._gpus(node, pod))
        return True

    def _gpus(self, node: int, pod: TracePod) -> Sequence[int]:
        row = self._nodes.rows(np.array([node]))
        if pod.shares_gpu:
            return [self._policy.choose(row, pod, self._rng)]
        return [int(gpu) for gpu in whole_gpus(row.gpu[0], pod)]

    def _scores(self, pod: TracePod) -> Ints:
        """Return the score of every node, -1 where *pod* has no room."""
        changes = self._nodes.changes
        shape = (pod.cpu_milli, pod.memory_bytes, pod.gpus, pod.gpu_milli, pod.gpu_models)
        board = self._boards.get(shape)
        if board is None:
            board = (np.full(len(changes), -1, dtype=np.int64), np.full_like(changes, -1))
            self._boards[shape] = board
        scores, seen = board
        changed = np.flatnonzero(seen != changes)
        if changed.size:
            scores[changed] = -1
            models = self._nodes.accepted_models(pod)
            room = changed[fits(self._nodes.rows(changed), pod, models)]
            kind = self._nodes.kind_of(pod)
            scores[room] = self._policy.score(self._nodes.rows(room), pod, kind)
            seen[changed] = changes[changed]
        return scores


def run_policy(
    nodes: Sequence[TraceNode],
    pods: Sequence[TracePod],
    policy: str,
    *,
    seed: int,
    demand: float = 1.3,
) -> Packed:
    """Run the experiment once; *demand* is what is asked for as a part of all GPUs.

    Nodes without GPUs are left out, as the authors do.
    """
    rng = np.random.default_rng(seed)
    with_gpus = [node for node in nodes if node.gpus]
    state = GpuNodes([with_gpus[index] for index in rng.permutation(len(with_gpus))])
    typical = typical_pods(pods, state.models)
    packer = Packer(state, policies(typical)[policy], rng)
    coming = list(arrivals(pods, demand * state.capacity_milli, rng))
    asked = used = placed = 0
    fragmented = 0.0
    for pod in coming:
        asked += pod.total_gpu_milli
        if packer.place(pod):
            used += pod.total_gpu_milli
            placed += 1
        if not fragmented and asked >= 0.9 * state.capacity_milli:
            idle = state.capacity_milli - used
            fragmented = float(fragmentation(state.rows(), typical).sum()) / idle
    allocated = used / state.capacity_milli
    return Packed(allocated=allocated, fragmented=fragmented, placed=placed, pods=len(coming))
