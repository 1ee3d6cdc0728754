"""What the enforcer needs to know of pods, from the API's objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from numakube.api.koordinator import keys
from numakube.api.pod import has_ended
from numakube.apps.enforcer.allowed_cpus import PodState
from numakube.koordinator.ledger.allotment_annotations import allotment_of
from numakube.koordinator.wish.qos import qos_of
from numakube.node.cgroups.group_names import bare_id

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numakube.api.pod import ContainerStatus, Pod
    from numakube.koordinator.ledger.holdings import Allotment


def state_of(pod: Pod, uid: str) -> PodState:
    """Return what matters of *pod*, whose groups have *uid*; one that is done holds nothing."""
    problems: list[str] = []
    return PodState(
        uid=uid,
        name=f"{pod.metadata.namespace}/{pod.metadata.name}",
        qos=qos_of(pod.metadata.labels),
        containers={
            bare_id(status.container_id): status.name
            for status in _statuses(pod)
            if status.container_id
        },
        allotment=_allotment(pod, problems),
        problems=tuple(problems),
    )


def departed(uid: str) -> PodState:
    """Return a pod that still runs but that the API does not have any more."""
    return PodState(uid=uid, name=f"(uid {uid})")


def _allotment(pod: Pod, problems: list[str]) -> Allotment | None:
    """Return what a scheduler gave *pod*; what others merely observed is not enforced."""
    if has_ended(pod) or keys.RESOURCE_STATUS not in pod.metadata.annotations:
        return None
    return allotment_of(pod, problems)


def _statuses(pod: Pod) -> Iterable[ContainerStatus]:
    if pod.status is not None:
        yield from pod.status.init_container_statuses
        yield from pod.status.container_statuses
