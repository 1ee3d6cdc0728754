"""The status of a job, which its controller writes and the server keeps consistent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.lab.field_errors import OMIT, FieldError, duplicate, invalid, required
from numakube.lab.objects.job_policies import count_indexes
from numakube.lab.objects.numbers import not_negative

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube.lab.kinds import Json

_PATH: Final = "status"
_CONDITIONS: Final = "status.conditions"


def validate_job_status(new: Json, old: Json) -> list[FieldError]:
    """Check a job's new status by itself and against the old one."""
    status, before, spec = new.get("status") or {}, old.get("status") or {}, new["spec"]
    errors = not_negative(status, ("active", "succeeded", "failed", "ready", "terminating"), _PATH)
    errors += _check_uncounted(status)
    errors += _check_conditions(status)
    errors += _check_times(status)
    if _is_true(status, "Complete") or _is_true(status, "Failed"):
        errors += _check_finished(status)
    errors += _check_indexes(status, spec)
    ready, active = status.get("ready"), status.get("active") or 0
    if ready is not None and ready > active:
        detail = "cannot set more ready pods than active"
        errors.append(invalid(f"{_PATH}.ready", ready, detail))
    errors += _check_success(status, spec)
    return errors + list(_check_change(status, before, spec))


def _is_true(status: Json, kind: str) -> bool:
    return any(
        (condition.get("type"), condition.get("status")) == (kind, "True")
        for condition in status.get("conditions") or []
    )


def _clash(detail: str) -> FieldError:
    return invalid(_CONDITIONS, OMIT, detail)


def _check_uncounted(status: Json) -> list[FieldError]:
    errors = []
    seen: set[str] = set()
    uncounted = status.get("uncountedTerminatedPods") or {}
    for side in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(side) or []):
            path = f"{_PATH}.uncountedTerminatedPods.{side}[{index}]"
            if not uid:
                errors.append(invalid(path, uid, "must not be empty"))
            elif uid in seen:
                errors.append(duplicate(path, uid))
            seen.add(uid)
    return errors


def _check_conditions(status: Json) -> list[FieldError]:
    complete, failed = _is_true(status, "Complete"), _is_true(status, "Failed")
    target = _is_true(status, "FailureTarget")
    errors = []
    if complete and failed:
        errors.append(_clash("cannot set Complete=True and Failed=true conditions"))
    if complete and target:
        errors.append(_clash("cannot set Complete=True and FailureTarget=true conditions"))
    if failed and not target:
        detail = "cannot set Failed=True condition without the FailureTarget=true condition"
        errors.append(_clash(detail))
    if complete and not _is_true(status, "SuccessCriteriaMet"):
        rule = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        errors.append(_clash(rule))
    return errors


def _check_times(status: Json) -> list[FieldError]:
    path = f"{_PATH}.completionTime"
    started, ended = status.get("startTime"), status.get("completionTime")
    complete = _is_true(status, "Complete")
    errors = []
    if ended is not None and not complete:
        detail = "cannot set completionTime when there is no Complete=True condition"
        errors.append(invalid(path, ended, detail))
    if ended is None and complete:
        errors.append(required(path, "completionTime is required for Complete jobs"))
    if started is not None and ended is not None and ended < started:
        errors.append(invalid(path, ended, "must be equal to or after `startTime`"))
    return errors


def _check_finished(status: Json) -> list[FieldError]:
    errors = []
    for field in ("active", "terminating"):
        if (count := status.get(field) or 0) > 0:
            detail = f"{field}>0 is invalid for finished job"
            errors.append(invalid(f"{_PATH}.{field}", count, detail))
    if status.get("startTime") is None:
        detail = "startTime is required for finished job"
        errors.append(required(f"{_PATH}.startTime", detail))
    uncounted = status.get("uncountedTerminatedPods") or {}
    if uncounted.get("succeeded") or uncounted.get("failed"):
        path = f"{_PATH}.uncountedTerminatedPods"
        errors.append(invalid(path, uncounted, "must be empty for finished job"))
    return errors


def _check_indexes(status: Json, spec: Json) -> list[FieldError]:
    completed, failed = status.get("completedIndexes") or "", status.get("failedIndexes")
    completions = spec.get("completions")
    errors = []
    if completions is not None:
        _, wrong = count_indexes(completed, completions)
        if wrong:
            detail = f"error parsing completedIndexes: {wrong}"
            errors.append(invalid(f"{_PATH}.completedIndexes", completed, detail))
    if completed and spec.get("completionMode") != "Indexed":
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        errors.append(invalid(f"{_PATH}.completedIndexes", completed, detail))
    if failed is not None and spec.get("backoffLimitPerIndex") is None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        errors.append(invalid(f"{_PATH}.failedIndexes", failed, detail))
    return errors


def _check_success(status: Json, spec: Json) -> list[FieldError]:
    met = _is_true(status, "SuccessCriteriaMet")
    errors = []
    if met:
        errors += [
            _clash(f"cannot set SuccessCriteriaMet=True and {kind}=true conditions")
            for kind in ("Failed", "FailureTarget")
            if _is_true(status, kind)
        ]
    elif spec.get("successPolicy") is not None and _is_true(status, "Complete"):
        rule = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        errors.append(_clash(rule))
    return errors


def _check_change(status: Json, before: Json, spec: Json) -> Iterator[FieldError]:
    for kind in ("Failed", "Complete", "FailureTarget"):
        if _is_true(before, kind) and not _is_true(status, kind):
            yield _clash(f"cannot disable the terminal {kind}=True condition")
    for field in ("failed", "succeeded"):
        if (count := status.get(field) or 0) < (before.get(field) or 0):
            detail = f"cannot decrease the {field} counter"
            yield invalid(f"{_PATH}.{field}", count, detail)
    ended, was = status.get("completionTime"), before.get("completionTime")
    if ended is not None and was is not None and ended != was:
        yield invalid(f"{_PATH}.completionTime", ended, "field is immutable")
    started = before.get("startTime")
    if started is not None and started != status.get("startTime") and not spec.get("suspend"):
        detail = "startTime cannot be removed for unsuspended job"
        yield required(f"{_PATH}.startTime", detail)
    if _is_true(before, "SuccessCriteriaMet") and not _is_true(status, "SuccessCriteriaMet"):
        yield _clash("cannot disable the SuccessCriteriaMet=True condition")
