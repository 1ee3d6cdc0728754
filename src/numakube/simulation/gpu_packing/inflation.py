"""The experiment of FGD: pods come until they ask for more GPUs than there are, and none leaves.

All pods of a trace come in random order, and then pods drawn from the trace, until together they
ask for a given part of all GPUs (130 % in the paper). A pod that fits nowhere is left out, and the
next one is tried. What counts is the part of all GPUs that is allocated in the end.

The nodes are shuffled once. Of nodes with equal scores, the first is taken, so that pods which a
policy does not rate (those without GPU, in some) fill one node after the other.

Nodes have CPUs, memory and GPUs that can be shared, but no NUMA nodes and no kubelet: this is the
published experiment, and the proof that we read the trace and rate nodes as its authors do.

A score depends on the shape of the pod and the state of the node alone. So the scores of each shape
are kept, and only nodes that changed since the shape was last seen are rated again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from numakube.simulation.gpu_packing.fragmentation import fragmentation, typical_pods
from numakube.simulation.gpu_packing.gpu_nodes import GpuNodes, fits, whole_gpus
from numakube.simulation.gpu_packing.packing_policies import policies
from numakube.simulation.traces.trace_samples import arrivals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube.simulation.gpu_packing.gpu_nodes import Ints
    from numakube.simulation.gpu_packing.packing_policies import Policy
    from numakube.simulation.traces.trace_rows import TraceNode, TracePod


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
