"""The table of pods: what ``kubectl get pods`` says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from numakube_lab.objects.tables.age_texts import human_age
from numakube_lab.objects.tables.table_columns import (
    AGE,
    NAME,
    NONE,
    Column,
    Table,
    age_of,
    condition_status,
    name_of,
    wide,
)

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.kinds import Json, JsonValue

_COLUMNS: Final = (
    NAME,
    Column("Ready", "How many of the pod's containers are ready."),
    Column("Status", "What the pod's containers are doing, in one word."),
    Column("Restarts", "How often containers were started again, and when the last time was."),
    AGE,
    wide("IP", "First address of the pod."),
    wide("Node", "Node that the pod is bound to."),
    wide("Nominated Node", "Node on which pods are being preempted for this pod."),
    wide("Readiness Gates", "How many of the conditions that the pod waits for are true."),
)

_ENDED: Final = {"Succeeded": "The pod has completed successfully.", "Failed": "The pod failed."}


@dataclass(slots=True)
class _Summary:
    """What the containers add up to."""

    reason: str
    ready: int = 0
    restarts: int = 0
    last_restart: str = ""

    def count_restarts(self, state: Json) -> None:
        self.restarts += state.get("restartCount") or 0
        ended = (state.get("lastState") or {}).get("terminated") or {}
        self.last_restart = max(self.last_restart, ended.get("finishedAt") or "")

    def shown_restarts(self, now: datetime) -> str:
        if self.restarts and self.last_restart:
            return f"{self.restarts} ({human_age(self.last_restart, now)} ago)"
        return str(self.restarts)


def _cells(pod: Json, now: datetime) -> list[JsonValue]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    summary = _summarize(pod, spec, status)
    sidecars = sum(map(_is_sidecar, spec.get("initContainers") or []))
    return [
        name_of(pod),
        f"{summary.ready}/{len(spec.get('containers') or []) + sidecars}",
        _reason_of_deletion(pod, status) or summary.reason,
        summary.shown_restarts(now),
        age_of(pod, now),
        next((item.get("ip") for item in status.get("podIPs") or []), "") or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _gates(pod, spec),
    ]


def _is_sidecar(container: Json) -> bool:
    return container.get("restartPolicy") == "Always"


def _reason_of_deletion(pod: Json, status: Json) -> str:
    if not pod["metadata"].get("deletionTimestamp"):
        return ""
    if status.get("reason") == "NodeLost":
        return "Unknown"
    return "" if status.get("phase") in _ENDED else "Terminating"


def _summarize(pod: Json, spec: Json, status: Json) -> _Summary:
    summary = _Summary(status.get("reason") or status.get("phase") or "")
    for condition in status.get("conditions") or []:
        if condition["type"] == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            summary.reason = "SchedulingGated"
    of_sidecars = _Summary("")
    initializing = _add_init_containers(summary, of_sidecars, spec, status)
    if not initializing or condition_status(pod, "Initialized") == "True":
        summary.restarts, summary.last_restart = of_sidecars.restarts, of_sidecars.last_restart
        _add_containers(summary, pod, status)
    return summary


def _add_init_containers(
    summary: _Summary, of_sidecars: _Summary, spec: Json, status: Json
) -> bool:
    """Add the init containers up to the one that runs; tell whether one still does."""
    declared = spec.get("initContainers") or []
    sidecars = {container["name"] for container in declared if _is_sidecar(container)}
    for index, state in enumerate(status.get("initContainerStatuses") or []):
        summary.count_restarts(state)
        is_sidecar = state["name"] in sidecars
        if is_sidecar:
            of_sidecars.count_restarts(state)
        current = state.get("state") or {}
        terminated = current.get("terminated")
        if terminated is not None and not terminated.get("exitCode"):
            continue
        if is_sidecar and state.get("started"):
            summary.ready += bool(state.get("ready"))
            continue
        summary.reason = "Init:" + (_init_reason(current) or f"{index}/{len(declared)}")
        return True
    return False


def _init_reason(state: Json) -> str:
    if (terminated := state.get("terminated")) is not None:
        return _ended(terminated)
    waiting: str = (state.get("waiting") or {}).get("reason") or ""
    return "" if waiting == "PodInitializing" else waiting


def _ended(terminated: Json) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode') or 0}"


def _add_containers(summary: _Summary, pod: Json, status: Json) -> None:
    running, failure = False, ""
    for container in reversed(status.get("containerStatuses") or []):
        summary.count_restarts(container)
        state = container.get("state") or {}
        terminated = state.get("terminated")
        if waiting := (state.get("waiting") or {}).get("reason"):
            summary.reason = waiting
        elif terminated is not None:
            summary.reason = _ended(terminated)
            failure = summary.reason if terminated.get("exitCode") else failure
        elif container.get("ready") and state.get("running") is not None:
            running = True
            summary.ready += 1
    if summary.reason == "Completed":
        summary.reason = _after_completion(pod, failure, running=running)


def _after_completion(pod: Json, failure: str, *, running: bool) -> str:
    """Return what is said of a pod of which the first container has completed."""
    if running and condition_status(pod, "Ready") == "True":
        return "Running"
    return failure or ("NotReady" if running else "Completed")


def _gates(pod: Json, spec: Json) -> str:
    gates = spec.get("readinessGates") or []
    true = sum(condition_status(pod, gate["conditionType"]) == "True" for gate in gates)
    return f"{true}/{len(gates)}" if gates else NONE


def _conditions(pod: Json) -> tuple[Json, ...]:
    phase = (pod.get("status") or {}).get("phase")
    if phase not in _ENDED:
        return ()
    message = _ENDED[phase]
    return ({"type": "Completed", "status": "True", "reason": phase, "message": message},)


POD: Final = Table(_COLUMNS, _cells, _conditions)
