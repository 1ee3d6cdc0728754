"""The claims that a pod uses, why they cannot be used yet, and what binding them asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from numakube.api.storage_objects import WAIT_FOR_FIRST_CONSUMER, PersistentVolumeClaim
from numakube.scheduling.framework.registry import Service
from numakube.scheduling.snapshot.pod_equivalence import encoded, is_local_to_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numakube.api.meta import ObjectMeta
    from numakube.api.storage_objects import PersistentVolume
    from numakube.scheduling.framework.status import Status
    from numakube.scheduling.snapshot.cluster_objects import ClusterObjects
    from numakube.scheduling.snapshot.pods import PodInfo


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A volume of a pod that is a claim.

    Attributes:
        is_ephemeral: whether the claim was made for this pod alone.
    """

    key: str
    name: str
    is_ephemeral: bool


@dataclass(frozen=True, slots=True)
class PodVolumeClaims:
    """The claims of a pod by state.

    Attributes:
        bound: those that have their volume.
        delayed: those whose volume is chosen or made once the pod has a node.
        immediate: those that wait for a volume regardless of any pod.
    """

    bound: tuple[PersistentVolumeClaim, ...] = ()
    delayed: tuple[PersistentVolumeClaim, ...] = ()
    immediate: tuple[PersistentVolumeClaim, ...] = ()


def claim_uses(pod: PodInfo) -> Iterator[ClaimUse]:
    """Yield the volumes of *pod* that are claims."""
    for volume in pod.pod.spec.volumes:
        if volume.persistent_volume_claim is not None:
            name = volume.persistent_volume_claim.claim_name
            yield ClaimUse(f"{pod.namespace}/{name}", name, is_ephemeral=False)
        elif volume.ephemeral is not None:
            name = f"{pod.name}-{volume.name}"
            yield ClaimUse(f"{pod.namespace}/{name}", name, is_ephemeral=True)


def volume_likeness(pod: PodInfo) -> bytes:
    """Return what tells pods apart that use other volumes; those of a pod alone do not matter."""
    volumes = [volume for volume in pod.pod.spec.volumes if not is_local_to_pod(volume)]
    own = any(volume.ephemeral is not None for volume in volumes)
    return encoded(pod.namespace, volumes, pod.name if own else "")


def uses_claim(pod: PodInfo, key: str) -> bool:
    """Tell whether *pod* uses the claim *key*."""
    return any(use.key == key for use in claim_uses(pod))


def claim_not_found(name: str) -> str:
    """Return what the API says of a claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'


def claims_problem(pod: PodInfo, objects: ClusterObjects) -> str:
    """Say why a claim of *pod* cannot be used; empty if all can."""
    for use in claim_uses(pod):
        claim = objects.claims.get(use.key)
        if claim is None:
            if use.is_ephemeral:
                return (
                    "waiting for ephemeral volume controller to create the "
                    f'persistentvolumeclaim "{use.name}"'
                )
            return claim_not_found(use.name)
        problem = _claim_problem(pod, use, claim)
        if problem:
            return problem
    return ""


def _claim_problem(pod: PodInfo, use: ClaimUse, claim: PersistentVolumeClaim) -> str:
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        return (
            f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume}"'
        )
    if claim.metadata.deletion_timestamp is not None:
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    return ownership_problem(pod, claim) if use.is_ephemeral else ""


def ownership_problem(pod: PodInfo, claim: PersistentVolumeClaim) -> str:
    """Say that an ephemeral *claim* belongs to another pod; empty if it is this one's."""
    owner = claim.metadata.controller
    if owner is not None and owner.uid == pod.uid and claim.metadata.namespace == pod.namespace:
        return ""
    return f"PVC {claim.metadata.key} was not created for pod {pod.key} (pod is not owner)"


def pod_claims(
    pod: PodInfo,
    objects: ClusterObjects,
    latest: Callable[[str], PersistentVolumeClaim | None],
) -> PodVolumeClaims | str:
    """Return the claims of *pod* by state, or why that is unknown.

    Args:
        pod: the pod.
        objects: where storage classes are found.
        latest: gives a claim by key, as it is assumed to be.
    """
    bound: list[PersistentVolumeClaim] = []
    delayed: list[PersistentVolumeClaim] = []
    immediate: list[PersistentVolumeClaim] = []
    for use in claim_uses(pod):
        claim = latest(use.key)
        if claim is None:
            return f'error getting PVC "{use.key}": {claim_not_found(use.name)}'
        if claim.is_bound:
            bound.append(claim)
            continue
        mode = _waits(claim, objects)
        if isinstance(mode, str):
            return mode
        (delayed if mode and not claim.spec.volume_name else immediate).append(claim)
    return PodVolumeClaims(tuple(bound), tuple(delayed), tuple(immediate))


def _waits(claim: PersistentVolumeClaim, objects: ClusterObjects) -> bool | str:
    """Tell whether the volume of *claim* waits for the first pod."""
    found = objects.storage_classes.get(claim.class_name)
    if found is None:
        return False
    if found.volume_binding_mode is None:
        return f'VolumeBindingMode not set for StorageClass "{claim.class_name}"'
    return found.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


class _HasMeta(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...


T = TypeVar("T", bound=_HasMeta)


class Assumed(Generic[T]):
    """Objects of one kind, by key, as they will be once our own changes are through.

    Between the decision for a pod and the API server's answer the volumes chosen for it must not be
    chosen again. An assumed object stands in for the known one until the API server has told of a
    newer version, or of another object of that name.
    """

    def __init__(self) -> None:
        self._objects: dict[str, T] = {}

    def latest(self, known: T) -> T:
        """Return what *known* is assumed to be."""
        key = known.metadata.key
        assumed = self._objects.get(key)
        if assumed is None:
            return known
        replaced = known.metadata.uid != assumed.metadata.uid
        if replaced or _version(known) > _version(assumed):
            del self._objects[key]
            return known
        return assumed

    def assume(self, changed: T) -> None:
        """Take *changed* for what the object will be."""
        self._objects[changed.metadata.key] = changed

    def restore(self, changed: T) -> None:
        """Forget an assumption."""
        self.forget(changed.metadata.key)

    def forget(self, key: str) -> None:
        """Forget what was assumed of the object with that key."""
        self._objects.pop(key, None)


def _version(one: _HasMeta) -> int:
    text = one.metadata.resource_version
    return int(text) if text.isdecimal() else 0


# ------------------------------------------------------------------------------------------------
# What binding volumes asks of the process that runs the scheduler.


class VolumeActions(Protocol):
    """Changes of volumes and claims, and waiting for what others make of them.

    Changes are meant for the version of the object that is given: the process must send its
    ``resourceVersion`` along, and raise `numakube.errors.NumakubeError` if that fails.
    """

    async def bind_volume(self, volume: PersistentVolume) -> None:
        """Write the ``claimRef`` and the annotations of *volume*."""
        ...

    async def select_node(self, claim: PersistentVolumeClaim) -> None:
        """Write the annotations of *claim*, which name the selected node."""
        ...

    async def until(self, done: Callable[[], Status | None], *, timeout_seconds: float) -> Status:
        """Ask *done*, now and whenever claims or volumes change, until it gives an answer.

        Returns:
            that answer, or a failure that says ``timed out`` when the time is over.
        """
        ...


VOLUME_ACTIONS: Final = Service[VolumeActions]("volume-actions")
