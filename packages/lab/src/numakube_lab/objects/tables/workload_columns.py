"""The tables of deployments, jobs and other kinds that run pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.tables.age_texts import human_age, time_between
from numakube_lab.objects.tables.table_columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Table,
    age_of,
    condition_status,
    flag,
    format_labels,
    format_selector,
    name_of,
    number,
    wide,
)

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.kinds import Json, JsonValue

_CONTAINERS: Final = wide("Containers", "Names of the containers of each pod.")
_IMAGES: Final = wide("Images", "Images of the containers of each pod.")
_SELECTOR: Final = wide("Selector", "Labels of the pods that belong to the object.")
_TEMPLATE: Final = (_CONTAINERS, _IMAGES)


def _template_cells(template: Json | None) -> list[JsonValue]:
    containers = ((template or {}).get("spec") or {}).get("containers") or []
    return [
        ",".join(container.get(field) or "" for container in containers)
        for field in ("name", "image")
    ]


def _parts(obj: Json) -> tuple[Json, Json]:
    return obj.get("spec") or {}, obj.get("status") or {}


# A deployment shows selectors that select nothing or cannot be read in its own way.
_DEPLOYMENT_SELECTORS: Final = {"<none>": "", "<error>": "<invalid>"}


def _deployment(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = _parts(obj)
    selector = format_selector(spec.get("selector"))
    return [
        name_of(obj),
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        status.get("updatedReplicas") or 0,
        status.get("availableReplicas") or 0,
        age_of(obj, now),
        *_template_cells(spec.get("template")),
        _DEPLOYMENT_SELECTORS.get(selector, selector),
    ]


DEPLOYMENT: Final = Table(
    (
        NAME,
        Column("Ready", "How many pods are ready, of how many there shall be."),
        Column("Up-to-date", "How many pods follow the current template."),
        Column("Available", "How many pods have been ready for long enough."),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    _deployment,
)


def _replica_cells(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = _parts(obj)
    return [
        name_of(obj),
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age_of(obj, now),
        *_template_cells(spec.get("template")),
    ]


def _replica_set(obj: Json, now: datetime) -> list[JsonValue]:
    return [*_replica_cells(obj, now), format_selector(obj["spec"].get("selector"))]


def _replication_controller(obj: Json, now: datetime) -> list[JsonValue]:
    return [*_replica_cells(obj, now), format_labels(obj["spec"].get("selector"))]


_REPLICA_COLUMNS: Final = (
    NAME,
    number("Desired", "How many pods there shall be."),
    number("Current", "How many pods there are."),
    number("Ready", "How many pods are ready."),
    AGE,
    *_TEMPLATE,
    _SELECTOR,
)
REPLICA_SET: Final = Table(_REPLICA_COLUMNS, _replica_set)
REPLICATION_CONTROLLER: Final = Table(_REPLICA_COLUMNS, _replication_controller)


def _stateful_set(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = _parts(obj)
    return [
        name_of(obj),
        f"{status.get('readyReplicas') or 0}/{spec.get('replicas') or 0}",
        age_of(obj, now),
        *_template_cells(spec.get("template")),
    ]


STATEFUL_SET: Final = Table(
    (NAME, Column("Ready", "How many pods are ready, of how many."), AGE, *_TEMPLATE),
    _stateful_set,
)

_DAEMON_COUNTS: Final = (
    "desiredNumberScheduled",
    "currentNumberScheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberAvailable",
)


def _daemon_set(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = _parts(obj)
    template = spec.get("template") or {}
    return [
        name_of(obj),
        *(status.get(field) or 0 for field in _DAEMON_COUNTS),
        format_labels((template.get("spec") or {}).get("nodeSelector")),
        age_of(obj, now),
        *_template_cells(template),
        format_selector(spec.get("selector")),
    ]


DAEMON_SET: Final = Table(
    (
        NAME,
        number("Desired", "How many nodes shall run a pod."),
        number("Current", "How many of these nodes run one."),
        number("Ready", "How many of these nodes run one that is ready."),
        number("Up-to-date", "How many nodes run a pod of the current template."),
        number("Available", "How many nodes run a pod that has been ready for long enough."),
        Column("Node Selector", "Labels of the nodes that shall run a pod."),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    _daemon_set,
)

_JOB_STATES: Final = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("", "Terminating"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _job(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = _parts(obj)
    return [
        name_of(obj),
        _job_state(obj),
        _completions(spec, status),
        _job_duration(status, now),
        age_of(obj, now),
        *_template_cells(spec.get("template")),
        format_selector(spec.get("selector")),
    ]


def _job_state(obj: Json) -> str:
    deleted = bool(obj["metadata"].get("deletionTimestamp"))
    for condition, shown in _JOB_STATES:
        if condition_status(obj, condition) == "True" if condition else deleted:
            return shown
    return "Running"


def _completions(spec: Json, status: Json) -> str:
    succeeded, parallelism = status.get("succeeded") or 0, spec.get("parallelism") or 0
    if (wanted := spec.get("completions")) is not None:
        return f"{succeeded}/{wanted}"
    return f"{succeeded}/1" + (f" of {parallelism}" if parallelism > 1 else "")


def _job_duration(status: Json, now: datetime) -> str:
    start, end = status.get("startTime"), status.get("completionTime")
    if not start:
        return ""
    return time_between(start, end) if end else human_age(start, now)


JOB: Final = Table(
    (
        NAME,
        Column("Status", "Whether the job runs or how it ended."),
        Column("Completions", "How many pods have succeeded, of how many."),
        Column("Duration", "How long the job took, or has been running."),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    _job,
)


def _cron_job(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = _parts(obj)
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    suspended, last = spec.get("suspend"), status.get("lastScheduleTime")
    return [
        name_of(obj),
        spec.get("schedule") or "",
        NONE if spec.get("timeZone") is None else spec["timeZone"],
        UNSET if suspended is None else str(bool(suspended)),
        len(status.get("active") or []),
        human_age(last, now) if last else NONE,
        age_of(obj, now),
        *_template_cells(job.get("template")),
        format_selector(job.get("selector")),
    ]


CRON_JOB: Final = Table(
    (
        NAME,
        Column("Schedule", "When jobs are started."),
        Column("Timezone", "Time zone of the schedule."),
        flag("Suspend", "Whether no jobs are started for now."),
        number("Active", "How many jobs are running."),
        Column("Last Schedule", "Time since a job was started last."),
        AGE,
        *_TEMPLATE,
        _SELECTOR,
    ),
    _cron_job,
)


def _pod_template(obj: Json, now: datetime) -> list[JsonValue]:
    del now
    template = obj.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    return [name_of(obj), *_template_cells(template), format_labels(labels)]


POD_TEMPLATE: Final = Table(
    (
        NAME,
        Column("Containers", "Names of the containers of each pod."),
        Column("Images", "Images of the containers of each pod."),
        Column("Pod Labels", "Labels of the pods made from the template."),
    ),
    _pod_template,
)


def _revision(obj: Json, now: datetime) -> list[JsonValue]:
    owners = obj["metadata"].get("ownerReferences") or []
    controller = next((owner for owner in owners if owner.get("controller")), None)
    shown = _owner_text(controller) if controller else NONE
    return [name_of(obj), shown, obj.get("revision") or 0, age_of(obj, now)]


def _owner_text(owner: Json) -> str:
    group, _, _version = owner["apiVersion"].rpartition("/")
    kind = ".".join(filter(None, (owner["kind"], group))).lower()
    return f"{kind}/{owner['name']}"


CONTROLLER_REVISION: Final = Table(
    (
        NAME,
        Column("Controller", "Object that the revision is of."),
        Column("Revision", "Number of the revision."),
        AGE,
    ),
    _revision,
)
