"""Conditions of the kind that all newer statuses have."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    duplicate,
    invalid,
    invalids,
    not_supported,
    required,
    too_long,
)
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.kinds import Json

_STATUSES: Final = ("False", "True", "Unknown")
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32 * 1024
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_match_reason: Final = re.compile(_REASON).fullmatch
_REASON_WRONG: Final = names.regex_message(
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
    _REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def validate_conditions(conditions: Sequence[Json], path: str) -> list[FieldError]:
    """Check conditions of the kind that all newer statuses have."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place = f"{path}[{index}]"
        kind = condition.get("type") or ""
        if kind in seen:
            errors.append(duplicate(f"{place}.type", kind))
        seen.add(kind)
        errors += _check_condition(condition, place)
    return errors


def _check_condition(condition: Json, path: str) -> list[FieldError]:
    kind, status = condition.get("type") or "", condition.get("status") or ""
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    errors = invalids(f"{path}.type", kind, names.qualified_name(kind))
    if status not in _STATUSES:
        errors.append(not_supported(f"{path}.status", status, _STATUSES))
    if (observed := condition.get("observedGeneration") or 0) < 0:
        detail = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.observedGeneration", observed, detail))
    if condition.get("lastTransitionTime") is None:
        errors.append(required(f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(required(f"{path}.reason"))
    elif not _match_reason(reason):
        errors.append(invalid(f"{path}.reason", reason, _REASON_WRONG))
    if len(reason.encode()) > _MAX_REASON:
        errors.append(too_long(f"{path}.reason", _MAX_REASON))
    if len(message.encode("utf-8", "surrogatepass")) > _MAX_MESSAGE:
        errors.append(too_long(f"{path}.message", _MAX_MESSAGE))
    return errors
