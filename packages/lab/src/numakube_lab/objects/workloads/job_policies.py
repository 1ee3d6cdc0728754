"""When the pods of a job count as failed, are replaced, or are enough."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

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
from numakube_lab.objects.checks.number_checks import not_negative

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numakube_lab.kinds import Json

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
