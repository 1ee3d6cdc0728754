"""The status of a job, and its policies: when pods count as failed, are replaced, or are enough.

A rule about some fields is only applied when one of them changes: a status that has become
wrong through a change of the job, or an older controller, must not keep the rest of it from
being written.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.value_checks import not_negative
from numakube.api.field_errors import (
    OMIT,
    FieldError,
    duplicate,
    invalid,
    invalids,
    not_supported,
    required,
    too_long,
    too_many,
)
from numakube.values import names
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from kube_lab_server.kind_names import Json, JsonValue


_ACTIONS: Final = ("Count", "FailIndex", "FailJob", "Ignore")
_STATUSES: Final = ("False", "True", "Unknown")
_REPLACEMENTS: Final = ("Failed", "TerminatingOrFailed")
_MAX_RULES: Final = 20
_MAX_EXIT_CODES: Final = 255
_MAX_INDEX_BYTES: Final = 64 * 1024
_match_integer: Final = re.compile(r"[+-]?[0-9]+").fullmatch


def validate_replacement_policy(spec: Json, path: str) -> list[FieldError]:
    """Check when a pod that is ending is replaced."""
    policy = spec.get("podReplacementPolicy")
    if policy is None:
        return []
    known = _REPLACEMENTS if spec.get("podFailurePolicy") is None else ("Failed",)
    return [] if policy in known else [not_supported(path, policy, known)]


def validate_failure_policy(spec: Json, path: str) -> list[FieldError]:
    """Check the rules by which failed pods are judged."""
    rules = spec["podFailurePolicy"].get("rules") or []
    place = f"{path}.rules"
    errors = [too_many(place, len(rules), _MAX_RULES)] if len(rules) > _MAX_RULES else []
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in pod.get(field) or []
    }
    per_index = spec.get("backoffLimitPerIndex") is not None
    for index, rule in enumerate(rules):
        where = f"{place}[{index}]"
        errors += _check_action(rule.get("action") or "", f"{where}.action", per_index=per_index)
        errors += _check_rule(rule, containers, where)
    return errors


def _listed(values: Sequence[str]) -> str:
    return f"valid values: [{' '.join(go_quote(value) for value in values)}]"


def _check_action(action: str, path: str, *, per_index: bool) -> list[FieldError]:
    if not action:
        return [required(path, _listed(_ACTIONS))]
    if action == "FailIndex":
        detail = "requires the backoffLimitPerIndex to be set"
        return [] if per_index else [invalid(path, action, detail)]
    return [] if action in _ACTIONS else [not_supported(path, action, _ACTIONS)]


def _check_rule(rule: Json, containers: Collection[str | None], path: str) -> list[FieldError]:
    codes, conditions = rule.get("onExitCodes"), rule.get("onPodConditions") or []
    errors: list[FieldError] = []
    if codes is not None:
        errors += _check_exit_codes(codes, containers, f"{path}.onExitCodes")
    errors += _check_conditions(conditions, f"{path}.onPodConditions")
    if codes is not None and conditions:
        detail = "specifying both OnExitCodes and OnPodConditions is not supported"
        errors.append(invalid(path, OMIT, detail))
    if codes is None and not conditions:
        detail = "specifying one of OnExitCodes and OnPodConditions is required"
        errors.append(invalid(path, OMIT, detail))
    return errors


def _check_conditions(conditions: Sequence[Json], path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if len(conditions) > _MAX_RULES:
        errors.append(too_many(path, len(conditions), _MAX_RULES))
    for index, pattern in enumerate(conditions):
        place = f"{path}[{index}]"
        kind, status = pattern.get("type") or "", pattern.get("status") or ""
        errors += invalids(f"{place}.type", kind, names.qualified_name(kind))
        if not status:
            errors.append(required(f"{place}.status", _listed(_STATUSES)))
        elif status not in _STATUSES:
            errors.append(not_supported(f"{place}.status", status, _STATUSES))
    return errors


def _check_exit_codes(
    codes: Json, containers: Collection[str | None], path: str
) -> list[FieldError]:
    operator, values = codes.get("operator") or "", codes.get("values") or []
    errors = []
    if not operator:
        errors.append(required(f"{path}.operator", _listed(("In", "NotIn"))))
    elif operator not in {"In", "NotIn"}:
        errors.append(not_supported(f"{path}.operator", operator, ("In", "NotIn")))
    name = codes.get("containerName")
    if name is not None and name not in containers:
        detail = "must be one of the container or initContainer names in the pod template"
        errors.append(invalid(f"{path}.containerName", name, detail))
    place = f"{path}.values"
    if not values:
        errors.append(invalid(place, values, "at least one value is required"))
    elif len(values) > _MAX_EXIT_CODES:
        errors.append(too_many(place, len(values), _MAX_EXIT_CODES))
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            detail = "must not be 0 for the In operator"
            errors.append(invalid(f"{place}[{index}]", value, detail))
        if value in values[:index]:
            errors.append(duplicate(f"{place}[{index}]", value))
    if sorted(values) != values:
        errors.append(invalid(place, values, "must be ordered"))
    return errors


def validate_success_policy(spec: Json, path: str) -> list[FieldError]:
    """Check the rules by which an indexed job has succeeded early."""
    rules = spec["successPolicy"].get("rules") or []
    place = f"{path}.rules"
    errors: list[FieldError] = []
    if not rules:
        detail = "at least one rules must be specified when the successPolicy is specified"
        errors.append(required(place, detail))
    if len(rules) > _MAX_RULES:
        errors.append(too_many(place, len(rules), _MAX_RULES))
    for index, rule in enumerate(rules):
        errors += _check_success_rule(rule, spec.get("completions") or 0, f"{place}[{index}]")
    return errors


def _check_success_rule(rule: Json, completions: int, path: str) -> list[FieldError]:
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    errors: list[FieldError] = []
    if count is None and indexes is None:
        detail = "at least one of succeededCount or succeededIndexes must be specified"
        errors.append(required(path, detail))
    total = 0
    if indexes is not None:
        place = f"{path}.succeededIndexes"
        if len(indexes.encode()) > _MAX_INDEX_BYTES:
            errors.append(too_long(place, _MAX_INDEX_BYTES))
        total, wrong = count_indexes(indexes, completions)
        if wrong:
            errors.append(invalid(place, indexes, f"error parsing succeededIndexes: {wrong}"))
    if count is None:
        return errors
    errors += not_negative(rule, ("succeededCount",), path)
    rule_text = "must be less than or equal to"
    if count > completions:
        detail = f"{rule_text} {completions} (the number of specified completions)"
        errors.append(invalid(f"{path}.succeededCount", count, detail))
    if indexes is not None and count > total:
        which = "the number of indexes in the specified succeededIndexes field"
        detail = f"{rule_text} {total} ({which})"
        errors.append(invalid(f"{path}.succeededCount", count, detail))
    return errors


def count_indexes(text: str, completions: int) -> tuple[int, str]:
    """Return how many indexes *text* (``0,3-5``) names, or why it cannot be read."""
    total = 0
    last = -1
    for part in text.split(",") if text else ():
        first, final, wrong = _interval(part, completions)
        if wrong:
            return 0, wrong
        if last >= first:
            return 0, f"non-increasing order, previous: {last}, current: {first}"
        total += final - first + 1
        last = final
    return total, ""


def read_intervals(text: str, completions: int) -> list[tuple[int, int]]:
    """Return the intervals in *text* (``0,3-5``) that can be read, with both ends."""
    found = [_interval(part, completions) for part in text.split(",")] if text else []
    return [(first, last) for first, last, wrong in found if not wrong]


def _interval(text: str, completions: int) -> tuple[int, int, str]:
    parts = text.split("-")
    if len(parts) > 2:
        rule = "an index interval can have at most two parts separated by '-'"
        return 0, 0, f"the fragment {go_quote(text)} violates the requirement that {rule}"
    numbers = []
    for part in parts:
        if not _match_integer(part):
            return 0, 0, f"cannot convert string to integer for index: {go_quote(part)}"
        if int(part) >= completions:
            return 0, 0, f"too large index: {go_quote(part)}"
        numbers.append(int(part))
    if len(numbers) == 2 and numbers[0] >= numbers[1]:
        return 0, 0, f"non-increasing order, previous: {numbers[0]}, current: {numbers[1]}"
    return numbers[0], numbers[-1], ""


_PATH: Final = "status"
_CONDITIONS: Final = "status.conditions"
_COUNTS: Final = ("active", "succeeded", "failed", "ready", "terminating")


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a job's status."""

    new: Json
    old: Json
    spec: Json

    def get(self, field: str) -> JsonValue:
        return self.new.get(field)

    def count(self, field: str) -> int:
        return self.new.get(field) or 0

    def has(self, condition: str) -> bool:
        return _has(self.new, condition)

    def had(self, condition: str) -> bool:
        return _has(self.old, condition)

    @property
    def finished(self) -> bool:
        return self.has("Complete") or self.has("Failed")

    @property
    def is_newly_finished(self) -> bool:
        return self.finished != (self.had("Complete") or self.had("Failed"))

    def changed(self, *names: str) -> bool:
        """Tell whether a field or, if the name starts with a capital, a condition changed."""
        return any(
            self.has(name) != self.had(name)
            if name[0].isupper()
            else (self.new.get(name) or None) != (self.old.get(name) or None)
            for name in names
        )


def _has(status: Json, condition: str, value: str = "True") -> bool:
    conditions = status.get("conditions") or []
    return any((item.get("type"), item.get("status")) == (condition, value) for item in conditions)


def validate_job_status(new: Json, old: Json) -> list[FieldError]:
    """Check a job's new status by itself and against the old one."""
    change = _Change(new.get("status") or {}, old.get("status") or {}, new["spec"])
    errors = not_negative(change.new, _COUNTS, _PATH)
    return [
        *errors,
        *_check_uncounted(change.new),
        *_check_clashes(change),
        *_check_times(change),
        *_check_missing_conditions(change),
        *_check_finished(change),
        *_check_index_formats(change),
        *_check_indexes(change),
        *_check_pods(change),
        *_check_success(change),
        *_check_transition(change),
    ]


def _clash(detail: str) -> FieldError:
    return invalid(_CONDITIONS, OMIT, detail)


def _check_uncounted(status: Json) -> Iterator[FieldError]:
    seen: set[str] = set()
    uncounted = status.get("uncountedTerminatedPods") or {}
    for side in ("succeeded", "failed"):
        for index, uid in enumerate(uncounted.get(side) or []):
            path = f"{_PATH}.uncountedTerminatedPods.{side}[{index}]"
            if not uid:
                yield invalid(path, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(path, uid)
            seen.add(uid)


def _check_clashes(change: _Change) -> Iterator[FieldError]:
    for other in ("Failed", "FailureTarget"):
        if change.changed("Complete", other) and change.has("Complete") and change.has(other):
            yield _clash(f"cannot set Complete=True and {other}=true conditions")


def _check_times(change: _Change) -> Iterator[FieldError]:
    path = f"{_PATH}.completionTime"
    started, ended = change.get("startTime"), change.get("completionTime")
    complete = change.has("Complete")
    if change.changed("Complete", "completionTime") and complete == (ended is None):
        if complete:
            yield required(path, "completionTime is required for Complete jobs")
        else:
            detail = "cannot set completionTime when there is no Complete=True condition"
            yield invalid(path, ended, detail)
    if change.changed("startTime", "completionTime") and started and ended and ended < started:
        yield invalid(path, ended, "must be equal to or after `startTime`")


def _check_missing_conditions(change: _Change) -> Iterator[FieldError]:
    failed = change.changed("Failed", "failedIndexes") and change.has("Failed")
    if failed and not change.has("FailureTarget"):
        yield _clash("cannot set Failed=True condition without the FailureTarget=true condition")
    complete = change.changed("Complete", "SuccessCriteriaMet") and change.has("Complete")
    if complete and not change.has("SuccessCriteriaMet"):
        rule = "cannot set Complete=True condition without the SuccessCriteriaMet=true condition"
        yield _clash(rule)


def _check_finished(change: _Change) -> Iterator[FieldError]:
    if not change.finished:
        return
    ends = change.is_newly_finished
    active = change.count("active")
    if (ends or change.changed("active")) and active > 0:
        yield invalid(f"{_PATH}.active", active, "active>0 is invalid for finished job")
    never_ran = change.spec.get("suspend") and change.spec.get("completions") == 0
    if (ends or change.changed("startTime")) and not change.get("startTime") and not never_ran:
        yield required(f"{_PATH}.startTime", "startTime is required for finished job")
    uncounted = change.get("uncountedTerminatedPods") or {}
    if (ends or change.changed("uncountedTerminatedPods")) and any(uncounted.values()):
        path = f"{_PATH}.uncountedTerminatedPods"
        yield invalid(path, uncounted, "must be empty for finished job")


def _check_index_formats(change: _Change) -> Iterator[FieldError]:
    completions = change.spec.get("completions")
    if completions is None:
        return
    for field in ("completedIndexes", "failedIndexes"):
        text = change.get(field) or ""
        if field == "failedIndexes" and change.spec.get("backoffLimitPerIndex") is None:
            continue
        _, wrong = count_indexes(text, completions)
        if change.changed(field) and wrong:
            yield invalid(f"{_PATH}.{field}", text, f"error parsing {field}: {wrong}")


def _check_indexes(change: _Change) -> Iterator[FieldError]:
    completed, failed = change.get("completedIndexes") or "", change.get("failedIndexes")
    indexed = change.spec.get("completionMode") == "Indexed"
    if change.changed("completedIndexes") and completed and not indexed:
        detail = "cannot set non-empty completedIndexes when non-indexed completion mode"
        yield invalid(f"{_PATH}.completedIndexes", completed, detail)
    if failed is None:
        return
    was = change.old.get("failedIndexes")
    if failed != was and change.spec.get("backoffLimitPerIndex") is None:
        detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        yield invalid(f"{_PATH}.failedIndexes", failed, detail)
    completions = change.spec.get("completions")
    if change.changed("failedIndexes", "completedIndexes") and completions is not None:
        common = _first_common(completed, failed, completions)
        if common is not None:
            detail = f"failedIndexes and completedIndexes overlap at index: {common}"
            yield invalid(f"{_PATH}.failedIndexes", failed, detail)


def _first_common(one: str, other: str, completions: int) -> int | None:
    """Return the first index that two texts such as ``0,3-5`` both name."""
    return min(
        (
            max(first, other_first)
            for first, last in read_intervals(one, completions)
            for other_first, other_last in read_intervals(other, completions)
            if first <= other_last and other_first <= last
        ),
        default=None,
    )


def _check_pods(change: _Change) -> Iterator[FieldError]:
    terminating, ready = change.count("terminating"), change.get("ready")
    ends = change.finished and (change.is_newly_finished or change.changed("terminating"))
    if ends and terminating > 0:
        detail = "terminating>0 is invalid for finished job"
        yield invalid(f"{_PATH}.terminating", terminating, detail)
    more_ready = ready is not None and ready > change.count("active")
    if change.changed("ready", "active") and more_ready:
        yield invalid(f"{_PATH}.ready", ready, "cannot set more ready pods than active")


def _check_success(change: _Change) -> Iterator[FieldError]:
    if change.has("SuccessCriteriaMet"):
        for kind in ("Failed", "FailureTarget"):
            if change.has(kind):
                yield _clash(f"cannot set SuccessCriteriaMet=True and {kind}=true conditions")
    elif change.spec.get("successPolicy") is not None and change.has("Complete"):
        rule = "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True"
        yield _clash(rule)


def _check_transition(change: _Change) -> Iterator[FieldError]:
    for kind in ("Failed", "Complete", "FailureTarget"):
        if change.had(kind) and not change.has(kind):
            yield _clash(f"cannot disable the terminal {kind}=True condition")
    yield from _check_counters(change)
    ended, was = change.get("completionTime"), change.old.get("completionTime")
    if ended and was and ended != was:
        yield invalid(f"{_PATH}.completionTime", ended, "field is immutable")
    resumes = change.had("Suspended") and _has(change.new, "Suspended", "False")
    restarted = change.old.get("startTime") and change.changed("startTime")
    if restarted and not resumes and not change.spec.get("suspend"):
        yield required(f"{_PATH}.startTime", "startTime cannot be removed for unsuspended job")
    had, has = change.had("SuccessCriteriaMet"), change.has("SuccessCriteriaMet")
    if had and not has:
        yield _clash("cannot disable the SuccessCriteriaMet=True condition")
    if change.had("Complete") and has and not had:
        rule = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield _clash(rule)


def _check_counters(change: _Change) -> Iterator[FieldError]:
    spec = change.spec
    indexed = spec.get("completionMode") == "Indexed"
    scalable = indexed and spec.get("completions") == spec.get("parallelism")
    for field in ("failed", "succeeded"):
        if field == "succeeded" and scalable:
            continue
        if (count := change.count(field)) < (change.old.get(field) or 0):
            yield invalid(f"{_PATH}.{field}", count, f"cannot decrease the {field} counter")
