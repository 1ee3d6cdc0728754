"""Deployments: replica sets that follow each other without a gap in service.

Follows kube-controller-manager 1.35 step by step, because users see the steps: one change of size
at a time, the new replica set first. A change of the deployment's size in mid-rollout is spread
over the replica sets before the rollout goes on.

What a deployment reports of itself: counts, and whether it is available and progresses. ``kubectl
rollout status`` and ``kubectl wait`` read nothing but this.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from numakube.api.meta import LabelSelector
from numakube.api.pod import has_ended
from numakube.api.selectors import selects
from numakube.kube import ObjectKey, key_of
from numakube.kube.catalog import PODS
from numakube.values.times import format_time
from numakube_lab.controllers.common.controller_loop import (
    NOTHING,
    Action,
    Delete,
    LabController,
    ObjectPlan,
    PlannedChange,
    status_change,
)
from numakube_lab.controllers.common.pod_states import claim, owner_key, owner_reference, time_of
from numakube_lab.controllers.object_types import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Condition,
    Deployment,
    DeploymentStatus,
    ReplicaSet,
    RollingUpdate,
)
from numakube_lab.controllers.workloads import deployment_sets
from numakube_lab.controllers.workloads import deployment_sets as sets
from numakube_lab.controllers.workloads.deployment_sets import Limits, Size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numakube.api.pod import Pod
    from numakube.kube import EventRecorder
    from numakube_lab.controllers.common.controller_loop import MirroredCluster


AVAILABLE: Final = "Available"
PROGRESSING: Final = "Progressing"
NEW_SET_AVAILABLE: Final = "NewReplicaSetAvailable"
TIMED_OUT: Final = "ProgressDeadlineExceeded"
NO_DEADLINE: Final = 2**31 - 1
"""The value of ``progressDeadlineSeconds`` that means none."""


def counted(
    deployment: Deployment,
    new: ReplicaSet | None,
    sets: Sequence[ReplicaSet],
    *,
    least_available: int,
    now: datetime,
) -> DeploymentStatus:
    """Return the status with the counts of *sets* and what follows from them at once."""
    available = sum(replica_set.status.available_replicas for replica_set in sets)
    total = sum(replica_set.status.replicas for replica_set in sets)
    enough = available >= least_available
    conditions = with_condition(
        deployment.status.conditions,
        AVAILABLE,
        "True" if enough else "False",
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"Deployment {'has' if enough else 'does not have'} minimum availability.",
        now=now,
    )
    return msgspec.structs.replace(
        deployment.status,
        observed_generation=deployment.metadata.generation,
        replicas=total,
        updated_replicas=new.status.replicas if new else 0,
        ready_replicas=sum(replica_set.status.ready_replicas for replica_set in sets),
        available_replicas=available,
        unavailable_replicas=max(0, total - available),
        conditions=conditions,
    )


def progressed(
    deployment: Deployment, new: ReplicaSet | None, status: DeploymentStatus, now: datetime
) -> tuple[DeploymentStatus, float | None]:
    """Return *status* with the progress it shows, and when to look whether there was none."""
    if not has_deadline(deployment):
        return _with(status, without_condition(status.conditions, PROGRESSING)), None
    current = find_condition(status.conditions, PROGRESSING)
    settled = status.replicas == status.updated_replicas
    if settled and current is not None and current.reason == NEW_SET_AVAILABLE:
        return status, None
    what = (
        f'ReplicaSet "{new.metadata.name}"'
        if new is not None
        else f'Deployment "{deployment.metadata.name}"'
    )
    conditions = status.conditions
    if is_complete(deployment, status):
        conditions = with_condition(
            conditions, PROGRESSING, "True", NEW_SET_AVAILABLE,
            f"{what} has successfully progressed.", now=now,
        )  # fmt: skip
    elif _is_better(deployment.status, status):
        conditions = with_condition(
            conditions, PROGRESSING, "True", "ReplicaSetUpdated", f"{what} is progressing.",
            now=now, renew=True,
        )  # fmt: skip
    elif is_late(deployment, conditions, now):
        conditions = with_condition(
            conditions, PROGRESSING, "False", TIMED_OUT, f"{what} has timed out progressing.",
            now=now,
        )  # fmt: skip
    status = _with(status, conditions)
    return status, _patience(deployment, status, now)


def announced(
    deployment: Deployment, conditions: Conditions, reason: str, message: str, now: datetime
) -> Conditions:
    """Return *conditions* with the news that a new replica set was found or made."""
    if not has_deadline(deployment):
        return conditions
    if reason == "FoundNewReplicaSet" and find_condition(conditions, PROGRESSING):
        return conditions
    return with_condition(conditions, PROGRESSING, "True", reason, message, now=now, renew=True)


def paused_or_resumed(deployment: Deployment, now: datetime) -> Conditions | None:
    """Return the conditions that tell of a pause that began or ended; None if neither did."""
    conditions = deployment.status.conditions
    current = find_condition(conditions, PROGRESSING)
    if not has_deadline(deployment) or (current and current.reason == TIMED_OUT):
        return None
    was_paused = current is not None and current.reason == "DeploymentPaused"
    if deployment.spec.paused == was_paused:
        return None
    word = "paused" if deployment.spec.paused else "resumed"
    return with_condition(
        conditions, PROGRESSING, "Unknown", f"Deployment{word.capitalize()}",
        f"Deployment is {word}", now=now,
    )  # fmt: skip


def has_deadline(deployment: Deployment) -> bool:
    """Tell whether the deployment has to progress within some time."""
    return deployment.spec.progress_deadline_seconds not in (None, NO_DEADLINE)


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Tell whether all pods are new and available."""
    wanted = deployment.spec.replicas
    return (
        status.updated_replicas == status.replicas == status.available_replicas == wanted
        and status.observed_generation >= deployment.metadata.generation
    )


def is_late(deployment: Deployment, conditions: Conditions, now: datetime) -> bool:
    """Tell whether there was no progress for too long."""
    current = find_condition(conditions, PROGRESSING)
    if current is None or current.reason == NEW_SET_AVAILABLE:
        return False
    if current.reason == TIMED_OUT:
        return True
    since = time_of(current.last_update_time)
    deadline = timedelta(seconds=deployment.spec.progress_deadline_seconds or 0)
    return since is not None and since + deadline <= now


def _patience(deployment: Deployment, status: DeploymentStatus, now: datetime) -> float | None:
    """Return in how many seconds a lack of progress is worth a report."""
    current = find_condition(status.conditions, PROGRESSING)
    if current is None or current.reason in (NEW_SET_AVAILABLE, TIMED_OUT):
        return None
    if is_complete(deployment, status):
        return None
    since = time_of(current.last_update_time) or now
    deadline = timedelta(seconds=deployment.spec.progress_deadline_seconds or 0)
    return max(1.0, (since + deadline - now).total_seconds())


def _is_better(old: DeploymentStatus, new: DeploymentStatus) -> bool:
    """Tell whether the rollout got nearer to its end."""
    return (
        new.updated_replicas > old.updated_replicas
        or new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        or new.ready_replicas > old.ready_replicas
        or new.available_replicas > old.available_replicas
    )


def _with(status: DeploymentStatus, conditions: Conditions) -> DeploymentStatus:
    return msgspec.structs.replace(status, conditions=conditions)


Conditions = tuple[Condition, ...]


def find_condition(conditions: Iterable[Condition], kind: str) -> Condition | None:
    """Return the condition of this type."""
    return next((condition for condition in conditions if condition.type == kind), None)


def without_condition(conditions: Conditions, kind: str) -> Conditions:
    """Return the conditions less the one of this type."""
    return tuple(condition for condition in conditions if condition.type != kind)


def with_condition(
    conditions: Conditions,
    kind: str,
    status: str,
    reason: str,
    message: str,
    *,
    now: datetime,
    renew: bool = False,
) -> Conditions:
    """Return *conditions* with one set.

    A condition that says the same as before stays as it is, unless it is to be renewed: its update
    time then tells that it was found true again.
    """
    current = find_condition(conditions, kind)
    if current and (current.status, current.reason) == (status, reason) and not renew:
        return conditions
    moment = format_time(now)
    since = current.last_transition_time if current and current.status == status else moment
    new = Condition(
        type=kind,
        status=status,
        reason=reason,
        message=message,
        last_update_time=moment,
        last_transition_time=since,
    )
    return (*without_condition(conditions, kind), new)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedDeployment:
    """A deployment and its surroundings.

    Attributes:
        sets: the replica sets that name it as their controller.
        orphans: replica sets of its namespace without a controller.
        taken: the names of the replica sets of its namespace that are others'.
        pods: for the strategy ``Recreate``: the pods of its replica sets.
    """

    deployment: Deployment
    sets: Sequence[ReplicaSet] = ()
    orphans: Sequence[ReplicaSet] = ()
    taken: frozenset[str] = frozenset()
    pods: Sequence[Pod] = ()
    now: datetime


def reconcile(seen: ObservedDeployment) -> ObjectPlan:
    """Decide what to do about a deployment."""
    deployment = seen.deployment
    if deployment.spec.selector == LabelSelector():
        return NOTHING
    claimed = claim(
        REPLICA_SETS,
        owner=owner_reference(DEPLOYMENTS, deployment),
        selector=deployment.spec.selector,
        managed=seen.sets,
        orphans=seen.orphans,
        owner_is_going=deployment.metadata.deletion_timestamp is not None,
    )
    if claimed.changes:
        return ObjectPlan(claimed.changes)
    rollout = _Rollout(seen, claimed.objects)
    if deployment.metadata.deletion_timestamp is not None:
        return rollout.report(counting_only=True)
    conditions = paused_or_resumed(deployment, seen.now)
    if conditions is not None:
        status = msgspec.structs.replace(deployment.status, conditions=conditions)
        return ObjectPlan(rollout.status_change(status))
    if deployment.spec.paused or rollout.was_resized():
        return rollout.resize()
    if deployment.spec.strategy.type == "Recreate":
        return rollout.recreate()
    return rollout.roll()


class _Rollout:
    """One look at a deployment: its replica sets, told apart, and the steps that may follow."""

    def __init__(self, seen: ObservedDeployment, owned: Sequence[ReplicaSet]) -> None:
        self._seen = seen
        self._deployment = seen.deployment
        self._all = sets.oldest_first(owned)
        self._new = sets.find_new(seen.deployment, self._all)
        self._old = [replica_set for replica_set in self._all if replica_set is not self._new]
        self._limits = limits_of(seen.deployment)

    # The three courses.

    def roll(self) -> ObjectPlan:
        """Go on with a rolling update."""
        if self._new is None:
            return self._create(
                deployment_sets.new_size(
                    0, sum(replica_set.spec.replicas for replica_set in self._all), self._limits
                )
            )
        if updates := self._updates(self._new):
            return ObjectPlan(updates)
        total = sum(replica_set.spec.replicas for replica_set in self._all)
        wanted = deployment_sets.new_size(self._new.spec.replicas, total, self._limits)
        if wanted != self._new.spec.replicas:
            return self._then_report(self._resized({self._new.metadata.name: wanted}))
        active = [_size(replica_set) for replica_set in self._old if replica_set.spec.replicas > 0]
        smaller = deployment_sets.shrink_old(active, _size(self._new), self._limits)
        return self._then_report(self._resized(smaller))

    def recreate(self) -> ObjectPlan:
        """Go on with an update that first ends all old pods."""
        if self._new is not None and (updates := self._updates(self._new)):
            return ObjectPlan(updates)
        ending = {
            replica_set.metadata.name: 0
            for replica_set in self._old
            if replica_set.spec.replicas > 0
        }
        if ending:
            return self._then_report(self._resized(ending))
        if self._old_pods_run():
            return self.report()
        if self._new is None:
            return self._create(self._limits.replicas)
        wanted = self._limits.replicas
        return self._then_report(self._resized({self._new.metadata.name: wanted}))

    def resize(self) -> ObjectPlan:
        """Bring the replica sets to the deployment's size without going on with any update."""
        if self._new is not None and (updates := self._updates(self._new)):
            return ObjectPlan(updates)
        return self._then_report(self._resized(self._resizing()), counting_only=True)

    def was_resized(self) -> bool:
        """Tell whether the deployment's size has changed since its replica sets were scaled."""
        for replica_set in self._all:
            desired = sets.number_in(replica_set.metadata.annotations, sets.DESIRED_REPLICAS)
            if replica_set.spec.replicas > 0 and desired not in (
                None,
                self._deployment.spec.replicas,
            ):
                return True
        return False

    # What they consist of.

    def _create(self, replicas: int) -> ObjectPlan:
        """Create the new replica set, under a name that is free."""
        deployment, now = self._deployment, self._seen.now
        name = sets.set_name(deployment)
        status = deployment.status
        if name in self._seen.taken or any(
            replica_set.metadata.name == name for replica_set in self._all
        ):
            collisions = (status.collision_count or 0) + 1
            return ObjectPlan(
                self.status_change(msgspec.structs.replace(status, collision_count=collisions))
            )
        made = sets.creation(deployment, self._old, replicas=replicas, most=self._limits.most)
        conditions = announced(
            deployment,
            status.conditions,
            "NewReplicaSetCreated",
            f'Created new replica set "{name}"',
            now,
        )
        return ObjectPlan((*made, *self._told(conditions)))

    def _updates(self, new: ReplicaSet) -> tuple[Action, ...]:
        """Bring what the new replica set and its deployment say of each other up to date."""
        changes = sets.updated(self._deployment, new, self._old)
        if changes:
            return changes
        revision = new.metadata.annotations.get(sets.REVISION, "")
        if self._deployment.metadata.annotations.get(sets.REVISION) != revision:
            annotations = {sets.REVISION: revision}
            patch = {"metadata": {"annotations": annotations}}
            return (PlannedChange(resource=DEPLOYMENTS, key=key_of(self._deployment), patch=patch),)
        name = new.metadata.name
        conditions = announced(
            self._deployment,
            self._deployment.status.conditions,
            "FoundNewReplicaSet",
            f'Found new replica set "{name}"',
            self._seen.now,
        )
        return self._told(conditions)

    def _resizing(self) -> dict[str, int]:
        """Return the sizes that follow from the deployment's, with the rollout standing still."""
        wanted, new = self._limits.replicas, self._new
        active = [replica_set for replica_set in self._all if replica_set.spec.replicas > 0]
        if len(active) <= 1:
            latest = active[0] if active else new or (self._old[-1] if self._old else None)
            return {} if latest is None else {latest.metadata.name: wanted}
        if new is not None and _is_saturated(new, wanted):
            return {
                replica_set.metadata.name: 0
                for replica_set in self._old
                if replica_set.spec.replicas > 0
            }
        if self._deployment.spec.strategy.type == "Recreate":
            return {}
        growing = self._limits.most > sum(replica_set.spec.replicas for replica_set in active)
        ordered = list(reversed(active)) if growing else active
        ordered.sort(key=lambda one: -one.spec.replicas)
        return deployment_sets.scale_in_proportion(
            [_size(replica_set) for replica_set in ordered],
            self._limits,
            self._deployment.status.replicas,
        )

    def _resized(self, sizes: dict[str, int]) -> tuple[Action, ...]:
        by_name = {replica_set.metadata.name: replica_set for replica_set in self._all}
        most = self._limits.most
        return tuple(
            action
            for name, size in sizes.items()
            for action in sets.resized(self._deployment, by_name[name], size, most=most)
        )

    def _old_pods_run(self) -> bool:
        old = {replica_set.metadata.uid for replica_set in self._old}
        return any(
            pod.metadata.controller is not None
            and pod.metadata.controller.uid in old
            and not has_ended(pod)
            for pod in self._seen.pods
        )

    # What is said of it.

    def report(self, *, counting_only: bool = False) -> ObjectPlan:
        """Report the state; remove replica sets of long ago if all is done."""
        return self._then_report((), counting_only=counting_only)

    def _then_report(
        self, actions: tuple[Action, ...], *, counting_only: bool = False
    ) -> ObjectPlan:
        status = counted(
            self._deployment,
            self._new,
            self._all,
            least_available=self._limits.least_available,
            now=self._seen.now,
        )
        wait: float | None = None
        if not counting_only:
            status, wait = progressed(self._deployment, self._new, status, self._seen.now)
        cleaning: tuple[Action, ...] = ()
        if not actions and is_complete(self._deployment, status):
            cleaning = self._cleaning()
        return ObjectPlan((*actions, *cleaning, *self.status_change(status)), wait)

    def _cleaning(self) -> tuple[Delete, ...]:
        """Return the deletion of the oldest revisions beyond the limit that have no pods."""
        limit = self._deployment.spec.revision_history_limit
        alive = [
            replica_set
            for replica_set in self._old
            if replica_set.metadata.deletion_timestamp is None
        ]
        alive.sort(key=sets.revision_of)
        surplus = alive[: max(0, len(alive) - limit)]
        return tuple(
            Delete(resource=REPLICA_SETS, key=key_of(replica_set), uid=replica_set.metadata.uid)
            for replica_set in surplus
            if replica_set.status.replicas == 0 == replica_set.spec.replicas
            and replica_set.metadata.generation <= replica_set.status.observed_generation
        )

    def _told(self, conditions: Conditions) -> tuple[Action, ...]:
        status = msgspec.structs.replace(self._deployment.status, conditions=conditions)
        return self.status_change(status)

    def status_change(self, status: msgspec.Struct) -> tuple[Action, ...]:
        """Return the change of the deployment's status to *status*."""
        deployment = self._deployment
        version = deployment.metadata.resource_version
        return status_change(DEPLOYMENTS, key_of(deployment), version, deployment.status, status)


def limits_of(deployment: Deployment) -> Limits:
    """Return what a rollout of *deployment* has to keep to."""
    spec = deployment.spec
    if spec.strategy.type == "Recreate":
        return Limits(spec.replicas, 0, 0)
    rolling = spec.strategy.rolling_update or RollingUpdate()
    surge = "25%" if rolling.max_surge is None else rolling.max_surge
    unavailable = "25%" if rolling.max_unavailable is None else rolling.max_unavailable
    return deployment_sets.rolling_limits(spec.replicas, surge, unavailable)


def _size(one: ReplicaSet) -> Size:
    basis = sets.number_in(one.metadata.annotations, sets.MAX_REPLICAS)
    return Size(one.metadata.name, one.spec.replicas, one.status.available_replicas, basis)


def _is_saturated(new: ReplicaSet, wanted: int) -> bool:
    """Tell whether the new replica set has all that is wanted."""
    desired = sets.number_in(new.metadata.annotations, sets.DESIRED_REPLICAS)
    return new.spec.replicas == wanted == desired == new.status.available_replicas


class Deployments(LabController):
    """Looks after all deployments."""

    name: ClassVar[str] = "deployment-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._deployments = cluster.mirror(DEPLOYMENTS)
        self._sets = cluster.mirror(REPLICA_SETS)
        self._pods = cluster.mirror(PODS)

    def watch(self) -> None:
        """Look again when a deployment or a replica set of it changes, or its last pod goes."""
        self.follow(self._deployments)
        self.follow(self._sets, self._concerned)
        self.follow(self._pods, self._waiting_for_the_end_of)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide what to do about one deployment."""
        deployment = self._deployments.get(key)
        if deployment is None:
            return NOTHING
        owned = self._sets.managed_by(deployment.metadata.uid)
        mine = {replica_set.metadata.name for replica_set in owned}
        neighbours = self._sets.in_namespace(key.namespace)
        return reconcile(
            ObservedDeployment(
                deployment=deployment,
                sets=owned,
                orphans=self._sets.orphans_in(key.namespace),
                taken=frozenset(neighbour.metadata.name for neighbour in neighbours) - mine,
                pods=self._pods_of(deployment, owned),
                now=self.clock.now(),
            )
        )

    def _pods_of(self, deployment: Deployment, owned: Iterable[ReplicaSet]) -> Sequence[Pod]:
        if deployment.spec.strategy.type != "Recreate":
            return ()
        return [
            pod for replica_set in owned for pod in self._pods.managed_by(replica_set.metadata.uid)
        ]

    def _concerned(self, replica_set: ReplicaSet) -> Iterable[ObjectKey]:
        metadata = replica_set.metadata
        if metadata.controller is not None:
            return owner_key(replica_set, "Deployment")
        return [
            key_of(deployment)
            for deployment in self._deployments.in_namespace(metadata.namespace)
            if metadata.labels and selects(deployment.spec.selector, metadata.labels)
        ]

    def _waiting_for_the_end_of(self, pod: Pod) -> Iterable[ObjectKey]:
        """Return the deployment that recreates its pods and waits for this one to be gone."""
        for set_key in owner_key(pod, "ReplicaSet"):
            replica_set = self._sets.get(set_key)
            for key in owner_key(replica_set, "Deployment") if replica_set else ():
                deployment = self._deployments.get(key)
                if deployment and deployment.spec.strategy.type == "Recreate":
                    yield key
