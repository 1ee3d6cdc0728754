"""What was ever seen of the pods of a world."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from tests.worlds.stock import STOCK

from numakube.api.pod import Pod
from numakube.api.scheduler_config import SCHEDULER_NAME
from numakube.kube.clock import Clock
from numakube.kube.store import Change, Removed
from numakube.scheduling.plugins.pod_gangs import gang_key
from numakube.scheduling.snapshot.pods import PodInfo

OURS: Final = (SCHEDULER_NAME, STOCK)
"""Schedulers that look at zones: our own, and a stock one that asks our extender."""


@dataclass(slots=True)
class Seen:
    """Everything that was ever seen of pods, by uid.

    Attributes:
        pods: those that there are.
        ever: all that there ever were, with the scheduler that each is for.
        gangs: the gang of each that is in one.
        bound_at: when each pod was first seen on a node.
        nodes: the nodes that each pod was seen on.
        rejected: pods whose zones we look at and that kubelets rejected, as they were then.
        changes: how many changes there were.
    """

    clock: Clock
    pods: dict[str, Pod] = field(default_factory=dict)
    ever: dict[str, str] = field(default_factory=dict)
    gangs: dict[str, object] = field(default_factory=dict)
    bound_at: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, set[str]] = field(default_factory=dict)
    rejected: dict[str, Pod] = field(default_factory=dict)
    changes: int = 0

    def note(self, change: Change[Pod]) -> None:
        """Write down a change."""
        pod = change.object
        uid, status = pod.metadata.uid, pod.status
        self.changes += 1
        if isinstance(change, Removed):
            self.pods.pop(uid, None)
            return
        self.pods[uid] = pod
        if uid not in self.ever and (gang := gang_key(PodInfo(pod))) is not None:
            self.gangs[uid] = gang
        self.ever[uid] = pod.spec.scheduler_name
        if pod.spec.node_name:
            self.nodes.setdefault(uid, set()).add(pod.spec.node_name)
            self.bound_at.setdefault(uid, self.clock.monotonic())
        ours = pod.spec.scheduler_name in OURS
        if ours and status is not None and status.phase == "Failed" and status.reason:
            self.rejected.setdefault(uid, pod)
