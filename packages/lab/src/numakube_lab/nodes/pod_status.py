"""The pod status that a kubelet writes: a pure function of the pod and of how its containers fare.

Conditions, reasons and messages are those of kubelet 1.35. `status_patch` turns a status into the
strategic merge patch that changes the API object; conditions of other owners (``PodScheduled`` with
a scheduler's reason, readiness gates) are left alone by it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from numakube.api.pod import (
    ENDED_PHASES,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    HostIP,
    PodCondition,
    PodIP,
    PodStatus,
    ResourceRequirements,
)
from numakube.api.pod_resources import RESIZE_PENDING, is_sidecar, pending_resize, qos_class
from numakube.kubelet import NO_ANSWER, UNEXPECTED
from numakube.values.gotext import go_quote
from numakube.values.times import format_duration, format_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from numakube.api.pod import Container, Pod
    from numakube.kubelet import Rejected
    from numakube_lab.nodes.container_timeline import ContainerRun, Ended, PodRun

Document: TypeAlias = dict[str, Any]

PENDING: Final = "Pending"
RUNNING: Final = "Running"
SUCCEEDED: Final = "Succeeded"
FAILED: Final = "Failed"

_DEADLINE = (
    "DeadlineExceeded",
    "Pod was active on the node longer than the specified deadline",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPlace:
    """Where a pod runs."""

    host_ip: str
    pod_ip: str


def rejected_status(pod: Pod, rejected: Rejected, *, now: datetime) -> PodStatus:
    """Return the status of a pod that the kubelet refuses to run.

    A kubelet that would not come to an end in time rejects the pod for a reason that schedulers
    know, or they would bind the next pod of its owner there, and so on for ever.
    """
    old = pod.status or PodStatus()
    return PodStatus(
        phase=FAILED,
        reason=UNEXPECTED if rejected.reason == NO_ANSWER else rejected.reason,
        message=f"Pod was rejected: {rejected.message}",
        qos_class=qos_class(pod),
        start_time=old.start_time or format_time(now),
        observed_generation=pod.metadata.generation,
    )


def observed_status(
    pod: Pod,
    run: PodRun,
    *,
    place: PodPlace,
    begun: datetime,
    now: datetime,
    allocated: Pod | None = None,
) -> PodStatus:
    """Return the status of a pod that was admitted at *begun*.

    *allocated* is the pod with the resources that it has, for kubelets that tell.
    """
    phase = phase_of(pod, run)
    reason, message = _DEADLINE if run.deadline_exceeded and run.stopped else ("", "")
    statuses = _with_resources(
        _container_statuses(pod, pod.spec.containers, run.containers), allocated
    )
    has_address = _has_begun(run)
    return PodStatus(
        phase=phase,
        reason=reason,
        message=message,
        qos_class=qos_class(pod),
        conditions=tuple(_conditions(pod, run, phase, statuses, now=now)),
        host_ip=place.host_ip,
        host_ips=(HostIP(ip=place.host_ip),),
        pod_ip=place.pod_ip if has_address else "",
        pod_ips=(PodIP(ip=place.pod_ip),) if has_address else (),
        start_time=format_time(begun),
        init_container_statuses=_with_resources(
            _container_statuses(pod, pod.spec.init_containers, run.init), allocated
        ),
        container_statuses=statuses,
        observed_generation=pod.metadata.generation,
    )


def with_resize_pending(
    pod: Pod, status: PodStatus, refused: Rejected, *, now: datetime
) -> PodStatus:
    """Return *status* of a pod whose resize the kubelet refuses."""
    known = pending_resize(pod)
    since = known.last_transition_time if known is not None else format_time(now)
    pending = PodCondition(
        type=RESIZE_PENDING,
        status="True",
        reason=refused.reason,
        message=refused.message,
        last_transition_time=since,
        observed_generation=pod.metadata.generation,
    )
    return msgspec.structs.replace(status, conditions=(*status.conditions, pending))


def has_resize_pending(pod: Pod, refused: Rejected) -> bool:
    """Tell whether the API object already says that a resize was refused so."""
    known = pending_resize(pod)
    return known is not None and (known.reason, known.message) == (refused.reason, refused.message)


def phase_of(pod: Pod, run: PodRun) -> str:
    """Return the phase that follows from the containers, as the kubelet derives it."""
    runs = list(run.containers.values())
    if (run.deadline_exceeded and run.stopped) or _cannot_initialize(pod, run):
        return FAILED
    if any(one.started is None and one.ended is None and one.last is None for one in runs):
        return PENDING
    if not all(one.ended for one in runs):
        return RUNNING
    failed = any(one.ended and one.ended.exit_code for one in runs)
    return FAILED if failed else SUCCEEDED


def _cannot_initialize(pod: Pod, run: PodRun) -> bool:
    """Tell whether an init container has failed for good."""
    ends = (
        run.init[container.name].ended
        for container in pod.spec.init_containers
        if not is_sidecar(container)
    )
    return any(ended.exit_code for ended in ends if ended is not None)


def status_patch(pod: Pod, status: PodStatus) -> Document:
    """Return the strategic merge patch that brings the API object from its status to *status*.

    It names the uid, so that it cannot hit another pod that took the name since.
    """
    old = pod.status or PodStatus()
    document: Document = msgspec.to_builtins(status)
    for field, name in _ERASABLE.items():
        if getattr(old, field) and not getattr(status, field):
            document[name] = None
    if status.conditions:
        document["conditions"] = [_condition_patch(condition) for condition in status.conditions]
        if _is_resolved(pod, status):
            document["conditions"].append({"type": RESIZE_PENDING, "$patch": "delete"})
    # Keeps the server from having to merge what the kubelet alone decides.
    document.pop("qosClass", None)
    return {"metadata": {"uid": pod.metadata.uid}, "status": document}


def is_written(pod: Pod, status: PodStatus) -> bool:
    """Tell whether the API object already says what *status* says."""
    old = pod.status
    if old is None:
        return False
    conditions = {condition.type: condition for condition in old.conditions}
    return (
        all(getattr(old, field) == getattr(status, field) for field in _COMPARED)
        and all(
            _same_condition(conditions.get(condition.type), condition)
            for condition in status.conditions
        )
        and not _is_resolved(pod, status)
    )


def _is_resolved(pod: Pod, status: PodStatus) -> bool:
    """Tell whether a resize that waited does so no longer."""
    waits = any(condition.type == RESIZE_PENDING for condition in status.conditions)
    return pending_resize(pod) is not None and not waits


_COMPARED: Final = (
    "phase",
    "reason",
    "message",
    "host_ip",
    "pod_ip",
    "start_time",
    "observed_generation",
    "init_container_statuses",
    "container_statuses",
)
_ERASABLE: Final = {
    "reason": "reason",
    "message": "message",
    "pod_ip": "podIP",
    "pod_ips": "podIPs",
    "container_statuses": "containerStatuses",
    "init_container_statuses": "initContainerStatuses",
}


def _condition_patch(condition: PodCondition) -> Document:
    document: Document = {"reason": None, "message": None}
    document.update(msgspec.to_builtins(condition))
    return document


def _same_condition(old: PodCondition | None, new: PodCondition) -> bool:
    return old is not None and (old.status, old.reason, old.message) == (
        new.status,
        new.reason,
        new.message,
    )


def _conditions(
    pod: Pod,
    run: PodRun,
    phase: str,
    statuses: Iterable[ContainerStatus],
    *,
    now: datetime,
) -> Iterable[PodCondition]:
    old = {condition.type: condition for condition in (pod.status.conditions if pod.status else ())}
    sandbox = _has_begun(run) and phase not in ENDED_PHASES
    verdicts = {
        "PodReadyToStartContainers": ("True" if sandbox else "False", "", ""),
        "Initialized": _initialized(pod, run, phase),
        "Ready": _pod_ready(pod, phase, statuses),
        "ContainersReady": _ready(phase, statuses),
        "PodScheduled": ("True", "", ""),
    }
    for type_, (status, reason, message) in verdicts.items():
        before = old.get(type_)
        unchanged = before is not None and before.status == status
        if type_ == "PodScheduled" and unchanged:
            continue
        since = before.last_transition_time if before is not None and unchanged else None
        yield PodCondition(
            type=type_,
            status=status,
            reason=reason,
            message=message,
            last_transition_time=since or format_time(now),
            observed_generation=pod.metadata.generation,
        )


def _has_begun(run: PodRun) -> bool:
    every = (*run.containers.values(), *run.init.values())
    return any(one.started or one.ended or one.last for one in every)


def _initialized(pod: Pod, run: PodRun, phase: str) -> tuple[str, str, str]:
    """A pod is initialized once its init containers are done, or an app container has started."""
    if phase == SUCCEEDED:
        return "True", "PodCompleted", ""
    waiting = [
        container.name for container in pod.spec.init_containers if _is_incomplete(container, run)
    ]
    begun = any(
        container.started or container.ended or container.last
        for container in run.containers.values()
    )
    if begun or not waiting:
        return "True", "", ""
    text = f"containers with incomplete status: [{' '.join(waiting)}]"
    return "False", "ContainersNotInitialized", text


def _is_incomplete(container: Container, run: PodRun) -> bool:
    """Tell whether an init container is in the way of those after it."""
    one = run.init[container.name]
    if is_sidecar(container):
        return one.started is None
    return one.ended is None or one.ended.exit_code != 0


def _pod_ready(pod: Pod, phase: str, statuses: Iterable[ContainerStatus]) -> tuple[str, str, str]:
    """A pod is ready if its containers are, and every readiness gate is open."""
    containers = _ready(phase, statuses)
    if containers[0] != "True":
        return containers
    known = {
        condition.type: condition.status
        for condition in (pod.status.conditions if pod.status else ())
    }
    closed = [
        _closed_gate(gate.condition_type, known.get(gate.condition_type))
        for gate in pod.spec.readiness_gates
        if known.get(gate.condition_type) != "True"
    ]
    return ("False", "ReadinessGatesNotReady", ", ".join(closed)) if closed else containers


def _closed_gate(type_: str, status: str | None) -> str:
    name = go_quote(type_)
    if status is None:
        return f"corresponding condition of pod readiness gate {name} does not exist."
    return f'the status of pod readiness gate {name} is not "True", but {status}'


def _ready(phase: str, statuses: Iterable[ContainerStatus]) -> tuple[str, str, str]:
    if phase in ENDED_PHASES:
        return "False", "PodCompleted" if phase == SUCCEEDED else "PodFailed", ""
    unready = [status.name for status in statuses if not status.ready]
    if not unready:
        return "True", "", ""
    return "False", "ContainersNotReady", f"containers with unready status: [{' '.join(unready)}]"


def _container_statuses(
    pod: Pod, containers: Iterable[Container], runs: Mapping[str, ContainerRun]
) -> tuple[ContainerStatus, ...]:
    return tuple(
        _container_status(pod, container, runs[container.name]) for container in containers
    )


def _with_resources(
    statuses: tuple[ContainerStatus, ...], allocated: Pod | None
) -> tuple[ContainerStatus, ...]:
    """Return *statuses* with what running containers have, since 1.33."""
    if allocated is None:
        return statuses
    every = (*allocated.spec.containers, *allocated.spec.init_containers)
    held = {container.name: container.resources or ResourceRequirements() for container in every}
    return tuple(
        msgspec.structs.replace(
            status, resources=held[status.name], allocated_resources=held[status.name].requests
        )
        if status.started
        else status
        for status in statuses
    )


def _container_status(pod: Pod, container: Container, run: ContainerRun) -> ContainerStatus:
    current = container_id(pod.metadata.uid, container.name, run.restarts)
    previous = container_id(pod.metadata.uid, container.name, max(0, run.restarts - 1))
    waits_again = run.started is None and run.ended is None and run.last is not None
    is_init = any(other is container for other in pod.spec.init_containers)
    done = run.ended is not None and run.ended.exit_code == 0
    return ContainerStatus(
        name=container.name,
        ready=done if is_init and not is_sidecar(container) else run.started is not None,
        restart_count=run.restarts,
        image=container.image,
        image_id=_image_id(container.image) if run.started or run.ended or run.last else "",
        container_id=current if run.started or run.ended or run.last else "",
        started=run.started is not None,
        state=_state(pod, container, run, current),
        last_state=_terminated(run.last, current if waits_again else previous),
    )


def _state(pod: Pod, container: Container, run: ContainerRun, id_: str) -> ContainerState:
    if run.started is not None:
        return ContainerState(running=ContainerStateRunning(started_at=format_time(run.started)))
    if run.ended is not None:
        return _terminated(run.ended, id_)
    return ContainerState(waiting=_waiting(pod, container, run))


def _waiting(pod: Pod, container: Container, run: ContainerRun) -> ContainerStateWaiting:
    if run.trouble is not None:
        reason, message = run.trouble
        return ContainerStateWaiting(reason=reason, message=message)
    if run.last is None or not run.back_off:
        initializes = bool(pod.spec.init_containers)
        return ContainerStateWaiting(
            reason="PodInitializing" if initializes else "ContainerCreating"
        )
    metadata = pod.metadata
    return ContainerStateWaiting(
        reason="CrashLoopBackOff",
        message=f"back-off {format_duration(int(run.back_off * 1e9))} restarting failed container="
        f"{container.name} pod={metadata.name}_{metadata.namespace}({metadata.uid})",
    )


def _terminated(ended: Ended | None, id_: str) -> ContainerState:
    if ended is None:
        return ContainerState()
    return ContainerState(
        terminated=ContainerStateTerminated(
            exit_code=ended.exit_code,
            reason=ended.reason,
            started_at=format_time(ended.started),
            finished_at=format_time(ended.finished),
            container_id=id_,
        )
    )


def container_id(uid: str, container: str, restarts: int) -> str:
    """Return the id of a container's incarnation; always the same for the same one."""
    text = f"{uid}/{container}/{restarts}"
    return f"containerd://{hashlib.sha256(text.encode()).hexdigest()}"


def _image_id(image: str) -> str:
    name = image.split("@")[0].rpartition(":")
    repository = name[0] if name[0] and "/" not in name[2] else image.split("@")[0]
    return f"{repository}@sha256:{hashlib.sha256(image.encode()).hexdigest()}"
