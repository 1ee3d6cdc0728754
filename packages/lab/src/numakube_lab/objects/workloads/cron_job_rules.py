"""CronJobs. No controller in the lab starts their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalid, not_supported, required
from numakube_lab.objects.checks.kind_rules import STATUS, KindRules
from numakube_lab.objects.checks.numbers import not_negative
from numakube_lab.objects.workloads.cron_schedules import schedule_problem
from numakube_lab.objects.workloads.job_rules import (
    default_job_spec,
    job_spec_warnings,
    validate_job_spec,
    warn_of_name,
)

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

_POLICIES: Final = ("Allow", "Forbid", "Replace")
# Eleven of the 63 characters of a job's name are for the time.
_MAX_NAME: Final = 52
_NO_ZONE_HERE: Final = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"


def _default(cron_job: Json) -> None:
    spec = cron_job.setdefault("spec", {})
    spec["concurrencyPolicy"] = spec.get("concurrencyPolicy") or "Allow"
    for field, value in (
        ("suspend", False),
        ("successfulJobsHistoryLimit", 3),
        ("failedJobsHistoryLimit", 1),
    ):
        if spec.get(field) is None:
            spec[field] = value
    default_job_spec(spec.setdefault("jobTemplate", {}).setdefault("spec", {}))


def _check(cron_job: Json) -> list[FieldError]:
    spec = cron_job["spec"]
    errors = _check_schedule(spec.get("schedule") or "", "spec.schedule")
    errors += not_negative(spec, ("startingDeadlineSeconds",), "spec")
    policy = spec.get("concurrencyPolicy") or ""
    if not policy:
        errors.append(required("spec.concurrencyPolicy"))
    elif policy not in _POLICIES:
        errors.append(not_supported("spec.concurrencyPolicy", policy, _POLICIES))
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    errors += _check_template(job, "spec.jobTemplate.spec")
    limits = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    return errors + not_negative(spec, limits, "spec")


def _check_create(cron_job: Json) -> list[FieldError]:
    name = cron_job["metadata"].get("name") or ""
    if len(name) <= _MAX_NAME:
        return []
    return [invalid("metadata.name", name, f"must be no more than {_MAX_NAME} characters")]


def _check_schedule(schedule: str, path: str) -> list[FieldError]:
    if not schedule:
        return [required(path)]
    wrong = schedule_problem(schedule)
    errors = [invalid(path, schedule, wrong)] if wrong else []
    if "TZ" in schedule:
        errors.append(invalid(path, schedule, _NO_ZONE_HERE))
    return errors


def _check_template(job: Json, path: str) -> list[FieldError]:
    errors = validate_job_spec(job, path)
    if (selector := job.get("selector")) is not None:
        detail = "`selector` will be auto-generated"
        errors.append(invalid(f"{path}.selector", selector, detail))
    if job.get("manualSelector"):
        errors.append(not_supported(f"{path}.manualSelector", True, ("nil", "false")))
    return errors


def _warn(cron_job: Json, old: Json | None) -> list[str]:
    job = (cron_job["spec"].get("jobTemplate") or {}).get("spec") or {}
    if old is None:
        return warn_of_name(cron_job) + job_spec_warnings(job, "spec.jobTemplate.spec")
    same = cron_job["metadata"].get("generation") == old["metadata"].get("generation")
    return [] if same else job_spec_warnings(job, "spec.jobTemplate.spec")


CRON_JOB: Final = KindRules(
    counted=("spec",),
    parts=STATUS,
    default=_default,
    check=_check,
    check_create=_check_create,
    warn=_warn,
)
