"""The replica sets of a deployment: which is the new one, what it looks like, how it is numbered.

A deployment's revision is that of its new replica set. Going back to an earlier template makes the
old replica set of that template the new one again, with the next number; the numbers it had before
are kept in an annotation.

The arithmetic of rolling updates: how many pods each replica set of a deployment should have.
Pure numbers, after kube-controller-manager 1.35. Old replica sets are always taken oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

from numakube.kube import key_of, reference_to
from numakube_lab.controllers.common.controller_loop import Action, Create, Note, PlannedChange
from numakube_lab.controllers.common.pod_states import owner_document
from numakube_lab.controllers.object_types import (
    DEPLOYMENTS,
    REPLICA_SETS,
    Deployment,
    ReplicaSet,
)
from numakube_lab.controllers.workloads.template_revisions import (
    template_hash,
    with_labels,
    without_label,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numakube.api.meta import LabelSelector
    from numakube.kube import Document
    from numakube_lab.controllers.object_types import IntOrPercent


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
    for replica_set in oldest_first(sets):
        if without_label(replica_set.spec.template, HASH_LABEL) == wanted:
            return replica_set
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
    change = PlannedChange(
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
) -> tuple[PlannedChange, ...]:
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
    return (PlannedChange(resource=REPLICA_SETS, key=key_of(new), patch=patch),)


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
            {
                "key": expression.key,
                "operator": expression.operator,
                "values": list(expression.values),
            }
            if expression.values
            else {"key": expression.key, "operator": expression.operator}
            for expression in selector.match_expressions
        ]
    return document


@dataclass(frozen=True, slots=True)
class Size:
    """A replica set in numbers.

    Attributes:
        replicas: how many pods it should have.
        available: how many of its pods are available.
        basis: how large its deployment could be when it was last scaled; None if unknown.
    """

    name: str
    replicas: int
    available: int
    basis: int | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """What a rolling update has to keep to.

    Attributes:
        replicas: how many pods are wanted.
        surge: how many more there may be.
        unavailable: how many of the wanted may be unavailable.
    """

    replicas: int
    surge: int
    unavailable: int

    @property
    def most(self) -> int:
        """The largest number of pods."""
        return self.replicas + self.surge

    @property
    def least_available(self) -> int:
        """The smallest number of available pods."""
        return self.replicas - self.unavailable


def share_of(part: IntOrPercent, whole: int, *, round_up: bool) -> int:
    """Return a number of pods that is given as such, or as a percentage of *whole*."""
    if isinstance(part, int):
        return part
    digits = part.removesuffix("%")
    if not part.endswith("%") or not digits.isdecimal():
        return 0
    scaled = int(digits) * whole
    return -(-scaled // 100) if round_up else scaled // 100


def rolling_limits(replicas: int, max_surge: IntOrPercent, max_unavailable: IntOrPercent) -> Limits:
    """Return the limits of a rolling update; without any margin, one pod may be unavailable."""
    surge = share_of(max_surge, replicas, round_up=True)
    unavailable = share_of(max_unavailable, replicas, round_up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Limits(replicas, surge, min(unavailable, replicas))


def new_size(new: int, total: int, limits: Limits) -> int:
    """Return how many pods the new replica set should have, of *new* that it has.

    Args:
        new: how many it should have at present; 0 if it does not exist yet.
        total: how many all replica sets should have.
        limits: what to keep to.
    """
    if new >= limits.replicas:
        return limits.replicas
    room = limits.most - total
    return new if room <= 0 else new + min(room, limits.replicas - new)


def shrink_old(old: Sequence[Size], new: Size, limits: Limits) -> dict[str, int]:
    """Return the new sizes of old replica sets: pods that are not available go first."""
    total = sum(size.replicas for size in old) + new.replicas
    margin = total - limits.least_available - (new.replicas - new.available)
    if margin <= 0:
        return {}
    sizes = _drop_unavailable(old, margin)
    available = sum(size.available for size in old) + new.available
    spare = available - limits.least_available
    for size in old:
        if spare <= 0:
            break
        current = sizes.get(size.name, size.replicas)
        taken = min(current, spare)
        if taken > 0:
            sizes[size.name] = current - taken
            spare -= taken
    return sizes


def _drop_unavailable(old: Sequence[Size], most: int) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for size in old:
        dropped = min(most, size.replicas - size.available)
        if dropped > 0:
            sizes[size.name] = size.replicas - dropped
            most -= dropped
    return sizes


def scale_in_proportion(sets: Sequence[Size], limits: Limits, present: int) -> dict[str, int]:
    """Spread a change of a deployment's size over its active replica sets, in mid-rollout.

    Args:
        sets: the active replica sets, the largest first; of equals, the newest first when growing
            and the oldest first when shrinking.
        limits: the wanted size.
        present: the size that the deployment last reported.
    """
    allowed = limits.most if limits.replicas > 0 else 0
    to_add = allowed - sum(size.replicas for size in sets)
    added = 0
    sizes: dict[str, int] = {}
    for size in sets:
        share = _proportion(size, limits, present, to_add - added) if to_add else 0
        sizes[size.name] = size.replicas + share
        added += share
    if sets and to_add != added:
        first = sets[0].name
        sizes[first] = max(0, sizes[first] + to_add - added)
    return sizes


def _proportion(one: Size, limits: Limits, present: int, rest: int) -> int:
    if one.replicas == 0 or rest == 0:
        return 0
    if limits.replicas == 0:
        wanted = -one.replicas
    else:
        basis = one.basis or present
        share = Fraction(one.replicas * limits.most, basis) if basis else Fraction(0)
        # Go rounds halves away from zero; shares are never negative.
        wanted = int(share + Fraction(1, 2)) - one.replicas
    return min(wanted, rest) if rest > 0 else max(wanted, rest)
