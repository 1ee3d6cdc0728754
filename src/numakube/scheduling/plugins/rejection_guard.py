"""Keeps pods away from where kubelets have just rejected pods like them.

A kubelet that rejects a bound pod (``TopologyAffinityError`` and its kin) makes the pod fail for
good; its controller makes another at once, which would fail the same way, hundreds of times. So a
node that has rejected a pod is not offered pods of that shape for a while that doubles each time,
or until its report shows another configuration or more room; and after a few rejections the whole
workload is held back for a while.

The program that runs the plugin passes the time in (`advance`); nothing else changes the guard but
`rejected`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np

from numakube.scheduling.framework.plugins import Filter, PreEnqueue, VectorFilter
from numakube.scheduling.framework.registry import Service
from numakube.scheduling.framework.status import SUCCESS, Code, Status, Verdicts, unresolvable
from numakube.scheduling.snapshot.pod_equivalence import scheduling_key
from numakube.topology.report_update import may_take_more

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube.api.meta import OwnerReference
    from numakube.scheduling.arrays import Rows
    from numakube.scheduling.framework.cycle_state import CycleState
    from numakube.scheduling.framework.registry import Handle, Services
    from numakube.scheduling.snapshot.cluster import Snapshot
    from numakube.scheduling.snapshot.nodes import NodeInfo
    from numakube.scheduling.snapshot.pod_equivalence import PodKey
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube.topology.topology_view import NodeTopology

NODE_SECONDS: Final = 30.0
LONGEST_NODE_SECONDS: Final = 600.0
OWNER_SECONDS: Final = 15.0
LONGEST_OWNER_SECONDS: Final = 300.0
OWNER_LIMIT: Final = 3
"""Rejections within `WINDOW_SECONDS` that make a workload a runaway."""
WINDOW_SECONDS: Final = 600.0

_REFUSAL: Final = unresolvable("node(s) whose kubelet rejected a pod like this a short while ago")


@dataclass(slots=True)
class _Ban:
    """A node that is not offered pods of one shape.

    Attributes:
        report: what was known of the node when it rejected the last one.
    """

    times: int = 0
    until: float = 0.0
    report: NodeTopology | None = None

    def keeps_away_from(self, node: NodeInfo, now: float) -> bool:
        """Tell whether *node* is still not to be offered such pods."""
        report = None if node.numa is None else node.numa.topology
        return self.until > now and not may_take_more(self.report, report)


@dataclass(slots=True)
class _Runaway:
    owner: OwnerReference
    times: deque[float] = field(default_factory=deque)
    until: float = 0.0


class RejectionGuard(PreEnqueue, Filter, VectorFilter):
    """See the module."""

    name = "RejectionGuard"

    def __init__(self) -> None:
        self._now = 0.0
        self._bans: dict[PodKey, dict[str, _Ban]] = {}
        self._owners: dict[str, _Runaway] = {}

    @classmethod
    def make(cls, args: Mapping[str, object], handle: Handle) -> RejectionGuard:
        """Make the plugin; all profiles share one."""
        return cls.shared(handle.services)

    @classmethod
    def shared(cls, services: Services) -> RejectionGuard:
        """Return the one that all profiles share."""
        return services.shared(_SHARED, cls)

    @property
    def runaways(self) -> int:
        """How many workloads are held back."""
        return sum(owner.until > self._now for owner in self._owners.values())

    def rejected(
        self, pod: PodInfo, now: float, *, report: NodeTopology | None = None
    ) -> OwnerReference | None:
        """Remember a rejection; return the owner if its pods are held back from now on.

        Args:
            pod: the pod that was rejected.
            now: the time.
            report: what is known of its node.
        """
        self._now = max(now, self._now)
        ban = self._bans.setdefault(scheduling_key(pod), {}).setdefault(pod.node_name, _Ban())
        ban.times, ban.report = ban.times + 1, report
        ban.until = now + _doubled(NODE_SECONDS, ban.times, LONGEST_NODE_SECONDS)
        owner = pod.pod.metadata.controller
        return None if owner is None else self._count(owner, now)

    def advance(self, now: float) -> bool:
        """Let time pass; tell whether anybody is no longer kept away or held back."""
        before, self._now = self._now, now
        freed = any(before < owner.until <= now for owner in self._owners.values())
        for shape, bans in list(self._bans.items()):
            freed = freed or any(before < ban.until <= now for ban in bans.values())
            kept = {node: ban for node, ban in bans.items() if ban.until + WINDOW_SECONDS > now}
            if kept:
                self._bans[shape] = kept
            else:
                del self._bans[shape]
        for uid, runaway in list(self._owners.items()):
            if runaway.times[-1] + WINDOW_SECONDS < now:
                del self._owners[uid]
        return freed

    def next_change(self) -> float | None:
        """Return when `advance` next frees a workload."""
        times = [owner.until for owner in self._owners.values() if owner.until > self._now]
        times += [
            ban.until for bans in self._bans.values() for ban in bans.values()
            if ban.until > self._now
        ]  # fmt: skip
        return min(times, default=None)

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Hold back the pods of a runaway workload."""
        owner = pod.pod.metadata.controller
        runaway = self._owners.get(owner.uid) if owner else None
        if owner is None or runaway is None or runaway.until <= self._now:
            return SUCCESS
        text = f"kubelets rejected {len(runaway.times)} pods of {owner.kind} {owner.name} lately"
        return Status(Code.PENDING, (text,))

    def filter(self, state: CycleState, pod: PodInfo, node: NodeInfo) -> Status:
        """Refuse a node that has rejected a pod like this."""
        ban = self._bans.get(scheduling_key(pod), {}).get(node.name) if self._bans else None
        banned = ban is not None and ban.keeps_away_from(node, self._now)
        return _REFUSAL if banned else SUCCESS

    def filter_all(
        self, state: CycleState, pod: PodInfo, snapshot: Snapshot, rows: Rows
    ) -> Verdicts | None:
        """Refuse all such nodes."""
        bans = self._bans.get(scheduling_key(pod)) if self._bans else None
        if not bans:
            return None
        banned = [
            snapshot.row_of[name]
            for name, ban in bans.items()
            if (node := snapshot.node(name)) is not None and ban.keeps_away_from(node, self._now)
        ]
        return Verdicts.where(~np.isin(rows, banned), _REFUSAL) if banned else None

    def _count(self, owner: OwnerReference, now: float) -> OwnerReference | None:
        runaway = self._owners.setdefault(owner.uid, _Runaway(owner))
        runaway.times.append(now)
        while runaway.times[0] < now - WINDOW_SECONDS:
            runaway.times.popleft()
        beyond = len(runaway.times) - OWNER_LIMIT
        if beyond < 0:
            return None
        runaway.until = now + _doubled(OWNER_SECONDS, beyond + 1, LONGEST_OWNER_SECONDS)
        return owner if beyond == 0 else None


def _doubled(first: float, times: int, longest: float) -> float:
    return float(min(first * 2.0 ** min(times - 1, 32), longest))


_SHARED: Final = Service[RejectionGuard](RejectionGuard.name)
