"""A what-if copy of a node with some pods removed.

The filters are asked about the copy. What its NUMA zones would have free is part of it:
`numakube.scheduling.snapshot.zone_belief.NumaBelief.without` gives no credit for pods whose place
is unknown, so that no pod is evicted in vain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from numakube.scheduling.snapshot.zone_belief import is_extensible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pods import PodInfo


class WhatIf(Protocol):
    """What the runtime of a profile offers to those who try things out."""

    def admits(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Return what filters and final checks together say of one node."""
        ...

    def add_pod(self, state: CycleState, pod: PodInfo, added: PodInfo, node: NodeInfo) -> None:
        """Put *added* on *node*, a clone, and tell the pre-filters of it."""
        ...

    def remove_pod(self, state: CycleState, pod: PodInfo, removed: PodInfo, node: NodeInfo) -> None:
        """Take *removed* off *node*, a clone, and tell the pre-filters of it."""
        ...


class Trial:
    """A copy of *node* from which pods are taken away, to see whether *pod* fits then.

    Args:
        runtime: the plugins.
        state: the state of the cycle in which *pod* was refused.
        pod: who needs room.
        node: where.
        nominated: pods for which room is being made on the node and that go first.
    """

    def __init__(
        self,
        runtime: WhatIf,
        state: CycleState,
        pod: PodInfo,
        node: NodeInfo,
        *,
        nominated: Sequence[PodInfo] = (),
    ) -> None:
        self._runtime = runtime
        self._state = state.clone()
        self._pod = pod
        self._node = node.clone()
        self._belief = node.numa
        self._gone: set[str] = set()
        self._nominated = nominated

    def remove(self, pods: Iterable[PodInfo]) -> None:
        """Take *pods* away."""
        for one in pods:
            self._gone.add(one.uid)
            self._runtime.remove_pod(self._state, self._pod, one, self._node)

    def restore(self, pod: PodInfo) -> None:
        """Put *pod* back."""
        self._gone.discard(pod.uid)
        self._runtime.add_pod(self._state, self._pod, pod, self._node)

    def verdict(self) -> Status:
        """Return what the filters and the final check say now.

        Pods nominated to the node may or may not come, so the pod must fit with and without them.
        """
        if self._belief is not None:
            self._node.numa = self._belief.without(self._gone)
        status = self._runtime.admits(self._state, self._pod, self._node)
        return self._beside_nominated() if status.ok and self._nominated else status

    def _beside_nominated(self) -> Status:
        state, node = self._state.clone(), self._node.clone()
        for other in self._nominated:
            before = node.numa
            self._runtime.add_pod(state, self._pod, other, node)
            # A runtime without the NUMA plugin leaves the zones to us.
            if node.numa is before and is_extensible(before):
                node.numa = before.followed_by(other) or before
        return self._runtime.admits(state, self._pod, node)
