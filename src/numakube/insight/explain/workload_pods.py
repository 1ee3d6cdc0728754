"""Which pods make up a workload, of a cluster or of a manifest."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from numakube.api.meta import OwnerReference
from numakube.api.pod import has_ended
from numakube.insight.explain.explained_pod import Subject, manifest_subject
from numakube.insight.explain.pod_explanation import Options
from numakube.insight.explain.workload_explanation import Workload, explain_workload
from numakube.scheduling.plugins.gang_scheduling.pod_gangs import Gang, gang_key, gang_of
from numakube.scheduling.snapshot.pods import PodInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numakube.api.pod import Pod
    from numakube.insight.explain.explanation_document import Explanation
    from numakube.insight.facts import ClusterFacts
    from numakube.scheduling.assembly import Engine


def workload_in(facts: ClusterFacts, kind: str, namespace: str, name: str) -> Workload | None:
    """Return the workload called *name*; ``None`` if it has no pods."""
    owners = _owners(facts, kind, namespace, name)
    members = [
        pod
        for pod in facts.pods
        if pod.metadata.namespace == namespace and not has_ended(pod) and _owner(pod) in owners
    ]
    if not members:
        return None
    waiting = tuple(pod for pod in members if not pod.spec.node_name)
    missing = max(0, _wanted(facts, owners, namespace) - len(members))
    gang = _gang_of_all(facts, members)
    if gang is not None and not all(_owner(one) in owners for one in gang.waiting):
        return gang  # others run together with them
    if gang is not None:
        return replace(gang, kind=kind, name=name, missing=max(missing, gang.missing))
    return Workload(
        kind=kind,
        namespace=namespace,
        name=name,
        sample=_new(waiting[0] if waiting else members[0], name),
        placed=len(members) - len(waiting),
        waiting=waiting,
        missing=missing,
    )


def _gang_of_all(facts: ClusterFacts, members: Sequence[Pod]) -> Workload | None:
    """Return the gang that all *members* belong to: they are placed with it, not one by one."""
    keys = {gang_key(PodInfo(one)) for one in members}
    key = keys.pop()
    found = gang_in(facts, *key[1:]) if key is not None and not keys else None
    return found if found is not None and found.gang is not None else None


def gang_in(facts: ClusterFacts, namespace: str, name: str) -> Workload | None:
    """Return the pods of the gang called *name*, whatever API they name it by, if there are any."""
    members = [PodInfo(pod) for pod in facts.pods if pod.metadata.namespace == namespace]
    members = [one for one in members if (gang_key(one) or ("",))[1:] == (namespace, name)]
    there = [one for one in members if not one.has_ended and not one.is_being_deleted]
    if not members:
        return None
    found = gang_of((*there, *members)[0], facts.objects)
    gang = found if isinstance(found, Gang) else None
    waiting = tuple(one.pod for one in there if not one.node_name)
    done = [one for one in members if one.pod.status and one.pod.status.phase == "Succeeded"]
    placed = len(there) - len(waiting) + len(done)
    return Workload(
        kind="PodGroup",
        namespace=namespace,
        name=name,
        sample=_new(waiting[0] if waiting else members[0].pod, name),
        placed=placed,
        waiting=waiting,
        missing=max(0, gang.min_count - placed - len(waiting)) if gang else 0,
        gang=gang,
        running_on=tuple(one.node_name for one in there if one.node_name),
    )


def in_its_gang(
    found: Explanation,
    facts: ClusterFacts,
    make: Callable[[ClusterFacts], Engine],
    subject: Subject,
) -> Explanation:
    """Return *found*, what there is to say of a pod alone, as it is for a pod of a gang.

    A pod that waits for the others of its gang fits only if so many of them fit as it needs.
    """
    key = gang_key(PodInfo(subject.pod))
    if found.verdict != "fits" or subject.state != "waiting" or key is None:
        return found
    workload = gang_in(facts, *key[1:])
    if workload is None or workload.gang is None or workload.placed >= workload.gang.min_count:
        return found
    told = explain_workload(facts, make, workload, Options(changes=False))
    if told.verdict == "fits":
        return found
    _, namespace, name = key
    alone = found.summary.partition(". ")[0].removesuffix(".")
    summary = f"{alone}, but it waits for its gang {namespace}/{name}. {told.summary}"
    return msgspec.structs.replace(found, verdict=told.verdict, summary=summary)


def planned_workload(
    facts: ClusterFacts, pod: Pod, replicas: int, *, kind: str, name: str, namespace: str
) -> Workload:
    """Return a workload that does not exist yet; *pod* is what its manifest makes copies of."""
    subject = manifest_subject(pod, namespace=namespace, classes=facts.priority_classes)
    owner = OwnerReference(api_version="", kind=kind, name=name, uid=name, controller=True)
    metadata = msgspec.structs.replace(
        subject.pod.metadata, name=name, uid=f"planned:{name}", owner_references=(owner,)
    )
    gang = gang_of(PodInfo(subject.pod), facts.objects)
    return Workload(
        kind=kind,
        namespace=metadata.namespace,
        name=name,
        sample=msgspec.structs.replace(subject.pod, metadata=metadata),
        missing=replicas,
        planned=True,
        gang=gang if isinstance(gang, Gang) else None,
    )


def _owners(facts: ClusterFacts, kind: str, namespace: str, name: str) -> set[tuple[str, str]]:
    """Return kind and name of what makes the pods: a Deployment has replica sets for it."""
    if kind != "Deployment":
        return {(kind, name)}
    return {
        ("ReplicaSet", one.metadata.name)
        for one in facts.objects.replica_sets.values()
        if one.metadata.namespace == namespace
        and one.metadata.controller is not None
        and (one.metadata.controller.kind, one.metadata.controller.name) == (kind, name)
    }


def _owner(pod: Pod) -> tuple[str, str] | None:
    owner = pod.metadata.controller
    return None if owner is None else (owner.kind, owner.name)


def _wanted(facts: ClusterFacts, owners: set[tuple[str, str]], namespace: str) -> int:
    """Return how many pods there should be, as far as that is known."""
    objects, count = facts.objects, 0
    for kind, name in owners:
        known = objects.replica_sets if kind == "ReplicaSet" else objects.stateful_sets
        found = known.get(f"{namespace}/{name}") if kind in ("ReplicaSet", "StatefulSet") else None
        count += (found.spec.replicas or 0) if found is not None else 0
    return count


def _new(pod: Pod, name: str) -> Pod:
    """Return a pod like *pod* that does not exist yet, nor do the volumes it will claim."""
    fresh = Subject(pod).unbound()
    volumes = tuple(one for one in fresh.spec.volumes if one.persistent_volume_claim is None)
    metadata = msgspec.structs.replace(fresh.metadata, name=f"{name}-new", uid=f"new:{name}")
    spec = msgspec.structs.replace(fresh.spec, volumes=volumes)
    return msgspec.structs.replace(fresh, metadata=metadata, spec=spec)
