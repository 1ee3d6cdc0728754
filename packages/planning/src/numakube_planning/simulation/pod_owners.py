"""What makes pods, and makes them again: ReplicaSets, Jobs, and pods that nobody owns.

Follows kube-controller-manager 1.35: a ReplicaSet replaces a failed or deleted pod at once and
never gives up; a Job counts it as a failure, pauses for 10 s, doubling up to 10 min since its last
failure, and fails as a whole beyond its ``backoffLimit``. A pod without an owner is not replaced.
Real ReplicaSets go on for ever where a scheduler keeps choosing a node that rejects the pod, so a
simulation stops replacing a pod after a number of rejections that the caller gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from numakube.api.meta import OwnerReference
from numakube.api.pod import PodStatus
from numakube.scheduling.plugins.pod_gangs import MIN_LABEL, NAME_LABEL
from numakube.scheduling.snapshot.pod_equivalence import PodInfos
from numakube_planning.simulation.workload import Arrival, OwnerKind

if TYPE_CHECKING:
    from numakube.api.pod import Pod
    from numakube.scheduling.snapshot.pods import PodInfo
    from numakube_planning.simulation.simulated_cluster import RunningPod

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 600.0
_PENDING: Final = PodStatus(phase="Pending")
_REPLACED_BY: Final = {
    "ReplicaSet": OwnerKind.REPLICA_SET,
    "ReplicationController": OwnerKind.REPLICA_SET,
    "StatefulSet": OwnerKind.REPLICA_SET,
    "Job": OwnerKind.JOB,
}
"""How the pods of a controller are replaced; those of others are not, for want of another node."""
_API_VERSIONS: Final = {OwnerKind.REPLICA_SET: "apps/v1", OwnerKind.JOB: "batch/v1"}


@dataclass(slots=True, eq=False)
class Replica:
    """One pod that is wanted, through all its replacements.

    Attributes:
        number: among the pods of its owner.
        made: how many pods were made for it.
        pod: the present one; ``None`` if there is none.
        rejections: how often it was rejected since it last ran; ``rejected_for`` says why.
        ran: whether it ever ran.
        done: whether no more pods are made for it: it has ended, or was given up.
        first_was_rejected: what became of its first binding; ``None`` before that.
    """

    owner: Owner
    number: int
    arrived_at: float
    made: int = 0
    pod: PodInfo | None = None
    running: bool = False
    rejections: int = 0
    rejected_for: str = ""
    ran: bool = False
    done: bool = False
    first_was_rejected: bool | None = None

    @property
    def name(self) -> str:
        """The name of its first pod."""
        owner = self.owner
        alone = owner.arrival.owner is OwnerKind.POD and owner.arrival.copies == 1
        return owner.name if alone else f"{owner.name}-{self.number}"


@dataclass(slots=True, eq=False)
class Owner:
    """One arrival at work.

    Attributes:
        failures: of a Job, all of them; ``recent`` ones since a pod of it succeeded.
        paused_until: of a Job, when it makes the next pod.
        failed: whether a Job has given up.
    """

    arrival: Arrival
    name: str
    template: PodInfo
    replicas: list[Replica] = field(default_factory=list)
    failures: int = 0
    recent: int = 0
    paused_until: float = 0.0
    failed: bool = False

    @property
    def all_run(self) -> bool:
        """Whether every pod that is not done runs."""
        return all(replica.running or replica.done for replica in self.replicas)

    def next_pod(self, replica: Replica) -> PodInfo:
        """Make the next pod for *replica*."""
        name = f"{replica.name}-{replica.made}" if replica.made else replica.name
        replica.made += 1
        pod = self.template.pod
        metadata = replace(pod.metadata, name=name, uid=f"{pod.metadata.namespace}/{name}")
        replica.pod = self.template.sibling(replace(pod, metadata=metadata))
        return replica.pod

    def after_failure(self, replica: Replica, now: float, most_rejections: int) -> float | None:
        """Take note that a pod failed or was deleted.

        Returns:
            In how many seconds to look which pods are to be made (`due`); ``None`` for never.
        """
        if self.arrival.owner is OwnerKind.JOB:
            self._note_failure(now)
            return None if self.failed else self.paused_until - now
        if self.arrival.owner is OwnerKind.POD or replica.rejections >= most_rejections:
            replica.done = True
            return None
        return 0.0

    def due(self, replica: Replica, now: float) -> list[Replica]:
        """Return what to make pods for after the failure of *replica* and the pause.

        A Job makes all that are missing, unless another failure has made it pause again.
        """
        if self.arrival.owner is not OwnerKind.JOB:
            return [replica]
        if self.failed or now < self.paused_until:
            return []
        return [other for other in self.replicas if other.pod is None and not other.done]

    def _note_failure(self, now: float) -> None:
        self.failures += 1
        self.recent += 1
        pause = min(FIRST_PAUSE * 2.0 ** min(self.recent - 1, 32), LONGEST_PAUSE)
        self.paused_until = now + pause
        self.failed = self.failures > self.arrival.backoff_limit


class Owners:
    """Makes owners, whose pods are for a given *scheduler*."""

    def __init__(self, scheduler: str) -> None:
        self._scheduler = scheduler
        self._made = 0
        self._infos = PodInfos()

    def of(self, arrival: Arrival, now: float) -> Owner:
        """Return the owner of the pods of the next *arrival*."""
        self._made += 1
        meta = arrival.pod.metadata
        base = meta.name or meta.generate_name.rstrip("-") or "pod"
        is_bare = arrival.owner is OwnerKind.POD
        name = base if is_bare and meta.name else f"{base}-{self._made}"
        owners = meta.owner_references if is_bare else (self._reference(arrival.owner, name),)
        labels = meta.labels
        if arrival.gang:
            labels = {**labels, NAME_LABEL: name, MIN_LABEL: str(arrival.gang)}
        namespace = meta.namespace or "default"
        metadata = replace(meta, namespace=namespace, owner_references=owners, labels=labels)
        return self._owner(arrival, name, replace(arrival.pod, metadata=metadata), now)

    def of_running(self, one: RunningPod) -> Owner:
        """Return what replaces a pod that runs from the beginning, if it has to go."""
        kind = kind_of_owner(one.pod)
        arrival = Arrival(at=0.0, pod=one.pod, owner=kind, seconds=one.seconds)
        owner = self._owner(arrival, one.pod.metadata.name, one.pod, 0.0)
        owner.replicas[0].made = 1
        return owner

    def _reference(self, kind: OwnerKind, name: str) -> OwnerReference:
        return OwnerReference(
            api_version=_API_VERSIONS[kind],
            kind=kind.value,
            name=name,
            uid=f"owner-{self._made}",
            controller=True,
        )

    def _owner(self, arrival: Arrival, name: str, pod: Pod, now: float) -> Owner:
        spec = replace(pod.spec, scheduler_name=self._scheduler, node_name="")
        template = self._infos.of(replace(pod, spec=spec, status=_PENDING))
        owner = Owner(arrival, name, template)
        owner.replicas = [Replica(owner, index, now) for index in range(arrival.copies)]
        return owner


def kind_of_owner(pod: Pod) -> OwnerKind:
    """Return what replaces *pod*, by the controller that it names."""
    controller = pod.metadata.controller
    return _REPLACED_BY.get(controller.kind if controller is not None else "", OwnerKind.POD)
