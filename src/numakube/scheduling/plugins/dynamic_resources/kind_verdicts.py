"""What was found for claims on each kind of nodes, remembered for the pods that ask for the same.

Pods of one workload have claims that say the same. What one of them got on a node, the next one
gets on every node of that kind (`numakube.dra.alike_nodes`). Nodes that failed the final check are
remembered one by one, for as long as nothing changes there.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from numakube.api.strictness import CLOSENESS
from numakube.dra.alike_nodes import OWN
from numakube.scheduling.framework.status import SUCCESS
from numakube.scheduling.framework.verdicts import Verdicts
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import ANNOTATION
from numakube.scheduling.snapshot.pod_equivalence import kubelet_key

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.dra.alike_nodes import NodeKinds
    from numakube.dra.pools import Pool
    from numakube.scheduling.arrays import IntArray, Rows
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.scheduling.snapshot.zone_belief import NumaBelief

_REMEMBERED_SHAPES: Final = 64
_REMEMBERED_ASKERS: Final = 1000
_REMEMBERED_FAILURES: Final = 16
"""Kinds of pods whose claims say the same and of which failed nodes are remembered."""
_SPARE_ROWS: Final = 64

_REMEMBERED_CHOICES: Final = 4096


class Found(NamedTuple):
    """Allocations from *pools* of one node, or why there are none."""

    allocations: tuple[AllocationResult, ...]
    status: Status
    pools: Sequence[Pool] = ()


def asker_of(pod: PodInfo) -> Hashable:
    """Return what pods have in common whose claims must be as near to CPUs and to each other."""
    names = tuple(entry.name for entry in pod.pod.spec.resource_claims)
    annotations = pod.pod.metadata.annotations
    return kubelet_key(pod), names, annotations.get(ANNOTATION), annotations.get(CLOSENESS)


class FailedNodes:
    """Nodes that failed the final check, for pods that are alike."""

    def __init__(self) -> None:
        self._kinds: IntArray = np.zeros(0, dtype=np.int64)
        self._whys: IntArray = np.zeros(0, dtype=np.int64)
        self._beliefs: dict[int, NumaBelief | None] = {}
        self._statuses: dict[Status, int] = {SUCCESS: 0}

    def add(self, node: NodeInfo, kind: int, status: Status) -> None:
        """Remember why *node* failed."""
        if node.row >= len(self._kinds):
            more = node.row + 1 - len(self._kinds) + _SPARE_ROWS
            self._kinds = np.append(self._kinds, np.full(more, OWN))
            self._whys = np.append(self._whys, np.zeros(more, dtype=np.int64))
        self._kinds[node.row] = kind
        self._whys[node.row] = self._statuses.setdefault(status, len(self._statuses))
        self._beliefs[node.row] = node.numa

    def verdicts(self, snapshot: Snapshot, rows: Rows, kinds: IntArray) -> Verdicts | None:
        """Refuse those of *rows* that would fail again: nothing has changed there."""
        if not self._beliefs:
            return None
        known = rows[rows < len(self._kinds)]
        known = known[self._kinds[known] == kinds[known]]
        by_row, beliefs = snapshot.by_row, self._beliefs
        again = [
            row
            for row in known.tolist()
            if (node := by_row[row]) is not None and node.numa is beliefs.get(row, node)
        ]
        if not again:
            return None
        whys = np.zeros(len(snapshot.by_row), dtype=np.int32)
        whys[again] = self._whys[again]
        return Verdicts(whys[rows], tuple(self._statuses))


class ShapeVerdicts:
    """What was found for pods whose claims say the same.

    Attributes:
        by_kind: what was found, by kind of node.
    """

    def __init__(self) -> None:
        self.by_kind: dict[int, Found] = {}
        self._aligned: dict[Hashable, Found] = {}
        self._failed: OrderedDict[Hashable, FailedNodes] = OrderedDict()

    def aligned(self, question: Hashable) -> Found | None:
        """Return the devices that were chosen for alignment when the same was asked."""
        return self._aligned.get(question)

    def remember_aligned(self, question: Hashable, found: Found) -> None:
        """Remember the devices that were chosen for alignment."""
        if len(self._aligned) >= _REMEMBERED_CHOICES:
            self._aligned.clear()
        self._aligned[question] = found

    def failed(self, asker: Hashable) -> FailedNodes:
        """Return the nodes that failed the final check for pods like *asker*."""
        found = self._failed.setdefault(asker, FailedNodes())
        self._failed.move_to_end(asker)
        if len(self._failed) > _REMEMBERED_FAILURES:
            self._failed.popitem(last=False)
        return found


class KindVerdicts:
    """The verdicts of the shapes that were asked for last; valid for one set of kinds.

    Attributes:
        unaligned: askers that were refused because of where devices are.
    """

    def __init__(self) -> None:
        self.unaligned: set[Hashable] = set()
        self._valid_for: tuple[object, ...] = ()
        self._shapes: OrderedDict[bytes, ShapeVerdicts] = OrderedDict()

    def of(
        self, claims: Iterable[ResourceClaim], kinds: NodeKinds, classes_version: int
    ) -> ShapeVerdicts:
        """Return what was found for *claims*, or others that say the same."""
        if self._valid_for != (kinds, classes_version):
            self._shapes.clear()
            self._valid_for = kinds, classes_version
        shape = msgspec.json.encode([claim.spec for claim in claims])
        found = self._shapes.setdefault(shape, ShapeVerdicts())
        self._shapes.move_to_end(shape)
        if len(self._shapes) > _REMEMBERED_SHAPES:
            self._shapes.popitem(last=False)
        return found

    def add_unaligned(self, asker: Hashable) -> None:
        """Take note that pods like *asker* were refused because of where devices are."""
        if len(self.unaligned) >= _REMEMBERED_ASKERS:
            self.unaligned.clear()
        self.unaligned.add(asker)


class KindColumn:
    """The kind of the node in each row of a snapshot; brought up to date before it is read."""

    def __init__(self) -> None:
        self._kinds: NodeKinds | None = None
        self._seen = 0
        self._numbers: IntArray = np.zeros(0, dtype=np.int64)

    def read(self, kinds: NodeKinds, snapshot: Snapshot) -> IntArray:
        """Return the kinds by row."""
        if self._kinds is not kinds:
            self._numbers = np.full(len(snapshot.by_row), OWN, dtype=np.int64)
            names: Iterable[str] = snapshot.row_of
        else:
            names = set(kinds.changed[self._seen :])
        for name in names:
            node = snapshot.node(name)
            if node is not None:
                self._numbers[node.row] = kinds.of(node.node)
        self._kinds, self._seen = kinds, len(kinds.changed)
        return self._numbers
