"""CronJobs, and whether their schedules can be parsed.

Schedules follow the standard parser of github.com/robfig/cron/v3, which kube-apiserver uses: five
fields, names of months and days, ``@daily`` and the like, ``@every 1h30m``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from kube_lab_server.kinds.jobs import (
    default_job_spec,
    job_spec_warnings,
    validate_job_spec,
    warn_of_name,
)
from kube_lab_server.kinds.kind_rules import STATUS, KindRules
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    NONE,
    SELECTOR,
    TEMPLATE,
    UNSET,
    Column,
    Table,
    age_of,
    flag,
    format_selector,
    human_age,
    name_of,
    number,
    spec_and_status,
    template_cells,
)
from kube_lab_server.kinds.value_checks import not_negative
from numakube.api.field_errors import FieldError, invalid, not_supported, required
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


def _cron_job(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = spec_and_status(obj)
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
        *template_cells(job.get("template")),
        format_selector(job.get("selector")),
    ]


CRON_JOB_TABLE: Final = Table(
    (
        NAME,
        Column("Schedule", "When jobs are started."),
        Column("Timezone", "Time zone of the schedule."),
        flag("Suspend", "Whether no jobs are started for now."),
        number("Active", "How many jobs are running."),
        Column("Last Schedule", "Time since a job was started last."),
        AGE,
        *TEMPLATE,
        SELECTOR,
    ),
    _cron_job,
)


_POLICIES: Final = ("Allow", "Forbid", "Replace")
# Eleven of the 63 characters of a job's name are for the time.
_MAX_NAME: Final = 52
_match_zone_part: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}").fullmatch
_NO_ZONE_HERE: Final = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
_MONTHS: Final = (
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
)
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_FIELDS: Final[tuple[tuple[int, int, dict[str, int]], ...]] = (
    (0, 59, {}),
    (0, 23, {}),
    (1, 31, {}),
    (1, 12, {name: number for number, name in enumerate(_MONTHS, 1)}),
    (0, 6, {name: number for number, name in enumerate(_DAYS)}),
)
_DESCRIPTORS: Final = frozenset(
    {
        "@yearly",
        "@annually",
        "@monthly",
        "@weekly",
        "@daily",
        "@midnight",
        "@hourly",
    }
)
_match_duration: Final = re.compile(
    r"[+-]?(0|([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+"
).fullmatch
_match_integer: Final = re.compile(r"[+-]?[0-9]+").fullmatch


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
    if (zone := spec.get("timeZone")) is not None:
        errors += _check_zone(zone, "spec.timeZone")
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
    wrong = _schedule_problem(schedule)
    errors = [invalid(path, schedule, wrong)] if wrong else []
    if "TZ" in schedule:
        errors.append(invalid(path, schedule, _NO_ZONE_HERE))
    return errors


def _check_zone(zone: str, path: str) -> list[FieldError]:
    if not zone:
        return [invalid(path, zone, "timeZone must be nil or non-empty string")]
    for part in zone.split("/"):
        if part in {".", ".."} or part.startswith("-") or not _match_zone_part(part):
            return [invalid(path, zone, f"unknown time zone {zone}")]
    if zone.lower() == "local":
        rule = "timeZone must be an explicit time zone as defined in"
        return [invalid(path, zone, f"{rule} https://www.iana.org/time-zones")]
    try:
        ZoneInfo(zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return [invalid(path, zone, f"unknown time zone {zone}")]
    return []


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


class _Unparsable(Exception):
    """The reason why a schedule cannot be parsed."""


def _schedule_problem(schedule: str) -> str:
    """Return why *schedule* cannot be parsed; an empty text if it can."""
    try:
        _parse(schedule)
    except _Unparsable as reason:
        return str(reason)
    return ""


def _parse(schedule: str) -> None:
    if schedule.startswith(("TZ=", "CRON_TZ=")):
        schedule = schedule.partition(" ")[2].strip()
    if schedule.startswith("@"):
        return _parse_descriptor(schedule)
    fields = schedule.split()
    if len(fields) != len(_FIELDS):
        shown = " ".join(fields)
        raise _Unparsable(f"expected exactly 5 fields, found {len(fields)}: [{shown}]")
    for field, bounds in zip(fields, _FIELDS, strict=True):
        for part in filter(None, field.split(",")):
            _parse_range(part, *bounds)
    return None


def _parse_descriptor(text: str) -> None:
    if text in _DESCRIPTORS:
        return
    if not text.startswith("@every "):
        raise _Unparsable(f"unrecognized descriptor: {text}")
    duration = text.removeprefix("@every ")
    if not _match_duration(duration):
        why = f"time: invalid duration {go_quote(duration)}"
        raise _Unparsable(f"failed to parse duration {text}: {why}")


def _parse_range(text: str, low: int, high: int, names: dict[str, int]) -> None:
    spread, *steps = text.split("/")
    ends = spread.split("-")
    if ends[0] in {"*", "?"}:
        start, end = low, high
    else:
        start = _number(ends[0], names)
        if len(ends) > 2:
            raise _Unparsable(f"too many hyphens: {text}")
        end = _number(ends[1], names) if len(ends) == 2 else start
    if len(steps) > 1:
        raise _Unparsable(f"too many slashes: {text}")
    step = _number(steps[0], {}) if steps else 1
    if steps and len(ends) == 1:
        end = high
    _check_bounds(text, (start, end, step), (low, high))


def _check_bounds(text: str, spread: tuple[int, int, int], bounds: tuple[int, int]) -> None:
    start, end, step = spread
    low, high = bounds
    if start < low:
        raise _Unparsable(f"beginning of range ({start}) below minimum ({low}): {text}")
    if end > high:
        raise _Unparsable(f"end of range ({end}) above maximum ({high}): {text}")
    if start > end:
        raise _Unparsable(f"beginning of range ({start}) beyond end of range ({end}): {text}")
    if step == 0:
        raise _Unparsable(f"step of range should be a positive number: {text}")


def _number(text: str, names: dict[str, int]) -> int:
    if text.lower() in names:
        return names[text.lower()]
    if not _match_integer(text):
        why = f"strconv.Atoi: parsing {go_quote(text)}: invalid syntax"
        raise _Unparsable(f"failed to parse int from {text}: {why}")
    number = int(text)
    if number < 0:
        raise _Unparsable(f"negative number ({number}) not allowed: {text}")
    return number


CRON_JOB: Final = KindRules(
    table=CRON_JOB_TABLE,
    counted=("spec",),
    parts=STATUS,
    default=_default,
    check=_check,
    check_create=_check_create,
    warn=_warn,
)
