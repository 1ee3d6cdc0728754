"""Workloads of Kueue that have their quota and wait for our admission check.

Kueue adds an entry to ``status.admissionChecks`` of a workload for every check of its queue. Ours
stays ``Pending``, with the reason, while the pods do not fit together. It becomes ``Ready`` once
their room is kept, and then adds an annotation to the pods by which they take their places. A
workload that has waited for too long gets ``Retry``: Kueue gives its quota to others and queues it
again (Kueue 0.19; v1beta1 and v1beta2 of its API). So does one for which Kueue has chosen nodes on
which it does not fit: Kueue alone can choose others.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
import structlog

from numakube.api.fit_question import HOLD
from numakube.api.fit_question import AskedPodSet as AskedPods
from numakube.api.kueue import (
    GROUP,
    PENDING,
    READY,
    RETRY,
    VERSIONS,
    AdmissionCheck,
    QueuedWorkload,
    ResourceFlavor,
)
from numakube.api.pod import Pod
from numakube.api.workloads import PriorityClass
from numakube.errors import Conflict, Invalid, InvalidValue, NotFound
from numakube.insight.planned_pods import planned_pod
from numakube.kube import Reflector, Request, json_patch, merge_patch
from numakube.kube.catalog import PRIORITY_CLASSES
from numakube.kube.resource_types import KubeObject, ObjectKey, Resource
from numakube.values.times import format_time, parse_time
from numakube_planning.admission_check.assigned_domains import assigned_pods
from numakube_planning.admission_check.waiting_work import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from numakube.api.kueue import CheckState, KueueCondition, PodSet, PodSetAssignment
    from numakube.kube import Client
    from numakube_planning.admission_check.assigned_domains import AssignedPods

CONTROLLER: Final = "numakube.dev/admission-check"
"""What an AdmissionCheck names in ``spec.controllerName`` to be ours."""

_T = TypeVar("_T", bound=KubeObject)
_log: structlog.typing.FilteringBoundLogger = structlog.get_logger()


def _kind(plural: str, type_: type[_T], *, namespaced: bool = False) -> Resource[_T]:
    return Resource(
        group=GROUP,
        version=VERSIONS[0],
        plural=plural,
        kind=type_.__name__,
        namespaced=namespaced,
        object_type=type_,
    )


WORKLOADS: Final = _kind("workloads", QueuedWorkload, namespaced=True)
CHECKS: Final = _kind("admissionchecks", AdmissionCheck)
FLAVORS: Final = _kind("resourceflavors", ResourceFlavor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """How long things last, in seconds.

    Attributes:
        hold: room is kept for the pods of an admitted workload.
        patience: a workload keeps its quota while it does not fit; 0 for ever.
        requeue: it is then left out of its queue.
    """

    hold: float = 120.0
    patience: float = 300.0
    requeue: float = 60.0


class KueueWorkloads:
    """A source of work."""

    name = "kueue"
    gives_back = True

    def __init__(self, client: Client, times: Times) -> None:
        self._client = client
        self._times = times
        self._workloads = _reflector(client, WORKLOADS)
        self._checks = _reflector(client, CHECKS)
        self._flavors = _reflector(client, FLAVORS)
        self._known: dict[str, QueuedWorkload] = {}
        self._classes = Reflector(client, PRIORITY_CLASSES.decoded_as(PriorityClass))

    def reflectors(self) -> list[Reflector[Any]]:
        """Return what has to run."""
        return [self._workloads, self._checks, self._flavors, self._classes]

    async def work(self) -> list[Work]:
        """Return the workloads that wait for us, and those whose room is kept."""
        for check in self._checks.store:
            if check.spec.controller_name == CONTROLLER:
                await self._activate(check)
        found = [(workload, self._work_of(workload)) for workload in self._workloads.store]
        self._known = {work.hold: one for one, work in found if work is not None}
        return [work for _, work in found if work is not None]

    async def admit(self, work: Work) -> None:
        """Let a workload start."""
        workload = self._known.get(work.hold)
        if workload is not None and not work.admitted:
            await self._write(workload, READY, "all pods fit, and their room is kept")

    async def refuse(self, work: Work, reason: str) -> None:
        """Let a workload wait on, or give up its quota after a while."""
        workload = self._known.get(work.hold)
        if workload is None:
            return
        if workload.condition("Admitted") is not None:
            _log.warning("room_lost", workload=workload.metadata.key, reason=reason)
        elif work.domains or self._has_lost_patience(workload):
            await self._write(workload, RETRY, reason)
        else:
            await self._write(workload, PENDING, reason)

    def _ours(self, workload: QueuedWorkload) -> list[tuple[int, CheckState]]:
        checks = self._checks.store
        return [
            (position, entry)
            for position, entry in enumerate(workload.status.admission_checks)
            if (check := checks.get(ObjectKey("", entry.name))) is not None
            and check.spec.controller_name == CONTROLLER
        ]

    def _work_of(self, workload: QueuedWorkload) -> Work | None:
        """Return the work if Kueue waits for our answer, or room has to be kept."""
        ours = [entry for _, entry in self._ours(workload)]
        if not ours or not has_quota(workload) or any(state.state == RETRY for state in ours):
            return None
        given = workload.status.admission
        if given is not None and any(one.is_delayed for one in given.pod_set_assignments):
            return None
        admitted = all(state.state == READY for state in ours)
        seconds = self._times.hold
        if admitted:
            seconds -= self._age(ours[0].last_transition_time)
            if seconds <= 0 or workload.condition("PodsReady") is not None:
                return None
        meta, problem = workload.metadata, ""
        asked: list[tuple[AskedPods, str]] = []
        try:
            asked = list(self._pods_of(workload))
        except InvalidValue as error:
            problem = str(error)
        domains = tuple(domain for _, domain in asked)
        return Work(
            hold=f"{meta.key}:{meta.uid}",
            pods=tuple(pods for pods, _ in asked),
            domains=domains if any(domains) else (),
            problem=problem,
            priority=workload.spec.priority,
            since=meta.creation_timestamp or "",
            admitted=admitted,
            seconds=seconds,
        )

    def _pods_of(self, workload: QueuedWorkload) -> Iterator[tuple[AskedPods, str]]:
        """Yield what is asked about, and the nodes that Kueue has chosen for it, if it has.

        Raises:
            InvalidValue: what Kueue has chosen cannot be read.
        """
        admission = workload.status.admission
        given = admission.pod_set_assignments if admission is not None else ()
        by_name = {assignment.name: assignment for assignment in given}
        flavors = {flavor.metadata.name: flavor for flavor in self._flavors.store}
        classes = {one.metadata.name: one for one in self._classes.store}
        for pods in workload.spec.pod_sets:
            assigned = by_name.get(pods.name)
            count = assigned.count if assigned is not None else None
            count = pods.count if count is None else count
            pod = pod_of(workload, pods, assigned, flavors, classes)
            topology = assigned.topology_assignment if assigned is not None else None
            if topology is not None:
                yield from _by_domain(pod, count, assigned_pods(topology))
            elif count > 0:
                yield AskedPods(pod=pod, count=count), ""

    def _has_lost_patience(self, workload: QueuedWorkload) -> bool:
        quota, patience = workload.condition("QuotaReserved"), self._times.patience
        times = [entry.last_transition_time for _, entry in self._ours(workload)]
        times.append(quota.last_transition_time if quota is not None else None)
        return 0 < patience <= min(map(self._age, times))

    def _age(self, time: str | None) -> float:
        return (self._client.clock.now() - parse_time(time)).total_seconds() if time else 0.0

    async def _write(self, workload: QueuedWorkload, state: str, message: str) -> None:
        """Set our entries; a workload that has changed meanwhile is looked at again instead."""
        meta, now = workload.metadata, format_time(self._client.clock.now())
        version = {
            "op": "test",
            "path": "/metadata/resourceVersion",
            "value": meta.resource_version,
        }
        changes = [
            {"op": "replace", "path": f"/status/admissionChecks/{position}", "value": new}
            for position, entry in self._ours(workload)
            if (entry.state, entry.message) != (state, message)
            for new in [self._entry(workload, entry, state, message, now)]
        ]
        if not changes:
            return
        resource = await _served(self._client, WORKLOADS)
        try:
            await self._client.patch(
                resource,
                meta.name,
                json_patch([version, *changes]),
                namespace=meta.namespace,
                subresource="status",
            )
        except (Conflict, Invalid, NotFound) as error:
            _log.debug("workload_changed", workload=meta.key, error=str(error))
            return
        _log.info("workload_checked", workload=meta.key, state=state, message=message)

    def _entry(
        self, workload: QueuedWorkload, entry: CheckState, state: str, message: str, now: str
    ) -> dict[str, Any]:
        since = entry.last_transition_time if entry.state == state else now
        tree: dict[str, Any] = {
            "name": entry.name,
            "state": state,
            "message": message,
            "lastTransitionTime": since or now,
        }
        if entry.retry_count:
            tree["retryCount"] = entry.retry_count
        if state == RETRY:
            tree["requeueAfterSeconds"] = int(self._times.requeue)
        if state == READY:
            tree["podSetUpdates"] = [
                {"name": pods.name, "annotations": {HOLD: hold_value(workload, pods)}}
                for pods in workload.spec.pod_sets
            ]
        return tree

    async def _activate(self, check: AdmissionCheck) -> None:
        """Tell Kueue that the check is looked after."""
        if any(_is_active(condition) for condition in check.status.conditions):
            return
        condition = {
            "type": "Active",
            "status": "True",
            "reason": "Active",
            "message": "The admission check is active",
            "lastTransitionTime": format_time(self._client.clock.now()),
            "observedGeneration": check.metadata.generation,
        }
        resource = await _served(self._client, CHECKS)
        change = merge_patch({"status": {"conditions": [condition]}})
        await self._client.patch(resource, check.metadata.name, change, subresource="status")


def has_quota(workload: QueuedWorkload) -> bool:
    """Tell whether Kueue waits for checks of *workload*, or has let it start."""
    return (
        workload.spec.active
        and workload.metadata.deletion_timestamp is None
        and workload.condition("QuotaReserved") is not None
        and workload.condition("Finished") is None
    )


def hold_value(workload: QueuedWorkload, pods: PodSet) -> str:
    """Return the annotation by which *pods* take their places."""
    return f"{workload.metadata.uid}/{pods.name}"


def pod_of(
    workload: QueuedWorkload,
    pods: PodSet,
    assigned: PodSetAssignment | None,
    flavors: Mapping[str, ResourceFlavor],
    classes: Mapping[str, PriorityClass],
) -> Pod:
    """Return a pod as Kueue will have it created: on the nodes of the flavors that it was given."""
    meta, spec = pods.template.metadata, pods.template.spec
    selector, tolerations = dict(spec.node_selector), list(spec.tolerations)
    names = dict.fromkeys(assigned.flavors.values()) if assigned is not None else ()
    for flavor in filter(None, map(flavors.get, names)):
        selector |= flavor.spec.node_labels
        tolerations += flavor.spec.tolerations
    checks = workload.status.admission_checks
    for update in (one for entry in checks for one in entry.pod_set_updates):
        if update.name == pods.name:
            selector |= update.node_selector
            tolerations += update.tolerations
    named = msgspec.structs.replace(
        meta,
        name=f"{workload.metadata.name}-{pods.name}",
        namespace=workload.metadata.namespace,
        annotations={**meta.annotations, HOLD: hold_value(workload, pods)},
    )
    told = msgspec.structs.replace(spec, node_selector=selector, tolerations=tuple(tolerations))
    return planned_pod(Pod(metadata=named, spec=told), classes=classes)


def _by_domain(
    pod: Pod, count: int, domains: Sequence[AssignedPods]
) -> Iterator[tuple[AskedPods, str]]:
    """Yield the pods of each domain, which has its node selector, with a name of their own."""
    placed = sum(one.count for one in domains)
    if placed != count:
        raise InvalidValue(f"topologyAssignment: it places {placed} of {count} pods")
    for at, domain in enumerate(domains):
        named = msgspec.structs.replace(pod.metadata, name=f"{pod.metadata.name}-{at}")
        selector = {**pod.spec.node_selector, **domain.selector}
        spec = msgspec.structs.replace(pod.spec, node_selector=selector)
        asked = msgspec.structs.replace(pod, metadata=named, spec=spec)
        yield AskedPods(pod=asked, count=domain.count), str(domain)


def _is_active(condition: KueueCondition) -> bool:
    return (condition.type, condition.status) == ("Active", "True")


def _reflector(client: Client, resource: Resource[_T]) -> Reflector[_T]:
    return Reflector(client, resource, optional=True, locate=partial(_served, client, resource))


async def _served(client: Client, resource: Resource[_T]) -> Resource[_T]:
    """Return *resource* in the best version that is served.

    Raises:
        NotFound: Kueue is not installed.
    """
    for version in VERSIONS:
        try:
            await client.request(Request(method="GET", path=f"/apis/{GROUP}/{version}"))
        except NotFound:
            continue
        return replace(resource, version=version)
    raise NotFound(f"the cluster does not serve {GROUP}", code=404, reason="NotFound")
