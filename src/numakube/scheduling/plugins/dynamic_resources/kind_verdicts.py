"""What was found for claims on each kind of nodes, remembered for the pods that ask for the same.

Pods of one workload have claims that say the same. What one of them got on a node, the next one
gets on every node of that kind (`numakube.dra.alike_nodes`). A node that failed the final check is
remembered with the state that it was in, and others that come to be in that state fail, too.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec
import numpy as np

from numakube.api.strictness import CLOSENESS
from numakube.api.zone_relations import LINKED
from numakube.scheduling.framework.status import SUCCESS, Verdicts, unresolvable
from numakube.scheduling.plugins.dynamic_resources.claim_alignment import ANNOTATION
from numakube.scheduling.snapshot.pod_equivalence import kubelet_key

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    import numpy.typing as npt

    from numakube.api.resource_claims import AllocationResult, ResourceClaim
    from numakube.dra.alike_nodes import NodeKinds
    from numakube.dra.pools import DevicePool
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo

_REMEMBERED_SHAPES: Final = 64
_REMEMBERED_ASKERS: Final = 1000
_REMEMBERED_FAILURES: Final = 16
"""Kinds of pods whose claims say the same and of which failed nodes are remembered."""
_REMEMBERED_CHOICES: Final = 4096

NO_DEVICES: Final = unresolvable("cannot allocate all claims")
FITS: Final = 0
"""What is said of a node: the first of the statuses in `Verdicts`."""
LACKS_DEVICES: Final = 1
FAILED: Final = 2
"""This and all that follow are reasons for which the final check has failed."""
ALONE: Final = -1
"""The node has to be judged by itself, each time."""
_UNKNOWN: Final = -2


class FoundOnKind(NamedTuple):
    """Allocations from *pools* of one node, or why there are none."""

    allocations: tuple[AllocationResult, ...]
    status: Status
    pools: Sequence[DevicePool] = ()


def asker_of(pod: PodInfo) -> Hashable:
    """Return what pods have in common whose claims must be as near to CPUs and to each other."""
    names = tuple(entry.name for entry in pod.pod.spec.resource_claims)
    annotations = pod.pod.metadata.annotations
    asked = tuple(annotations.get(key) for key in (ANNOTATION, CLOSENESS, LINKED))
    return kubelet_key(pod), names, asked


class NodeVerdicts:
    """What is known of each node for pods that are alike: of its kind, and of the final check.

    A node is judged again when its devices, its object or what is believed of it have changed.
    """

    def __init__(self) -> None:
        self._choice: npt.NDArray[np.int32] = np.zeros(0, dtype=np.int32)
        self._statuses: dict[Status, int] = {SUCCESS: FITS, NO_DEVICES: LACKS_DEVICES}
        self._failed: dict[Hashable, int] = {}
        self._lately_failed: list[int] = []
        self._seen: tuple[object, int, int] = (None, 0, 0)

    def fail(self, node: NodeInfo, state: Hashable, status: Status) -> None:
        """Remember why *node* has failed the final check, and all that are in the same *state*."""
        if len(self._failed) >= _REMEMBERED_CHOICES:
            self._failed.clear()
        self._failed[state] = self._statuses.setdefault(status, len(self._statuses))
        self._lately_failed.append(node.row)

    def failure(self, state: Hashable) -> int | None:
        """Return why nodes in that *state* have failed the final check, if any has."""
        return self._failed.get(state)

    def read(
        self, snapshot: Snapshot, rows: Rows, kinds: NodeKinds, judge: Callable[[NodeInfo], int]
    ) -> Verdicts:
        """Return what is known of *rows*, or `ALONE`; *judge* tells of those that have changed."""
        self._forget_changed(snapshot, kinds)
        choice = self._choice.take(rows)
        for position in np.flatnonzero(choice == _UNKNOWN).tolist():
            node = snapshot.at(int(rows[position]))
            choice[position] = self._choice[node.row] = judge(node)
        return Verdicts(choice, tuple(self._statuses))

    def _forget_changed(self, snapshot: Snapshot, kinds: NodeKinds) -> None:
        objects = snapshot.derived(NodeVerdicts, lambda _: object())
        changes, seen = snapshot.zones.changes, self._seen
        self._seen = objects, len(kinds.changed), changes.count
        if objects is not seen[0]:
            self._choice = np.full(len(snapshot.by_row), _UNKNOWN, dtype=np.int32)
        else:
            rows = snapshot.row_of
            changed = [rows[name] for name in kinds.changed[seen[1] :] if name in rows]
            self._choice[changed + self._lately_failed] = _UNKNOWN
            self._choice[changes.since(seen[2])] = _UNKNOWN
        self._lately_failed.clear()


class ShapeVerdicts:
    """What was found for pods whose claims say the same.

    Attributes:
        by_kind: what was found, by kind of node.
    """

    def __init__(self) -> None:
        self.by_kind: dict[int, FoundOnKind] = {}
        self._aligned: dict[Hashable, FoundOnKind] = {}
        self._nodes: OrderedDict[Hashable, NodeVerdicts] = OrderedDict()

    def aligned(self, question: Hashable) -> FoundOnKind | None:
        """Return the devices that were chosen for alignment when the same was asked."""
        return self._aligned.get(question)

    def remember_aligned(self, question: Hashable, found: FoundOnKind) -> None:
        """Remember the devices that were chosen for alignment."""
        if len(self._aligned) >= _REMEMBERED_CHOICES:
            self._aligned.clear()
        self._aligned[question] = found

    def for_pods_like(self, asker: Hashable) -> NodeVerdicts:
        """Return what is known of each node for pods like *asker*."""
        found = self._nodes.get(asker)
        if found is None:
            found = self._nodes[asker] = NodeVerdicts()
            if len(self._nodes) > _REMEMBERED_FAILURES:
                self._nodes.popitem(last=False)
        self._nodes.move_to_end(asker)
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
