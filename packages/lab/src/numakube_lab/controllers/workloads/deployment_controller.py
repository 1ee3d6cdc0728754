"""Deployments: replica sets that follow each other without a gap in service.

Follows kube-controller-manager 1.35 step by step, because users see the steps: one change of size
at a time, the new replica set first. A change of the deployment's size in mid-rollout is spread
over the replica sets before the rollout goes on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import msgspec

from numakube.api.meta import LabelSelector
from numakube.api.pod import has_ended
from numakube.api.selectors import selects
from numakube.kube.catalog import PODS
from numakube.kube.resource_types import ObjectKey, key_of
from numakube_lab.controllers.common.controller_actions import (
    NOTHING,
    Action,
    Change,
    Delete,
    Plan,
    status_change,
)
from numakube_lab.controllers.common.controller_loop import Controller
from numakube_lab.controllers.common.owner_references import claim, owner_key, owner_reference
from numakube_lab.controllers.types.workload_types import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    ReplicaSet,
    RollingUpdate,
)
from numakube_lab.controllers.workloads import deployment_sets as sets
from numakube_lab.controllers.workloads import deployment_status as reports
from numakube_lab.controllers.workloads import rolling_updates
from numakube_lab.controllers.workloads.rolling_updates import Limits, Size

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from numakube.api.pod import Pod
    from numakube.kube.event_recorder import EventRecorder
    from numakube_lab.controllers.common.resource_mirrors import Cluster
    from numakube_lab.controllers.workloads.deployment_status import Conditions


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
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


def reconcile(seen: Observed) -> Plan:
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
        return Plan(claimed.changes)
    rollout = _Rollout(seen, claimed.objects)
    if deployment.metadata.deletion_timestamp is not None:
        return rollout.report(counting_only=True)
    conditions = reports.paused_or_resumed(deployment, seen.now)
    if conditions is not None:
        status = msgspec.structs.replace(deployment.status, conditions=conditions)
        return Plan(rollout.status_change(status))
    if deployment.spec.paused or rollout.was_resized():
        return rollout.resize()
    if deployment.spec.strategy.type == "Recreate":
        return rollout.recreate()
    return rollout.roll()


class _Rollout:
    """One look at a deployment: its replica sets, told apart, and the steps that may follow."""

    def __init__(self, seen: Observed, owned: Sequence[ReplicaSet]) -> None:
        self._seen = seen
        self._deployment = seen.deployment
        self._all = sets.oldest_first(owned)
        self._new = sets.find_new(seen.deployment, self._all)
        self._old = [one for one in self._all if one is not self._new]
        self._limits = limits_of(seen.deployment)

    # The three courses.

    def roll(self) -> Plan:
        """Go on with a rolling update."""
        if self._new is None:
            return self._create(
                rolling_updates.new_size(
                    0, sum(one.spec.replicas for one in self._all), self._limits
                )
            )
        if updates := self._updates(self._new):
            return Plan(updates)
        total = sum(one.spec.replicas for one in self._all)
        wanted = rolling_updates.new_size(self._new.spec.replicas, total, self._limits)
        if wanted != self._new.spec.replicas:
            return self._then_report(self._resized({self._new.metadata.name: wanted}))
        active = [_size(one) for one in self._old if one.spec.replicas > 0]
        smaller = rolling_updates.shrink_old(active, _size(self._new), self._limits)
        return self._then_report(self._resized(smaller))

    def recreate(self) -> Plan:
        """Go on with an update that first ends all old pods."""
        if self._new is not None and (updates := self._updates(self._new)):
            return Plan(updates)
        ending = {one.metadata.name: 0 for one in self._old if one.spec.replicas > 0}
        if ending:
            return self._then_report(self._resized(ending))
        if self._old_pods_run():
            return self.report()
        if self._new is None:
            return self._create(self._limits.replicas)
        wanted = self._limits.replicas
        return self._then_report(self._resized({self._new.metadata.name: wanted}))

    def resize(self) -> Plan:
        """Bring the replica sets to the deployment's size without going on with any update."""
        if self._new is not None and (updates := self._updates(self._new)):
            return Plan(updates)
        return self._then_report(self._resized(self._resizing()), counting_only=True)

    def was_resized(self) -> bool:
        """Tell whether the deployment's size has changed since its replica sets were scaled."""
        for one in self._all:
            desired = sets.number_in(one.metadata.annotations, sets.DESIRED_REPLICAS)
            if one.spec.replicas > 0 and desired not in (None, self._deployment.spec.replicas):
                return True
        return False

    # What they consist of.

    def _create(self, replicas: int) -> Plan:
        """Create the new replica set, under a name that is free."""
        deployment, now = self._deployment, self._seen.now
        name = sets.set_name(deployment)
        status = deployment.status
        if name in self._seen.taken or any(one.metadata.name == name for one in self._all):
            collisions = (status.collision_count or 0) + 1
            return Plan(
                self.status_change(msgspec.structs.replace(status, collision_count=collisions))
            )
        made = sets.creation(deployment, self._old, replicas=replicas, most=self._limits.most)
        conditions = reports.announced(
            deployment,
            status.conditions,
            "NewReplicaSetCreated",
            f'Created new replica set "{name}"',
            now,
        )
        return Plan((*made, *self._told(conditions)))

    def _updates(self, new: ReplicaSet) -> tuple[Action, ...]:
        """Bring what the new replica set and its deployment say of each other up to date."""
        changes = sets.updated(self._deployment, new, self._old)
        if changes:
            return changes
        revision = new.metadata.annotations.get(sets.REVISION, "")
        if self._deployment.metadata.annotations.get(sets.REVISION) != revision:
            annotations = {sets.REVISION: revision}
            patch = {"metadata": {"annotations": annotations}}
            return (Change(resource=DEPLOYMENTS, key=key_of(self._deployment), patch=patch),)
        name = new.metadata.name
        conditions = reports.announced(
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
        active = [one for one in self._all if one.spec.replicas > 0]
        if len(active) <= 1:
            latest = active[0] if active else new or (self._old[-1] if self._old else None)
            return {} if latest is None else {latest.metadata.name: wanted}
        if new is not None and _is_saturated(new, wanted):
            return {one.metadata.name: 0 for one in self._old if one.spec.replicas > 0}
        if self._deployment.spec.strategy.type == "Recreate":
            return {}
        growing = self._limits.most > sum(one.spec.replicas for one in active)
        ordered = list(reversed(active)) if growing else active
        ordered.sort(key=lambda one: -one.spec.replicas)
        return rolling_updates.scale_in_proportion(
            [_size(one) for one in ordered], self._limits, self._deployment.status.replicas
        )

    def _resized(self, sizes: dict[str, int]) -> tuple[Action, ...]:
        by_name = {one.metadata.name: one for one in self._all}
        most = self._limits.most
        return tuple(
            action
            for name, size in sizes.items()
            for action in sets.resized(self._deployment, by_name[name], size, most=most)
        )

    def _old_pods_run(self) -> bool:
        old = {one.metadata.uid for one in self._old}
        return any(
            pod.metadata.controller is not None
            and pod.metadata.controller.uid in old
            and not has_ended(pod)
            for pod in self._seen.pods
        )

    # What is said of it.

    def report(self, *, counting_only: bool = False) -> Plan:
        """Report the state; remove replica sets of long ago if all is done."""
        return self._then_report((), counting_only=counting_only)

    def _then_report(self, actions: tuple[Action, ...], *, counting_only: bool = False) -> Plan:
        status = reports.counted(
            self._deployment,
            self._new,
            self._all,
            least_available=self._limits.least_available,
            now=self._seen.now,
        )
        wait: float | None = None
        if not counting_only:
            status, wait = reports.progressed(self._deployment, self._new, status, self._seen.now)
        cleaning: tuple[Action, ...] = ()
        if not actions and reports.is_complete(self._deployment, status):
            cleaning = self._cleaning()
        return Plan((*actions, *cleaning, *self.status_change(status)), wait)

    def _cleaning(self) -> tuple[Delete, ...]:
        """Return the deletion of the oldest revisions beyond the limit that have no pods."""
        limit = self._deployment.spec.revision_history_limit
        alive = [one for one in self._old if one.metadata.deletion_timestamp is None]
        alive.sort(key=sets.revision_of)
        surplus = alive[: max(0, len(alive) - limit)]
        return tuple(
            Delete(resource=REPLICA_SETS, key=key_of(one), uid=one.metadata.uid)
            for one in surplus
            if one.status.replicas == 0 == one.spec.replicas
            and one.metadata.generation <= one.status.observed_generation
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
    return rolling_updates.rolling_limits(spec.replicas, surge, unavailable)


def _size(one: ReplicaSet) -> Size:
    basis = sets.number_in(one.metadata.annotations, sets.MAX_REPLICAS)
    return Size(one.metadata.name, one.spec.replicas, one.status.available_replicas, basis)


def _is_saturated(new: ReplicaSet, wanted: int) -> bool:
    """Tell whether the new replica set has all that is wanted."""
    desired = sets.number_in(new.metadata.annotations, sets.DESIRED_REPLICAS)
    return new.spec.replicas == wanted == desired == new.status.available_replicas


class Deployments(Controller):
    """Looks after all deployments."""

    name: ClassVar[str] = "deployment-controller"

    def __init__(self, cluster: Cluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._deployments = cluster.mirror(DEPLOYMENTS)
        self._sets = cluster.mirror(REPLICA_SETS)
        self._pods = cluster.mirror(PODS)

    def watch(self) -> None:
        """Look again when a deployment or a replica set of it changes, or its last pod goes."""
        self.follow(self._deployments)
        self.follow(self._sets, self._concerned)
        self.follow(self._pods, self._waiting_for_the_end_of)

    def plan(self, key: ObjectKey) -> Plan:
        """Decide what to do about one deployment."""
        deployment = self._deployments.get(key)
        if deployment is None:
            return NOTHING
        owned = self._sets.managed_by(deployment.metadata.uid)
        mine = {one.metadata.name for one in owned}
        neighbours = self._sets.in_namespace(key.namespace)
        return reconcile(
            Observed(
                deployment=deployment,
                sets=owned,
                orphans=self._sets.orphans_in(key.namespace),
                taken=frozenset(one.metadata.name for one in neighbours) - mine,
                pods=self._pods_of(deployment, owned),
                now=self.clock.now(),
            )
        )

    def _pods_of(self, deployment: Deployment, owned: Iterable[ReplicaSet]) -> Sequence[Pod]:
        if deployment.spec.strategy.type != "Recreate":
            return ()
        return [pod for one in owned for pod in self._pods.managed_by(one.metadata.uid)]

    def _concerned(self, replica_set: ReplicaSet) -> Iterable[ObjectKey]:
        metadata = replica_set.metadata
        if metadata.controller is not None:
            return owner_key(replica_set, "Deployment")
        return [
            key_of(one)
            for one in self._deployments.in_namespace(metadata.namespace)
            if metadata.labels and selects(one.spec.selector, metadata.labels)
        ]

    def _waiting_for_the_end_of(self, pod: Pod) -> Iterable[ObjectKey]:
        """Return the deployment that recreates its pods and waits for this one to be gone."""
        for set_key in owner_key(pod, "ReplicaSet"):
            replica_set = self._sets.get(set_key)
            for key in owner_key(replica_set, "Deployment") if replica_set else ():
                deployment = self._deployments.get(key)
                if deployment and deployment.spec.strategy.type == "Recreate":
                    yield key
