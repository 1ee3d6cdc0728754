"""NodeResourcesFit: what the pod requests must be free, and free nodes score higher.

Requests include overhead, init containers, sidecars and pod-level resources. Rating follows one of
three strategies: least allocated, most allocated, or a broken line from use to score. Follows
kube-scheduler 1.35.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.arrays import picked
from numakube.scheduling.framework.cluster_events import EventKind
from numakube.scheduling.framework.cycle_state import StateKey
from numakube.scheduling.framework.plugins import (
    Filter,
    PreFilter,
    PreFilterResult,
    PreScore,
    Score,
    VectorFilter,
    VectorScore,
)
from numakube.scheduling.framework.status import SUCCESS, Code, Status
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.plugins.allocation_scores import allocation_scorer
from numakube.scheduling.plugins.plugin_arguments import NodeResourcesFitArgs, read_args
from numakube.scheduling.plugins.resource_amounts import Usage, counted_requests, rated_requests
from numakube.values.resources import is_extended

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    from numakube.scheduling.arrays import IntArray, Ratings, Rows
    from numakube.scheduling.framework.cluster_events import ClusterEvent
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.node_resources import ResourceTable
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

    ByClaims = Callable[[str], bool]
    _Wanted = tuple[tuple[str, int, bool], ...]
    """Resource, amount, and whether nodes may have it as devices of claims."""

_WANTED: Final = StateKey[tuple[tuple[str, int], ...]]("NodeResourcesFit.wanted")
_USAGES: Final = StateKey[tuple[Usage, ...]]("NodeResourcesFit.usages")
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
            Usage(one.name, asked.get(one.name, 0), little=True)
            for one in self.args.scoring_strategy.resources
        )
        state.write(_USAGES, tuple(usages))
        return SUCCESS

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate one node."""
        return self._scorer.score([one.of_node(node) for one in state.read(_USAGES) or ()])

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate all nodes."""
        usages, table, scorer = state.read(_USAGES) or (), snapshot.resources, self._scorer

        def rated(changed: Rows | slice, size: int) -> IntArray:
            return scorer.score_all([one.of_all(table, changed) for one in usages], size)

        def rated_at(row: int) -> int:
            return scorer.score([one.of_row(table, row) for one in usages])

        key = scorer, tuple((one.resource, one.request) for one in usages)
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
