"""Groups of pods that run together or not at all, as three APIs describe them.

Kubernetes 1.37 has PodGroup in ``scheduling.k8s.io/v1beta1``; coscheduling
(``scheduling.x-k8s.io``) and Volcano (``scheduling.volcano.sh``) each have their own, with
``minMember``.
"""

from __future__ import annotations

from typing import Any, Final

from numakube.api.codec import Timestamp, Wire
from numakube.api.meta import ObjectMeta

INITIALLY_SCHEDULED: Final = "PodGroupInitiallyScheduled"
"""The condition of a group whose members have, or had, their places."""


class GangPolicy(Wire, frozen=True):
    """Pods are scheduled together: at least ``minCount`` at a time."""

    min_count: int = 1


class SchedulingPolicy(Wire, frozen=True):
    """How a group is scheduled; without ``gang`` each pod is for itself."""

    gang: GangPolicy | None = None


class TopologyConstraint(Wire, frozen=True):
    """All pods run on nodes with one value of a label."""

    key: str = ""


class SchedulingConstraints(Wire, frozen=True):
    """Where a group may run."""

    topology: tuple[TopologyConstraint, ...] = ()


class DisruptionMode(Wire, frozen=True):
    """Whether pods of the group may be evicted one by one, or all of them at once."""

    all: dict[str, Any] | None = None


class PodGroupSpec(Wire, frozen=True):
    """What Kubernetes' own group asks for."""

    scheduling_policy: SchedulingPolicy = SchedulingPolicy()
    scheduling_constraints: SchedulingConstraints | None = None
    disruption_mode: DisruptionMode | None = None
    priority: int | None = None
    preemption_policy: str | None = None


class PodGroupCondition(Wire, frozen=True):
    """One aspect of a group's state."""

    type: str
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: Timestamp | None = None


class PodGroupStatus(Wire, frozen=True):
    """What became of a group."""

    conditions: tuple[PodGroupCondition, ...] = ()


class PodGroup(Wire, frozen=True):
    """A group of ``scheduling.k8s.io``."""

    metadata: ObjectMeta = ObjectMeta()
    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    def condition(self, kind: str) -> PodGroupCondition | None:
        """Return the condition of one type."""
        return next(
            (condition for condition in self.status.conditions if condition.type == kind), None
        )


class NetworkTopology(Wire, frozen=True):
    """Volcano: in which tier of HyperNodes all pods are to be, or should be."""

    mode: str = "hard"
    highest_tier_allowed: int | None = None
    highest_tier_name: str = ""


class MemberGroupSpec(Wire, frozen=True):
    """What a group of coscheduling or Volcano asks for."""

    min_member: int = 1
    schedule_timeout_seconds: int | None = None
    network_topology: NetworkTopology | None = None


class MemberGroup(Wire, frozen=True):
    """A PodGroup of coscheduling or Volcano."""

    metadata: ObjectMeta = ObjectMeta()
    spec: MemberGroupSpec = MemberGroupSpec()
