"""StatefulSets: pods with fixed names and claims of their own, one after the other.

Follows kube-controller-manager 1.35, with both pod management policies, rolling updates with a
partition, and ``OnDelete``. Not there: deleting claims by a retention policy (they are kept), and
``maxUnavailable`` (pods are updated one by one).

The pods and claims of a stateful set: their names, numbers and contents.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec

from numakube.api.meta import LabelSelector
from numakube.api.pod import has_ended
from numakube.api.selectors import selects
from numakube.kube import ObjectKey, key_of, reference_to
from numakube.kube.catalog import PERSISTENT_VOLUME_CLAIMS, PODS
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
    is_available,
    is_ready,
    is_terminating,
    owner_document,
    owner_key,
    owner_reference,
    phase_of,
    seconds_to_available,
)
from numakube_lab.controllers.object_types import (
    CONTROLLER_REVISIONS,
    STATEFUL_SETS,
    ControllerRevision,
    MetadataObject,
    RollingUpdate,
    StatefulSet,
    StatefulSetStatus,
)
from numakube_lab.controllers.workloads.template_revisions import (
    HASH_LABEL,
    Latest,
    latest_revision,
    pod_from_template,
    surplus_revisions,
    template_in,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime

    from numakube.api.pod import Pod
    from numakube.kube import Document, EventRecorder
    from numakube_lab.controllers.common.controller_loop import MirroredCluster


POD_NAME_LABEL: Final = "statefulset.kubernetes.io/pod-name"
POD_INDEX_LABEL: Final = "apps.kubernetes.io/pod-index"

_NAME: Final = re.compile(r"(.*)-(0|[1-9][0-9]*)")


def ordinal_of(stateful_set: StatefulSet, pod: Pod) -> int | None:
    """Return the number of *pod*; None if its name is not one of *stateful_set*."""
    matched = _NAME.fullmatch(pod.metadata.name)
    if matched is None or matched[1] != stateful_set.metadata.name:
        return None
    return int(matched[2])


def pod_name(stateful_set: StatefulSet, ordinal: int) -> str:
    """Return the name of a pod."""
    return f"{stateful_set.metadata.name}-{ordinal}"


def pod_of(stateful_set: StatefulSet, template: Document, ordinal: int, revision: str) -> Document:
    """Return the pod with number *ordinal*, made from the template of *revision*."""
    name = pod_name(stateful_set, ordinal)
    pod = pod_from_template(
        template,
        namespace=stateful_set.metadata.namespace,
        owner=owner_document(STATEFUL_SETS, stateful_set),
        name=name,
        labels={POD_NAME_LABEL: name, POD_INDEX_LABEL: str(ordinal), HASH_LABEL: revision},
    )
    spec = pod["spec"]
    named = {"hostname": name, "volumes": _volumes(stateful_set, spec, ordinal)}
    if stateful_set.spec.service_name:
        named["subdomain"] = stateful_set.spec.service_name
    return {**pod, "spec": {**spec, **{key: value for key, value in named.items() if value}}}


def claims_of(stateful_set: StatefulSet, ordinal: int) -> list[Document]:
    """Return the claims that the pod with number *ordinal* needs."""
    found: list[Document] = []
    for template in stateful_set.spec.volume_claim_templates:
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), **stateful_set.spec.selector.match_labels}
        found.append(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {
                    "name": claim_name(stateful_set, template, ordinal),
                    "namespace": stateful_set.metadata.namespace,
                    "labels": labels,
                    "annotations": metadata.get("annotations") or {},
                },
                "spec": template.get("spec") or {},
            }
        )
    return found


def claim_name(stateful_set: StatefulSet, template: Document, ordinal: int) -> str:
    """Return the name of a claim."""
    prefix = (template.get("metadata") or {}).get("name", "")
    return f"{prefix}-{pod_name(stateful_set, ordinal)}"


def _volumes(stateful_set: StatefulSet, spec: Document, ordinal: int) -> list[Document]:
    """Return the volumes of a pod: those of claims take the place of others of the same name."""
    claimed: dict[str, Document] = {}
    for template in stateful_set.spec.volume_claim_templates:
        name = (template.get("metadata") or {}).get("name", "")
        source = {"claimName": claim_name(stateful_set, template, ordinal)}
        claimed[name] = {"name": name, "persistentVolumeClaim": source}
    others = [each for each in spec.get("volumes") or () if each.get("name") not in claimed]
    return [*claimed.values(), *others]


CLAIMS = PERSISTENT_VOLUME_CLAIMS.decoded_as(MetadataObject)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedStatefulSet:
    """A stateful set and its surroundings.

    Attributes:
        pods: the pods that name it as their controller.
        orphans: pods of its namespace without a controller.
        claims: the names of the claims in its namespace.
    """

    stateful_set: StatefulSet
    pods: Sequence[Pod] = ()
    orphans: Sequence[Pod] = ()
    revisions: Sequence[ControllerRevision] = ()
    claims: frozenset[str] = frozenset()
    now: datetime


def reconcile(seen: ObservedStatefulSet) -> ObjectPlan:
    """Decide what to do about a stateful set."""
    stateful_set = seen.stateful_set
    if stateful_set.spec.selector == LabelSelector():
        return NOTHING
    going = stateful_set.metadata.deletion_timestamp is not None
    claimed = claim(
        PODS,
        owner=owner_reference(STATEFUL_SETS, stateful_set),
        selector=stateful_set.spec.selector,
        managed=seen.pods,
        orphans=[pod for pod in seen.orphans if ordinal_of(stateful_set, pod) is not None],
        owner_is_going=going,
    )
    if claimed.changes:
        return ObjectPlan(claimed.changes)
    latest = latest_revision(
        STATEFUL_SETS,
        stateful_set,
        stateful_set.spec.template,
        stateful_set.spec.selector.match_labels,
        seen.revisions,
    )
    if latest.actions and not going:
        return ObjectPlan(latest.actions)
    look = _Look(seen, claimed.objects, latest)
    actions = () if going else look.step()
    live = {latest.name, look.current, *(_revision(pod) for pod in claimed.objects)}
    limit = stateful_set.spec.revision_history_limit
    cleaning = () if actions or going else surplus_revisions(seen.revisions, live, limit)
    return ObjectPlan((*actions, *cleaning, *look.report()), look.wait())


class _Look:
    """One look at a stateful set: its pods by number, and the next step.

    Attributes:
        current: the name of the revision that pods are at until they are updated.
    """

    def __init__(self, seen: ObservedStatefulSet, pods: Sequence[Pod], latest: Latest) -> None:
        self._seen = seen
        self._set = seen.stateful_set
        self._latest = latest
        known = {each.metadata.name: each for each in seen.revisions}
        status = seen.stateful_set.status
        self.current = status.current_revision if status.current_revision in known else latest.name
        self._known = known
        numbered = [(ordinal_of(seen.stateful_set, pod), pod) for pod in pods]
        self._pods = {number: pod for number, pod in numbered if number is not None}
        start = self._set.spec.ordinals.start
        self._wanted = range(start, start + self._set.spec.replicas)
        self._ordered = self._set.spec.pod_management_policy != "Parallel"

    def step(self) -> tuple[Action, ...]:
        """Return what is to be done now: with an order, at most about one pod."""
        actions: list[Action] = []
        for ordinal in self._wanted:
            moves, may_go_on = self._raise_up(ordinal)
            actions += moves
            if self._ordered and not may_go_on:
                return tuple(actions)
        for ordinal in self._surplus():
            moves, may_go_on = self._take_down(ordinal)
            actions += moves
            if self._ordered and not may_go_on:
                return tuple(actions)
        return tuple(actions) if actions else self._update()

    def _raise_up(self, ordinal: int) -> tuple[list[Action], bool]:
        """Return what brings up one pod, and whether the next may follow."""
        pod = self._pods.get(ordinal)
        if pod is None:
            return self._create(ordinal), False
        if is_terminating(pod):
            return [], False
        if has_ended(pod):
            return [self._delete(pod)], False
        return [], self._is_healthy(pod)

    def _surplus(self) -> list[int]:
        """Return the numbers beyond the wanted ones, the highest first."""
        return sorted((each for each in self._pods if each not in self._wanted), reverse=True)

    def _take_down(self, ordinal: int) -> tuple[list[Action], bool]:
        """Return what takes down one pod; the next follows when it is gone."""
        pod = self._pods[ordinal]
        if is_terminating(pod):
            return [], False
        return [self._delete(pod)], False

    def _update(self) -> tuple[Action, ...]:
        """Return the deletion of the next pod to be updated: the highest, if all above are well."""
        if self._set.spec.update_strategy.type == "OnDelete":
            return ()
        first = self._set.spec.ordinals.start + self._rolling().partition
        for ordinal in reversed(self._wanted):
            pod = self._pods.get(ordinal)
            if ordinal < first or pod is None:
                return ()
            if _revision(pod) != self._latest.name and not is_terminating(pod):
                return (self._delete(pod),)
            if not self._is_healthy(pod):
                return ()
        return ()

    def report(self) -> tuple[Action, ...]:
        """Return the change of the status, if it is to change."""
        pods = list(self._pods.values())
        steady = [pod for pod in pods if not is_terminating(pod)]
        ready = [pod for pod in pods if phase_of(pod) == "Running" and is_ready(pod)]
        updated = sum(_revision(pod) == self._latest.name for pod in steady)
        status: StatefulSetStatus = msgspec.structs.replace(
            self._set.status,
            observed_generation=self._set.metadata.generation,
            replicas=len(pods),
            ready_replicas=len(ready),
            available_replicas=sum(map(self._is_available, ready)),
            updated_replicas=updated,
            current_replicas=sum(_revision(pod) == self.current for pod in steady),
            current_revision=self.current,
            update_revision=self._latest.name,
        )
        counts = (status.updated_replicas, status.replicas, status.ready_replicas)
        rolls = self._set.spec.update_strategy.type != "OnDelete"
        if rolls and set(counts) == {self._set.spec.replicas}:
            status = msgspec.structs.replace(
                status, current_revision=self._latest.name, current_replicas=updated
            )
        key, version = key_of(self._set), self._set.metadata.resource_version
        return status_change(STATEFUL_SETS, key, version, self._set.status, status)

    def wait(self) -> float | None:
        """Return when to look again by the clock."""
        seconds, now = self._set.spec.min_ready_seconds, self._seen.now
        waits = (seconds_to_available(pod, seconds, now) for pod in self._pods.values())
        return soonest(each for each in waits if each)

    def _create(self, ordinal: int) -> list[Action]:
        """Return the creation of a pod, and before of the claims that it lacks."""
        told = reference_to(STATEFUL_SETS, self._set)
        revision, template = self._version_for(ordinal)
        missing = [
            Create(resource=CLAIMS, document=each, told=told)
            for each in claims_of(self._set, ordinal)
            if each["metadata"]["name"] not in self._seen.claims
        ]
        document = pod_of(self._set, template, ordinal, revision)
        return [*missing, Create(resource=PODS, document=document, told=told)]

    def _version_for(self, ordinal: int) -> tuple[str, Document]:
        """Return revision and template for a new pod: the old ones below what is updated."""
        offset = ordinal - self._set.spec.ordinals.start
        rolling = self._set.spec.update_strategy.rolling_update
        keeps = self._set.status.current_replicas if rolling is None else rolling.partition
        rolls = self._set.spec.update_strategy.type != "OnDelete"
        if rolls and offset < keeps and self.current in self._known:
            return self.current, template_in(self._known[self.current])
        return self._latest.name, self._set.spec.template

    def _rolling(self) -> RollingUpdate:
        return self._set.spec.update_strategy.rolling_update or RollingUpdate()

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self._set.spec.min_ready_seconds, self._seen.now)

    def _is_healthy(self, pod: Pod) -> bool:
        running = phase_of(pod) == "Running" and not is_terminating(pod)
        return running and self._is_available(pod)

    def _delete(self, pod: Pod) -> Delete:
        told = reference_to(STATEFUL_SETS, self._set)
        return Delete(resource=PODS, key=key_of(pod), uid=pod.metadata.uid, told=told)


def _revision(pod: Pod) -> str:
    return pod.metadata.labels.get(HASH_LABEL, "")


class StatefulSets(LabController):
    """Looks after all stateful sets."""

    name: ClassVar[str] = "statefulset-controller"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._sets = cluster.mirror(STATEFUL_SETS)
        self._pods = cluster.mirror(PODS)
        self._claims = cluster.mirror(CLAIMS)
        self._revisions = cluster.mirror(CONTROLLER_REVISIONS)

    def watch(self) -> None:
        """Look again when a stateful set, or a pod or revision of it, changes."""
        self.follow(self._sets)
        self.follow(self._revisions, lambda each: owner_key(each, "StatefulSet"))
        self.follow(self._pods, self._concerned)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide what to do about one stateful set."""
        stateful_set = self._sets.get(key)
        if stateful_set is None:
            return NOTHING
        uid = stateful_set.metadata.uid
        claims = self._claims.in_namespace(key.namespace)
        return reconcile(
            ObservedStatefulSet(
                stateful_set=stateful_set,
                pods=self._pods.managed_by(uid),
                orphans=self._pods.orphans_in(key.namespace),
                revisions=self._revisions.managed_by(uid),
                claims=frozenset(each.metadata.name for each in claims),
                now=self.clock.now(),
            )
        )

    def _concerned(self, pod: Pod) -> Iterable[ObjectKey]:
        metadata = pod.metadata
        if metadata.controller is not None:
            return owner_key(pod, "StatefulSet")
        return [
            key_of(one)
            for one in self._sets.in_namespace(metadata.namespace)
            if metadata.labels and selects(one.spec.selector, metadata.labels)
        ]
