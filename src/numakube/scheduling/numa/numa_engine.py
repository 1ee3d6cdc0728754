"""What decides about NUMA alignment: one of several engines behind one plugin.

`numakube.scheduling.numa.native` predicts what the kubelet will do, for every policy;
`numakube.scheduling.numa.upstream` answers as the Go plugin NodeResourceTopologyMatch does. Both
look at the snapshot and at beliefs only, so that caches and engines combine freely.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from numakube.scheduling.arrays import Ratings, Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.framework.verdicts import Verdicts
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


class NumaEngine(Protocol):
    """Judges and rates nodes by their zones.

    The forms for one node read `NodeInfo.numa`, also of clones in what-ifs; the others read
    `Snapshot.zones`. Both give equal answers. *state* carries what an engine wants to keep from one
    call to the next within a cycle.
    """

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Tell whether *node* can take *pod*."""
        ...

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Tell which of *rows* can take *pod*; ``None`` if all of them can."""
        ...

    def score(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Rate *node* from 0 to `MAX_NODE_SCORE`."""
        ...

    def score_all(self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows) -> Ratings:
        """Rate the nodes at *rows* from 0 to `MAX_NODE_SCORE`."""
        ...

    def confirm(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Check *node*, which passed the filter, by means too costly for every node."""
        ...
