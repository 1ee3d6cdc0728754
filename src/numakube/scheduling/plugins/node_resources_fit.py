"""NodeResourcesFit: what the pod requests must be free, and free nodes score higher.

Requests include overhead, init containers, sidecars and pod-level resources. Rating follows one of
three strategies: least allocated, most allocated, or a broken line from use to score. Follows
kube-scheduler 1.37.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.api.pod_resources import effective_requests
from numakube.scheduling.arrays import picked
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import (
    MAX_NODE_SCORE,
    Filter,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import SUCCESS, Code, Status, Verdicts
from numakube.scheduling.plugins.plugin_arguments import (
    LEAST_ALLOCATED,
    MOST_ALLOCATED,
    NodeResourcesFitArgs,
    ScoringStrategy,
    UtilizationShapePoint,
    read_args,
)
from numakube.scheduling.snapshot.node_resources import bounded
from numakube.values.quantity import Quantity
from numakube.values.resources import CPU, EPHEMERAL_STORAGE, MEMORY, is_extended, is_scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy.typing as npt

    from numakube.api.pod import Pod
    from numakube.scheduling.arrays import IntArray, Mask, Ratings, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.plugins.plugin_arguments import WeightedResource
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_resources import ResourceTable
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

    ByClaims = Callable[[str], bool]
    _Wanted = tuple[tuple[str, int, bool], ...]
    """Resource, amount, and whether nodes may have it as devices of claims."""


# ------------------------------------------------------------------------------------------------
# What of a pod's requests the scheduler counts, and how nodes are rated by what is free.
#
# kube-scheduler (1.37) fits CPU, memory, ephemeral storage, hugepages and extended resources; any
# other name in a request is nothing to it. To rate nodes by what is free it looks at the pod
# without its pod-level resources, and as if each container asked for a little CPU and memory; to
# rate balance it looks at plain requests.

_FIRST: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
_LITTLE: Final = {CPU: Quantity.of_milli(100), MEMORY: Quantity.of_bytes(200 * 1024 * 1024)}


def counted_requests(pod: PodInfo) -> tuple[tuple[str, int], ...]:
    """Return what of *pod*'s requests must fit: resource and amount, CPU and memory first."""
    asked = pod.requests
    native = [(name, asked[name]) for name in _FIRST if asked.get(name, 0) > 0]
    scalars = sorted((name, amount) for name, amount in asked.items() if amount)
    return (
        *native,
        *(scalar for scalar in scalars if scalar[0] not in _FIRST and is_scalar(scalar[0])),
    )


def rated_requests(pod: PodInfo) -> Mapping[str, int]:
    """Return what *pod* counts with when nodes are rated by what is free."""
    return pod.memo("rated-requests", _rated)


def _rated(pod: Pod) -> Mapping[str, int]:
    requests = effective_requests(pod, pod_level_resources=False, defaults=_LITTLE)
    return {
        name: quantity.milli_value() if name == CPU else quantity.value()
        for name, quantity in requests.items()
    }


class RatedUsage:
    """What nodes offer and use of one resource, with the pod that is to be placed.

    Attributes:
        request: how much the pod asks for.
        little: whether containers without a request count with a little.
    """

    def __init__(self, resource: str, request: int, *, little: bool) -> None:
        self.resource = resource
        self.request = bounded(request)
        self.little = little

    @property
    def counts(self) -> bool:
        """Tell whether the resource counts: not if it is special and the pod does not want it."""
        return self.request != 0 or not is_scalar(self.resource)

    def of_node(self, node: NodeInfo) -> tuple[int, int]:
        """Return what *node* offers and what would be in use."""
        if not self.counts:
            return 0, 0
        offered = node.allocatable.get(self.resource, 0)
        return (offered, self._used_on(node) + self.request) if offered else (0, 0)

    def of_row(self, table: ResourceTable, row: int) -> tuple[int, int]:
        """Return both for the node at *row*."""
        offered = int(table.allocatable(self.resource)[row]) if self.counts else 0
        return (offered, int(self._used_in(table)[row]) + self.request) if offered else (0, 0)

    def of_all(self, table: ResourceTable, rows: Rows | slice) -> tuple[IntArray, IntArray] | None:
        """Return both for the nodes at *rows*, or ``None`` if the resource does not count."""
        if not self.counts:
            return None
        used = self._used_in(table)[rows] + self.request
        return table.allocatable(self.resource)[rows], used

    def _used_on(self, node: NodeInfo) -> int:
        if self.little and self.resource == CPU:
            return node.nonzero_cpu_milli
        if self.little and self.resource == MEMORY:
            return node.nonzero_memory_bytes
        return node.requested.get(self.resource, 0)

    def _used_in(self, table: ResourceTable) -> IntArray:
        if self.little and self.resource == CPU:
            return table.nonzero_cpu_milli
        if self.little and self.resource == MEMORY:
            return table.nonzero_memory_bytes
        return table.requested(self.resource)


# ------------------------------------------------------------------------------------------------
# Rating of nodes by how much of their resources is in use.
#
# Each strategy gives a resource a score from what a node offers and what would be in use, and
# takes the weighted mean over the resources that the node offers. All arithmetic is on integers as
# in kube-scheduler 1.37.

_MAX_SHAPE_SCORE: Final = 10
_FULL: Final = 100


class AllocationScorer(ABC):
    """Rates nodes; subclasses say what one resource is worth."""

    def __init__(self, resources: Sequence[WeightedResource]) -> None:
        self.weights = tuple(resource.weight for resource in resources)

    @abstractmethod
    def worth(self, offered: int, used: int) -> int:
        """Return the score of one resource of which *offered* is not zero."""

    @abstractmethod
    def worth_all(self, offered: IntArray, used: IntArray) -> IntArray:
        """Return the same for many nodes; rows that offer nothing do not matter."""

    def counts(self, worth: int) -> bool:
        """Tell whether a resource with that score takes part in the mean."""
        return True

    def counting(self, worth: IntArray) -> Mask | bool:
        """Return the same for many nodes."""
        return True

    def mean(self, total: int, weight: int) -> int:
        """Return the weighted mean."""
        return total // weight

    def mean_all(self, total: IntArray, weight: IntArray | int) -> IntArray:
        """Return the same for many nodes."""
        return total // weight

    def score(self, usages: Sequence[tuple[int, int]]) -> int:
        """Rate a node of which resources are offered and used like this."""
        total = weight = 0
        for (offered, used), share in zip(usages, self.weights, strict=True):
            if not offered:
                continue
            worth = self.worth(offered, used)
            if self.counts(worth):
                total += worth * share
                weight += share
        return self.mean(total, weight) if weight else 0

    def score_all(self, usages: Sequence[tuple[IntArray, IntArray] | None], size: int) -> IntArray:
        """Rate *size* nodes of which resources are offered and used like this."""
        total = np.zeros(size, dtype=np.int64)
        weight: IntArray | int = 0
        for usage, share in zip(usages, self.weights, strict=True):
            if usage is None:
                continue
            offered, used = usage
            there: Mask | bool = True
            if not offered.all():
                there = offered != 0
                offered = np.where(there, offered, 1)
            worth = self.worth_all(offered, used)
            counts = share * (there & self.counting(worth))
            total += worth if isinstance(counts, int) and counts == 1 else worth * counts
            weight = weight + counts
        # A resource that counts on every node has one number for its weight, which is fast.
        if isinstance(weight, int):
            return self.mean_all(total, weight) if weight else total
        return np.where(weight, self.mean_all(total, np.maximum(weight, 1)), 0)


class LeastAllocated(AllocationScorer):
    """The more is free, the better."""

    def worth(self, offered: int, used: int) -> int:
        """Return the free share."""
        return 0 if used > offered else (offered - used) * MAX_NODE_SCORE // offered

    def worth_all(self, offered: IntArray, used: IntArray) -> IntArray:
        """Return the free share."""
        free = offered - used
        np.maximum(free, 0, out=free)
        free *= MAX_NODE_SCORE
        free //= offered
        return free


class MostAllocated(AllocationScorer):
    """The more is in use, the better."""

    def worth(self, offered: int, used: int) -> int:
        """Return the used share."""
        return min(used, offered) * MAX_NODE_SCORE // offered

    def worth_all(self, offered: IntArray, used: IntArray) -> IntArray:
        """Return the used share."""
        return np.minimum(used, offered) * MAX_NODE_SCORE // offered


class RequestedToCapacityRatio(AllocationScorer):
    """A broken line from the used share to the score; resources that score nothing do not count."""

    def __init__(
        self, resources: Sequence[WeightedResource], shape: Sequence[UtilizationShapePoint]
    ) -> None:
        super().__init__(resources)
        factor = MAX_NODE_SCORE // _MAX_SHAPE_SCORE
        points = [(point.utilization, point.score * factor) for point in shape]
        self._line = np.array([_on_line(points, p) for p in range(_FULL + 1)], dtype=np.int64)

    def worth(self, offered: int, used: int) -> int:
        """Return the score at the used share."""
        return int(self._line[_FULL if used > offered else used * _FULL // offered])

    def worth_all(self, offered: IntArray, used: IntArray) -> IntArray:
        """Return the score at the used share."""
        worth: IntArray = self._line[np.where(used > offered, _FULL, used * _FULL // offered)]
        return worth

    def counts(self, worth: int) -> bool:
        """Only scores above zero take part."""
        return worth > 0

    def counting(self, worth: IntArray) -> Mask | bool:
        """Only scores above zero take part."""
        above: Mask = worth > 0
        return above

    def mean(self, total: int, weight: int) -> int:
        """Round half up; nothing here is negative."""
        return (2 * total + weight) // (2 * weight)

    def mean_all(self, total: IntArray, weight: IntArray | int) -> IntArray:
        """Round half up."""
        return (2 * total + weight) // (2 * weight)


def allocation_scorer(strategy: ScoringStrategy) -> AllocationScorer:
    """Return what rates nodes by *strategy*."""
    if strategy.type == LEAST_ALLOCATED:
        return LeastAllocated(strategy.resources)
    if strategy.type == MOST_ALLOCATED:
        return MostAllocated(strategy.resources)
    ratio = strategy.requested_to_capacity_ratio
    return RequestedToCapacityRatio(strategy.resources, ratio.shape if ratio else ())


def _on_line(points: Sequence[tuple[int, int]], at: int) -> int:
    """Return the height of the broken line through *points*, flat beyond its ends."""
    for index, (x, y) in enumerate(points):
        if at <= x:
            if index == 0:
                return y
            before_x, before_y = points[index - 1]
            # Divided towards zero, as Go does for lines that fall.
            rise = (y - before_y) * (at - before_x)
            step = abs(rise) // (x - before_x)
            return before_y + (step if rise >= 0 else -step)
    return points[-1][1] if points else 0


# ------------------------------------------------------------------------------------------------
# NodeResourcesFit: what the pod requests must be free, and free nodes score higher.

_WANTED: Final = StateKey[tuple[tuple[str, int], ...]]("NodeResourcesFit.wanted")
_USAGES: Final = StateKey[tuple[RatedUsage, ...]]("NodeResourcesFit.usages")
_TOO_MANY: Final = "Too many pods"
_FEW_NAMES: Final = 8
"""Resources of a pod up to which codes of what is lacking stay below a thousand or so."""


def _never(resource: str) -> bool:
    del resource
    return False


class NodeResourcesFit(PreFilter, Filter, VectorFilter, PreScore, Score, VectorScore):
    """The node must have room for one more pod and for all that it requests."""

    name = "NodeResourcesFit"
    wakes_on = (
        EventKind.POD_DELETED
        | EventKind.POD_UPDATED
        | EventKind.UNSCHEDULED_POD_UPDATED
        | EventKind.NODE_ADDED
        | EventKind.NODE_UPDATED
        | EventKind.DEVICES_CHANGED
    )
    judges_nodes_alone = True

    def __init__(
        self, args: NodeResourcesFitArgs | None = None, *, by_claims: ByClaims = _never
    ) -> None:
        """Prepare; *by_claims* tells of resources that nodes may have as devices of claims."""
        self.args = args or NodeResourcesFitArgs()
        self._by_claims = by_claims
        self._scorer = allocation_scorer(self.args.scoring_strategy)

    @classmethod
    def from_args(
        cls, args: Mapping[str, object], *, by_claims: ByClaims = _never
    ) -> NodeResourcesFit:
        """Return the plugin for *args* as they stand in a configuration."""
        return cls(read_args(NodeResourcesFitArgs, args), by_claims=by_claims)

    def pre_filter(self, state: CycleState, pod: PodInfo, snapshot: Snapshot) -> PreFilterResult:
        """Work out what must fit."""
        state.write(_WANTED, self._wanted(pod))
        return PreFilterResult()

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node that lacks something; evicting pods helps if it would fit when empty."""
        reasons = [_TOO_MANY] if len(node.pods) + 1 > node.allowed_pods else []
        hopeless = False
        for resource, amount in state.read(_WANTED) or self._wanted(pod):
            offered = node.allocatable.get(resource, 0)
            if not offered and self._by_claims(resource):
                continue
            if amount > offered - node.requested.get(resource, 0):
                reasons.append(f"Insufficient {resource}")
                hopeless = hopeless or amount > offered
        return _refusal(tuple(reasons), hopeless=hopeless) if reasons else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse nodes that lack something."""
        table = snapshot.resources
        wanted = tuple(
            (name, amount, self._by_claims(name)) for name, amount in state.read(_WANTED) or ()
        )
        key = self.name, wanted
        dtype = np.uint16 if len(wanted) <= _FEW_NAMES else np.int64

        def lacking_of(changed: Rows | slice, size: int) -> npt.NDArray[np.integer]:
            return _lacking(table, wanted, changed, np.zeros(size, dtype))

        known = table.derived(key, lacking_of, lambda row: _lacking_at(table, wanted, row), dtype)
        lacking = picked(known, rows)
        # Numbers are compared faster than they are told from zero.
        return _verdicts(lacking, wanted) if lacking.max(initial=0) else None

    def pre_score(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Status:
        """Work out what the pod counts with."""
        asked = rated_requests(pod)
        usages = (
            RatedUsage(resource.name, asked.get(resource.name, 0), little=True)
            for resource in self.args.scoring_strategy.resources
        )
        state.write(_USAGES, tuple(usages))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate one node."""
        return self._scorer.score([usage.of_node(node) for usage in state.read(_USAGES) or ()])

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate all nodes."""
        usages, table, scorer = state.read(_USAGES) or (), snapshot.resources, self._scorer

        def rated(changed: Rows | slice, size: int) -> IntArray:
            return scorer.score_all([usage.of_all(table, changed) for usage in usages], size)

        def rated_at(row: int) -> int:
            return scorer.score([usage.of_row(table, row) for usage in usages])

        key = scorer, tuple((usage.resource, usage.request) for usage in usages)
        scores = table.derived(key, rated, rated_at, np.int8)
        return picked(scores, rows)

    def likeness(self, pod: PodInfo) -> tuple[tuple[str, int], ...]:
        """What must fit."""
        return self._wanted(pod)

    def wakes(self, pod: PodInfo, event: ClusterEvent) -> bool:
        """A node must be large enough for the pod when it is empty."""
        node = event.node_info
        if node is None or event.kind not in EventKind.NODE_ADDED | EventKind.NODE_UPDATED:
            return True
        return node.allowed_pods > 0 and all(
            amount <= node.allocatable.get(name, 0)
            or (not node.allocatable.get(name, 0) and self._by_claims(name))
            for name, amount in self._wanted(pod)
        )

    def _wanted(self, pod: PodInfo) -> tuple[tuple[str, int], ...]:
        ignored, groups = self.args.ignored_resources, self.args.ignored_resource_groups
        wanted = counted_requests(pod)
        if not ignored and not groups:
            return wanted
        return tuple(
            (name, amount)
            for name, amount in wanted
            if not is_extended(name)
            or (name not in ignored and name.partition("/")[0] not in groups)
        )


def _refusal(reasons: tuple[str, ...], *, hopeless: bool) -> Status:
    code = Code.UNSCHEDULABLE_AND_UNRESOLVABLE if hopeless else Code.UNSCHEDULABLE
    return Status(code, reasons)


def _lacking(
    table: ResourceTable,
    wanted: _Wanted,
    rows: Rows | slice,
    lacking: npt.NDArray[np.integer],
) -> npt.NDArray[np.integer]:
    """Note in *lacking* what each node lacks: a bit for pods, for each resource, and for ever."""
    lacking |= table.pod_count[rows] >= table.allowed_pods[rows]
    for place, (resource, amount, by_claims) in enumerate(wanted, start=1):
        offered = table.allocatable(resource)[rows]
        short = np.flatnonzero(offered - table.requested(resource)[rows] < amount)
        if by_claims:
            short = short[offered[short] > 0]
        lacking[short] |= 1 << place
        lacking[short[offered[short] < amount]] |= 1 << (1 + len(wanted))
    return lacking


def _lacking_at(table: ResourceTable, wanted: _Wanted, row: int) -> int:
    """Return the same for one node."""
    lacking, hopeless = int(table.pod_count[row] >= table.allowed_pods[row]), False
    for place, (resource, amount, by_claims) in enumerate(wanted, start=1):
        offered = int(table.allocatable(resource)[row])
        free = offered - int(table.requested(resource)[row])
        if amount > free and (offered > 0 or not by_claims):
            lacking |= 1 << place
            hopeless = hopeless or amount > offered
    return lacking | hopeless << (1 + len(wanted))


def _verdicts(lacking: npt.NDArray[np.integer], wanted: _Wanted) -> Verdicts:
    """Return a status for each combination of reasons that occurs."""
    names = tuple(resource for resource, _, _ in wanted)
    refused = np.flatnonzero(lacking)
    codes = lacking[refused]
    # Where codes are small, to count them is many times faster than to sort them.
    small = len(names) <= _FEW_NAMES
    found = np.flatnonzero(np.bincount(codes)) if small else np.unique(codes)
    choice = np.zeros(len(lacking), dtype=np.int32)
    choice[refused] = np.searchsorted(found, codes) + 1
    return Verdicts(choice, (SUCCESS, *(_status(code, names) for code in found.tolist())))


@lru_cache(maxsize=1024)
def _status(code: int, names: tuple[str, ...]) -> Status:
    """Return what the bits of *code* say."""
    reasons = (_TOO_MANY, *(f"Insufficient {name}" for name in names))
    told = tuple(reason for place, reason in enumerate(reasons) if code >> place & 1)
    return _refusal(told, hopeless=bool(code >> len(reasons)))
