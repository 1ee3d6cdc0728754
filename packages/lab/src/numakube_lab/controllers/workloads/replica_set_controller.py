"""ReplicaSets: as many pods as wanted, no more and no less.

Follows kube-controller-manager 1.35: finished pods do not count and are replaced; at most 500 pods
are created or deleted at a time; `downscaling` says which pods go first.

Which pods to delete first when there are too many. The order is the ReplicaSet controller's: pods
that lose least come first. Ages are compared by their order of magnitude and then by uid, so that
scaling down and up again does not always hit the same, youngest pods.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from functools import cmp_to_key
from typing import TYPE_CHECKING, ClassVar, Final, TypeVar

import msgspec

from numakube.api.selectors import selects
from numakube.kube import key_of, reference_to
from numakube.kube.catalog import PODS
from numakube_lab.controllers.common.controller_loop import (
    NOTHING,
    Action,
    Create,
    Delete,
    LabController,
    ObjectPlan,
    soonest,
    status_change,
)
from numakube_lab.controllers.common.pod_states import (
    claim,
    is_active,
    is_ready,
    most_restarts,
    owner_document,
    owner_key,
    owner_reference,
    phase_of,
    ready_since,
    seconds_to_available,
    time_of,
)
from numakube_lab.controllers.object_types import REPLICA_SETS, ReplicaSet, ReplicaSetStatus
from numakube_lab.controllers.workloads.template_revisions import pod_from_template

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from numakube.api.pod import Pod
    from numakube.kube import EventRecorder, ObjectKey
    from numakube_lab.controllers.common.controller_loop import MirroredCluster


T = TypeVar("T", int, str)

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def choose_victims(
    pods: Sequence[Pod], count: int, *, related: Iterable[Pod], now: datetime
) -> tuple[Pod, ...]:
    """Return the *count* of *pods* to delete.

    Args:
        pods: active pods.
        count: how many have to go.
        related: the pods of the same deployment; of pods that share a node one is to go first.
        now: the present.
    """
    if count >= len(pods):
        return tuple(pods)
    neighbours = Counter(pod.spec.node_name for pod in related if is_active(pod))
    ranked = [_Candidate.of(pod, neighbours[pod.spec.node_name]) for pod in pods]
    ranked.sort(key=cmp_to_key(lambda one, other: _compare(one, other, now)))
    return tuple(candidate.pod for candidate in ranked[:count])


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A pod and what decides about it: first `standing`, lower goes first, then the rest."""

    pod: Pod
    standing: tuple[bool, int, bool, int, int]
    ready: datetime | None
    restarts: tuple[int, int]
    created: datetime | None

    @classmethod
    def of(cls, pod: Pod, neighbours: int) -> _Candidate:
        standing = (
            bool(pod.spec.node_name),
            _PHASES.get(phase_of(pod), 0),
            is_ready(pod),
            deletion_cost(pod),
            -neighbours,
        )
        created = time_of(pod.metadata.creation_timestamp)
        return cls(pod, standing, ready_since(pod), most_restarts(pod), created)


def deletion_cost(pod: Pod) -> int:
    """Return what the pod's annotation says it costs to delete it; 0 if it says nothing sane."""
    text = pod.metadata.annotations.get(DELETION_COST, "0")
    digits = text.removeprefix("-")
    return int(text) if digits.isascii() and digits.isdecimal() else 0


def _compare(one: _Candidate, other: _Candidate, now: datetime) -> int:
    if one.standing != other.standing:
        return -1 if one.standing < other.standing else 1
    both_ready = one.standing[2]
    if both_ready and one.ready != other.ready:
        return _compare_ages(one, other, one.ready, other.ready, now)
    if one.restarts != other.restarts:
        return -1 if one.restarts > other.restarts else 1
    if one.created != other.created:
        return _compare_ages(one, other, one.created, other.created, now)
    return 0


def _compare_ages(
    one: _Candidate, other: _Candidate, began: datetime | None, other_began: datetime | None,
    now: datetime,
) -> int:  # fmt: skip
    """Compare by how long ago two moments were; an unknown one is the latest."""
    if began is None or other_began is None:
        return -1 if began is None else 1
    difference = _magnitude(began, now) - _magnitude(other_began, now)
    if difference == 0:
        return -1 if one.pod.metadata.uid < other.pod.metadata.uid else 1
    return difference


def _magnitude(moment: datetime, now: datetime) -> int:
    """Return the binary order of magnitude of a past moment's age in nanoseconds."""
    age = (now - moment).total_seconds() * 1e9
    return int(math.log2(age)) if age > 0 else -1


BURST: Final = 500
"""How many pods are created or deleted before looking again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedReplicaSet:
    """A replica set and its surroundings.

    Attributes:
        pods: the pods that name it as their controller.
        orphans: pods of its namespace without a controller.
        siblings: the pods of all replica sets of its deployment.
    """

    replica_set: ReplicaSet
    pods: Sequence[Pod]
    orphans: Sequence[Pod] = ()
    siblings: Sequence[Pod] = ()
    now: datetime


def reconcile(seen: ObservedReplicaSet) -> ObjectPlan:
    """Decide what to do about a replica set."""
    rs = seen.replica_set
    going = rs.metadata.deletion_timestamp is not None
    claimed = claim(
        PODS,
        owner=owner_reference(REPLICA_SETS, rs),
        selector=rs.spec.selector,
        managed=[pod for pod in seen.pods if is_active(pod)],
        orphans=[pod for pod in seen.orphans if is_active(pod)],
        owner_is_going=going,
    )
    active = claimed.objects
    scaling = () if going else _scaling(seen, active)
    status, wait = _status(rs, active, seen.now)
    version = rs.metadata.resource_version
    reported = status_change(REPLICA_SETS, key_of(rs), version, rs.status, status)
    return ObjectPlan((*claimed.changes, *scaling, *reported), wait)


def _scaling(seen: ObservedReplicaSet, active: Sequence[Pod]) -> tuple[Action, ...]:
    """Return what brings the number of pods nearer to the wanted one."""
    rs = seen.replica_set
    told = reference_to(REPLICA_SETS, rs)
    missing = rs.spec.replicas - len(active)
    if missing >= 0:
        pod = pod_from_template(
            rs.spec.template,
            namespace=rs.metadata.namespace,
            owner=owner_document(REPLICA_SETS, rs),
            generate_name=f"{rs.metadata.name}-",
        )
        creation = Create(resource=PODS, document=pod, told=told)
        return (creation,) * min(missing, BURST)
    victims = choose_victims(
        active, min(-missing, BURST), related=seen.siblings or active, now=seen.now
    )
    return tuple(
        Delete(resource=PODS, key=key_of(pod), uid=pod.metadata.uid, told=told) for pod in victims
    )


def _status(
    rs: ReplicaSet, active: Sequence[Pod], now: datetime
) -> tuple[ReplicaSetStatus, float | None]:
    """Return the status that *active* pods make, and when it may change by itself."""
    labels = (rs.spec.template.get("metadata") or {}).get("labels") or {}
    waits = [seconds_to_available(pod, rs.spec.min_ready_seconds, now) for pod in active]
    status = msgspec.structs.replace(
        rs.status,
        replicas=len(active),
        fully_labeled_replicas=sum(labels.items() <= pod.metadata.labels.items() for pod in active),
        ready_replicas=sum(map(is_ready, active)),
        available_replicas=waits.count(0.0),
        observed_generation=max(rs.metadata.generation, rs.status.observed_generation),
    )
    return status, soonest(wait for wait in waits if wait)


class ReplicaSets(LabController):
    """Looks after all replica sets."""

    name: ClassVar[str] = "replicaset-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._sets = cluster.mirror(REPLICA_SETS)
        self._pods = cluster.mirror(PODS)

    def watch(self) -> None:
        """Look again when a replica set or a pod of it changes."""
        self.follow(self._sets)
        self.follow(self._pods, self._concerned)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide what to do about one replica set."""
        rs = self._sets.get(key)
        if rs is None:
            return NOTHING
        seen = ObservedReplicaSet(
            replica_set=rs,
            pods=self._pods.managed_by(rs.metadata.uid),
            orphans=self._pods.orphans_in(key.namespace),
            now=self.clock.now(),
        )
        if len(seen.pods) > rs.spec.replicas:
            seen = replace(seen, siblings=self._siblings(rs))
        return reconcile(seen)

    def _siblings(self, rs: ReplicaSet) -> tuple[Pod, ...]:
        """Return the pods of all replica sets of the same deployment."""
        controller = rs.metadata.controller
        family = self._sets.managed_by(controller.uid) if controller else (rs,)
        return tuple(
            pod for replica_set in family for pod in self._pods.managed_by(replica_set.metadata.uid)
        )

    def _concerned(self, pod: Pod) -> Iterable[ObjectKey]:
        metadata = pod.metadata
        if metadata.controller is not None:
            return owner_key(pod, "ReplicaSet")
        return [
            key_of(rs)
            for rs in self._sets.in_namespace(metadata.namespace)
            if metadata.labels and selects(rs.spec.selector, metadata.labels)
        ]
