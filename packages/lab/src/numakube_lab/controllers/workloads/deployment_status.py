"""What a deployment reports of itself: counts, and whether it is available and progresses.

``kubectl rollout status`` and ``kubectl wait`` read nothing but this.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from numakube.values.times import format_time
from numakube_lab.controllers.common.pod_states import time_of
from numakube_lab.controllers.types.workload_types import (
    Condition,
    Deployment,
    DeploymentStatus,
    ReplicaSet,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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
    available = sum(one.status.available_replicas for one in sets)
    total = sum(one.status.replicas for one in sets)
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
        ready_replicas=sum(one.status.ready_replicas for one in sets),
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
    return next((one for one in conditions if one.type == kind), None)


def without_condition(conditions: Conditions, kind: str) -> Conditions:
    """Return the conditions less the one of this type."""
    return tuple(one for one in conditions if one.type != kind)


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
