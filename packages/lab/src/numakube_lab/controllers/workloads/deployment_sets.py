"""The replica sets of a deployment: which is the new one, what it looks like, how it is numbered.

A deployment's revision is that of its new replica set. Going back to an earlier template makes the
old replica set of that template the new one again, with the next number; the numbers it had before
are kept in an annotation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.kube.event_recorder import reference_to
from numakube.kube.resource_types import key_of
from numakube_lab.controllers.common.controller_actions import Action, Change, Create, Note
from numakube_lab.controllers.common.owner_references import owner_document
from numakube_lab.controllers.types.workload_types import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    ReplicaSet,
)
from numakube_lab.controllers.workloads.pod_from_template import (
    template_hash,
    with_labels,
    without_label,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.meta import LabelSelector
    from numakube.kube.resource_types import Document

HASH_LABEL: Final = "pod-template-hash"
REVISION: Final = "deployment.kubernetes.io/revision"
REVISION_HISTORY: Final = "deployment.kubernetes.io/revision-history"
DESIRED_REPLICAS: Final = "deployment.kubernetes.io/desired-replicas"
MAX_REPLICAS: Final = "deployment.kubernetes.io/max-replicas"

_NOT_INHERITED: Final = frozenset(
    {
        "kubectl.kubernetes.io/last-applied-configuration",
        "deprecated.deployment.rollback.to",
        REVISION,
        REVISION_HISTORY,
        DESIRED_REPLICAS,
        MAX_REPLICAS,
    }
)


def oldest_first(sets: Iterable[ReplicaSet]) -> list[ReplicaSet]:
    """Return *sets* by age, and by name where that is equal."""
    return sorted(sets, key=lambda one: (one.metadata.creation_timestamp or "", one.metadata.name))


def find_new(deployment: Deployment, sets: Iterable[ReplicaSet]) -> ReplicaSet | None:
    """Return the replica set that has the deployment's template: the oldest of several."""
    wanted = without_label(deployment.spec.template, HASH_LABEL)
    for one in oldest_first(sets):
        if without_label(one.spec.template, HASH_LABEL) == wanted:
            return one
    return None


def revision_of(obj: ReplicaSet | Deployment) -> int:
    """Return the revision that *obj* says to have; 0 if it says none."""
    return number_in(obj.metadata.annotations, REVISION) or 0


def number_in(annotations: Mapping[str, str], name: str) -> int | None:
    """Return the number in an annotation, if there is one."""
    text = annotations.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() else None


def next_revision(old: Iterable[ReplicaSet]) -> int:
    """Return the revision of the replica set that follows *old*."""
    return max(map(revision_of, old), default=0) + 1


def new_annotations(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet]
) -> dict[str, str]:
    """Return the annotations that the new replica set should have for its deployment's sake."""
    inherited = {
        name: value
        for name, value in deployment.metadata.annotations.items()
        if name not in _NOT_INHERITED
    }
    revision = next_revision(old)
    had = revision_of(new) if new else 0
    if had >= revision:
        return inherited
    inherited[REVISION] = str(revision)
    if new is not None and had:
        history = new.metadata.annotations.get(REVISION_HISTORY, "")
        inherited[REVISION_HISTORY] = f"{history},{had}" if history else str(had)
    return inherited


def set_name(deployment: Deployment) -> str:
    """Return the name of the replica set for the deployment's template."""
    return f"{deployment.metadata.name}-{_hash(deployment)}"


def creation(
    deployment: Deployment, old: Sequence[ReplicaSet], *, replicas: int, most: int
) -> tuple[Action, ...]:
    """Return what creates the new replica set."""
    spec = deployment.spec
    labels = {HASH_LABEL: _hash(deployment)}
    template = with_labels(spec.template, labels)
    annotations = new_annotations(deployment, None, old)
    document: Document = {
        "apiVersion": REPLICA_SETS.api_version,
        "kind": REPLICA_SETS.kind,
        "metadata": {
            "name": set_name(deployment),
            "namespace": deployment.metadata.namespace,
            "labels": template["metadata"]["labels"],
            "annotations": annotations | size_annotations(spec.replicas, most),
            "ownerReferences": [owner_document(DEPLOYMENTS, deployment)],
        },
        "spec": {
            "replicas": replicas,
            "minReadySeconds": spec.min_ready_seconds,
            "selector": _selector_with(spec.selector, labels),
            "template": template,
        },
    }
    created = Create(resource=REPLICA_SETS, document=document)
    if not replicas:
        return (created,)
    return (created, scaling_note(deployment, set_name(deployment), 0, replicas))


def resized(
    deployment: Deployment, target: ReplicaSet, replicas: int, *, most: int
) -> tuple[Action, ...]:
    """Return what makes *target* have that many pods; nothing if it has."""
    annotations = size_annotations(deployment.spec.replicas, most)
    stated = annotations.items() <= target.metadata.annotations.items()
    if target.spec.replicas == replicas and (stated or not replicas):
        return ()
    change = Change(
        resource=REPLICA_SETS,
        key=key_of(target),
        patch={
            "metadata": {
                "resourceVersion": target.metadata.resource_version,
                "annotations": annotations,
            },
            "spec": {"replicas": replicas},
        },
    )
    if target.spec.replicas == replicas:
        return (change,)
    note = scaling_note(deployment, target.metadata.name, target.spec.replicas, replicas)
    return (change, note)


def updated(
    deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]
) -> tuple[Change, ...]:
    """Return what brings the new replica set up to date with its deployment, besides its size."""
    annotations = new_annotations(deployment, new, old)
    seconds = deployment.spec.min_ready_seconds
    current = new.metadata.annotations
    if annotations.items() <= current.items() and new.spec.min_ready_seconds == seconds:
        return ()
    patch: Document = {
        "metadata": {
            "resourceVersion": new.metadata.resource_version,
            "annotations": annotations,
        },
        "spec": {"minReadySeconds": seconds},
    }
    return (Change(resource=REPLICA_SETS, key=key_of(new), patch=patch),)


def scaling_note(deployment: Deployment, name: str, before: int, after: int) -> Note:
    """Return the event that tells of a changed size."""
    direction = "up" if after > before else "down"
    return Note(
        about=reference_to(DEPLOYMENTS, deployment),
        reason="ScalingReplicaSet",
        message=f"Scaled {direction} replica set {name} from {before} to {after}",
    )


def size_annotations(replicas: int, most: int) -> dict[str, str]:
    """Return the annotations that tell for which size of the deployment a set was scaled."""
    return {DESIRED_REPLICAS: str(replicas), MAX_REPLICAS: str(most)}


def _hash(deployment: Deployment) -> str:
    return template_hash(deployment.spec.template, deployment.status.collision_count)


def _selector_with(selector: LabelSelector, labels: Mapping[str, str]) -> Document:
    document: Document = {"matchLabels": {**selector.match_labels, **labels}}
    if selector.match_expressions:
        document["matchExpressions"] = [
            {"key": one.key, "operator": one.operator, "values": list(one.values)}
            if one.values
            else {"key": one.key, "operator": one.operator}
            for one in selector.match_expressions
        ]
    return document
