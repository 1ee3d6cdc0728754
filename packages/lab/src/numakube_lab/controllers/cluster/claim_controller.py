"""Claims for devices: made from a pod's templates, and given back when no pod needs them.

Follows kube-controller-manager 1.35 (``pkg/controller/resourceclaim``). A claim that the last pod
stops using is deallocated. One that was made for a pod is deleted with it, or as soon as the pod
has ended. A pod that was bound without a scheduler gets its allocated claims reserved here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

import msgspec

from numakube.api.pod import PodResourceClaimStatus, has_ended
from numakube.api.resource_claims import (
    FINALIZER,
    ResourceClaim,
    ResourceClaimConsumerReference,
)
from numakube.dra import named_claims, used_claims
from numakube.kube import ObjectKey, Removed, key_of, reference_to
from numakube.kube.catalog import PODS
from numakube_lab.controllers.common.controller_loop import (
    NOTHING,
    Action,
    Create,
    Delete,
    LabController,
    Note,
    ObjectPlan,
    PlannedChange,
    differences,
)
from numakube_lab.controllers.common.pod_states import is_terminating, owner_key
from numakube_lab.controllers.object_types import (
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    ResourceClaimTemplate,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from numakube.api.pod import Pod, PodResourceClaim
    from numakube.kube import Change as StoreChange
    from numakube.kube import Document, EventRecorder
    from numakube_lab.controllers.common.controller_loop import MirroredCluster

POD_CLAIM_NAME: Final = "resource.kubernetes.io/pod-claim-name"
"""Annotation of a claim that was made for a pod: the claim's name in the pod's spec."""

MAX_PREFIX: Final = 57
"""Longest start of a generated name that leaves room for its random end."""

UNSEEN_SECONDS: Final = 2.0
"""How long a pod may be missing from the mirror before its reservations are taken back."""


def is_done(pod: Pod) -> bool:
    """Tell whether *pod* will not use its claims any more."""
    return has_ended(pod) or (is_terminating(pod) and not pod.spec.node_name)


def reconcile_pod(
    pod: Pod,
    claims: Mapping[str, ResourceClaim],
    template: Callable[[str], ResourceClaimTemplate | None],
) -> ObjectPlan:
    """Decide what to do about the claims of a pod.

    Args:
        pod: the pod.
        claims: the claims that it names or that were made for it, by name.
        template: finds a template in its namespace by name.
    """
    if is_terminating(pod) or has_ended(pod):
        return NOTHING
    mine = _made_for(pod, claims.values())
    made: dict[str, str] = {}
    missing: list[str] = []
    actions: list[Action] = []
    for wanted, name in named_claims(pod):
        if wanted.resource_claim_template_name is None or _is_there(name, mine):
            continue
        if found := mine.get(wanted.name):
            made[wanted.name] = found.metadata.name
        elif made_from := template(wanted.resource_claim_template_name):
            missing.append(wanted.name)
            actions.append(_creation(pod, wanted, made_from))
        else:
            actions.append(_missing_template(pod, wanted))
    reservations = tuple(_reservations(pod, claims))
    if not (actions or made or reservations):
        return NOTHING

    def then(created: Sequence[ResourceClaim | None]) -> Iterator[Action]:
        names = {n: one.metadata.name for n, one in zip(missing, created, strict=True) if one}
        yield from _claim_statuses(pod, made | names)
        yield from reservations

    return ObjectPlan(tuple(actions), then=then)


def reconcile_claim(
    claim: ResourceClaim,
    is_gone: Callable[[ResourceClaimConsumerReference], bool],
    *,
    owner_is_done: bool,
) -> ObjectPlan:
    """Decide what to do about a claim.

    Args:
        claim: the claim.
        is_gone: tells whether a pod it is reserved for will not use it any more.
        owner_is_done: whether it was made for a pod that will not use it any more.
    """
    valid = tuple(consumer for consumer in claim.status.reserved_for if not is_gone(consumer))
    actions: list[Action] = []
    if len(valid) < len(claim.status.reserved_for):
        actions += _release(claim, valid)
    elif not valid and FINALIZER in claim.metadata.finalizers and _is_going(claim):
        actions += _release(claim, ())
    if not valid and owner_is_done and not _is_going(claim):
        actions.append(Delete(resource=RESOURCE_CLAIMS, key=key_of(claim), uid=claim.metadata.uid))
    return ObjectPlan(tuple(actions))


def _is_going(claim: ResourceClaim) -> bool:
    return claim.metadata.deletion_timestamp is not None


def _is_there(name: str | None, mine: Mapping[str, ResourceClaim]) -> bool:
    return any(claim.metadata.name == name for claim in mine.values())


def _made_for(pod: Pod, claims: Iterable[ResourceClaim]) -> dict[str, ResourceClaim]:
    """Return the claims that were made for *pod*, by their names in its spec."""
    return {
        claim.metadata.annotations[POD_CLAIM_NAME]: claim
        for claim in claims
        if POD_CLAIM_NAME in claim.metadata.annotations
        and (owner := claim.metadata.controller) is not None
        and owner.uid == pod.metadata.uid
    }


def _creation(pod: Pod, wanted: PodResourceClaim, template: ResourceClaimTemplate) -> Create:
    metadata = template.spec.metadata
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.metadata.name,
        "uid": pod.metadata.uid,
        "controller": True,
    }
    document: Document = {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {
            "generateName": _name_prefix(pod.metadata.name, wanted.name),
            "namespace": pod.metadata.namespace,
            "labels": metadata.labels,
            "annotations": {**metadata.annotations, POD_CLAIM_NAME: wanted.name},
            "ownerReferences": [owner],
        },
        "spec": template.spec.spec,
    }
    return Create(resource=RESOURCE_CLAIMS, document=document)


def _name_prefix(pod: str, claim: str) -> str:
    """Return how the name of a claim for a pod begins."""
    whole = f"{pod}-{claim}-"
    if len(whole) <= MAX_PREFIX:
        return whole
    start = pod[: len(pod) * MAX_PREFIX // len(whole)]
    return f"{start}-{claim[: len(claim) * MAX_PREFIX // len(whole)]}"


def _missing_template(pod: Pod, wanted: PodResourceClaim) -> Note:
    name = wanted.resource_claim_template_name
    return Note(
        about=reference_to(PODS, pod),
        reason="FailedResourceClaimCreation",
        message=f'PodResourceClaim {wanted.name}: resource claim template "{name}": '
        f'resourceclaimtemplate.resource.k8s.io "{name}" not found',
        warning=True,
    )


def _claim_statuses(pod: Pod, made: Mapping[str, str]) -> Iterator[PlannedChange]:
    """Yield what tells the pod the names of the claims that were *made* for it."""
    if not made:
        return
    known = pod.status.resource_claim_statuses if pod.status else ()
    statuses = {status.name: status for status in known}
    for name, claim in made.items():
        statuses[name] = PodResourceClaimStatus(name=name, resource_claim_name=claim)
    listed = msgspec.to_builtins(tuple(statuses.values()))
    yield PlannedChange(
        resource=PODS,
        key=key_of(pod),
        patch={"metadata": {"uid": pod.metadata.uid}, "status": {"resourceClaimStatuses": listed}},
        subresource="status",
    )


def _reservations(pod: Pod, claims: Mapping[str, ResourceClaim]) -> Iterator[PlannedChange]:
    """Yield what reserves allocated claims for a pod that was bound without it."""
    if not pod.spec.node_name:
        return
    user = ResourceClaimConsumerReference(
        resource="pods", name=pod.metadata.name, uid=pod.metadata.uid
    )
    for _, name in named_claims(pod):
        claim = claims.get(name or "")
        if claim is None or claim.status.allocation is None or _is_going(claim):
            continue
        if all(consumer.uid != user.uid for consumer in claim.status.reserved_for):
            yield _status(claim, reserved_for=(*claim.status.reserved_for, user))


def _release(
    claim: ResourceClaim, valid: tuple[ResourceClaimConsumerReference, ...]
) -> Iterator[PlannedChange]:
    """Yield what leaves the claim with *valid* reservations; the last one takes the devices."""
    if valid or FINALIZER not in claim.metadata.finalizers:
        yield _status(claim, reserved_for=valid)
        return
    yield _status(claim, reserved_for=(), allocation=None)
    kept = [name for name in claim.metadata.finalizers if name != FINALIZER]
    yield PlannedChange(
        resource=RESOURCE_CLAIMS,
        key=key_of(claim),
        patch={"metadata": {"finalizers": kept}},
        chained=True,
    )


def _status(claim: ResourceClaim, **fields: Any) -> PlannedChange:  # noqa: ANN401 - fields of a status
    changed = msgspec.structs.replace(claim.status, **fields)
    return PlannedChange(
        resource=RESOURCE_CLAIMS,
        key=key_of(claim),
        patch={
            "metadata": {"resourceVersion": claim.metadata.resource_version},
            "status": differences(claim.status, changed),
        },
        subresource="status",
    )


class PodClaims(LabController):
    """Makes the claims of pods from their templates."""

    name: ClassVar[str] = "resource_claim"
    workers: ClassVar[int] = 50  # as kube-controller-manager has

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._pods = cluster.mirror(PODS)
        self._claims = cluster.mirror(RESOURCE_CLAIMS)
        self._templates = cluster.mirror(RESOURCE_CLAIM_TEMPLATES)
        self._pods.indexed("claims", _claim_users)

    def watch(self) -> None:
        """Look again when a pod, a claim or a template changes."""
        self.follow(self._pods, lambda pod: [key_of(pod)] if pod.spec.resource_claims else ())
        self.follow(self._claims, self._users)
        self.follow(self._templates, self._users)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide what to do about the claims of one pod."""
        pod = self._pods.get(key)
        if pod is None or not pod.spec.resource_claims:
            return NOTHING
        named = [ObjectKey(key.namespace, name) for _, name in named_claims(pod) if name]
        claims = (*self._claims.managed_by(pod.metadata.uid), *map(self._claims.get, named))
        return reconcile_pod(
            pod,
            {claim.metadata.name: claim for claim in claims if claim is not None},
            lambda name: self._templates.get(ObjectKey(key.namespace, name)),
        )

    def needs_work(self, key: ObjectKey) -> bool:
        """Tell whether a pod has no claim yet, does not know of it, or has not reserved it."""
        return self.plan(key) is not NOTHING

    def _users(self, changed: ResourceClaim | ResourceClaimTemplate) -> Iterable[ObjectKey]:
        """Return the pods that name a claim or a template, or that the claim was made for."""
        metadata, select = changed.metadata, self._pods.store.select
        users = select("claims", f"{metadata.namespace}/{metadata.name}")
        for owner in metadata.owner_references:
            users += select("claims", owner.uid)
        return map(key_of, users)


class ClaimReservations(LabController):
    """Takes claims back from pods that have ended, and deletes those that were made for them."""

    name: ClassVar[str] = "resource_claim"

    def __init__(self, cluster: MirroredCluster, *, recorder: EventRecorder | None = None) -> None:
        super().__init__(cluster, recorder=recorder)
        self._pods = cluster.mirror(PODS)
        self._claims = cluster.mirror(RESOURCE_CLAIMS)
        self._claims.indexed("reserved", lambda one: [use.uid for use in one.status.reserved_for])
        self._removed: set[str] = set()
        self._unseen_since: dict[str, float] = {}

    def watch(self) -> None:
        """Look again when a claim changes, or a pod that it is reserved for."""
        self._unsubscribe.append(self._pods.store.subscribe(self._note_removed))
        self.follow(self._claims)
        self.follow(self._pods, self._concerned)

    def plan(self, key: ObjectKey) -> ObjectPlan:
        """Decide what to do about one claim."""
        claim = self._claims.get(key)
        if claim is None:
            return NOTHING
        unseen = [use for use in claim.status.reserved_for if self._is_unseen(claim, use)]
        owners = [self._pods.get(owner) for owner in owner_key(claim, "Pod")]
        controller = claim.metadata.controller
        plan = reconcile_claim(
            claim,
            lambda use: use not in unseen and self._is_gone(claim, use),
            owner_is_done=any(
                pod is not None
                and controller is not None
                and (pod.metadata.uid != controller.uid or is_done(pod))
                for pod in owners
            ),
        )
        return ObjectPlan(plan.actions, UNSEEN_SECONDS) if unseen else plan

    def _is_gone(self, claim: ResourceClaim, use: ResourceClaimConsumerReference) -> bool:
        if use.uid in self._removed:
            return True
        pod = self._pods.get(ObjectKey(claim.metadata.namespace, use.name))
        return pod is None or pod.metadata.uid != use.uid or is_done(pod)

    def _is_unseen(self, claim: ResourceClaim, use: ResourceClaimConsumerReference) -> bool:
        """Tell whether the pod is missing from the mirror, which may not show it yet."""
        key = ObjectKey(claim.metadata.namespace, use.name)
        if use.uid in self._removed or self._pods.get(key) is not None:
            self._unseen_since.pop(use.uid, None)
            return False
        now = self.clock.monotonic()
        return now - self._unseen_since.setdefault(use.uid, now) < UNSEEN_SECONDS

    def _note_removed(self, change: StoreChange[Pod]) -> None:
        if isinstance(change, Removed) and used_claims(change.object):
            self._removed.add(change.object.metadata.uid)

    def _concerned(self, pod: Pod) -> Iterable[ObjectKey]:
        reserved = self._claims.store.select("reserved", pod.metadata.uid)
        made = self._claims.managed_by(pod.metadata.uid)
        return {key_of(claim) for claim in (*reserved, *made)}


def _claim_users(pod: Pod) -> Iterable[str]:
    """Yield what a pod with claims is looked up by: what it names, and its uid."""
    for wanted, made in named_claims(pod):
        for name in (made, wanted.resource_claim_template_name):
            if name:
                yield f"{pod.metadata.namespace}/{name}"
    if pod.spec.resource_claims:
        yield pod.metadata.uid
