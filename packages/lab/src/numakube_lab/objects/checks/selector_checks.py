"""Label selectors inside objects: whether they are well-formed, what they match, how they print."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, forbidden, invalid, invalids, required
from numakube.values import names
from numakube_lab.schema.metadata_checks import validate_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.kinds import Json

NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
NEEDS_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
UNKNOWN_OPERATOR: Final = "not a valid selector operator"
_MARKS: Final = {"In": " in ", "NotIn": " notin "}


def validate_label_selector(
    selector: Json | None, path: str, *, any_value: bool = False
) -> list[FieldError]:
    """Check a selector; values that are no label values pass if *any_value*."""
    if not selector:
        return []
    errors = validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or []):
        place = f"{path}.matchExpressions[{index}]"
        errors += _validate_requirement(requirement, place, any_value=any_value)
    return errors


def _validate_requirement(requirement: Json, path: str, *, any_value: bool) -> list[FieldError]:
    values = requirement.get("values") or []
    errors = validate_operator_values(requirement.get("operator") or "", values, path)
    key = requirement.get("key") or ""
    errors += invalids(f"{path}.key", key, names.qualified_name(key))
    if not any_value:
        for index, value in enumerate(values):
            errors += invalids(f"{path}.values[{index}]", value, names.label_value(value))
    return errors


def validate_operator_values(operator: str, values: list[str], path: str) -> list[FieldError]:
    """Check that a set-based operator is known and has values if it wants them."""
    if operator in {"In", "NotIn"}:
        return [] if values else [required(f"{path}.values", NEEDS_VALUES)]
    if operator in {"Exists", "DoesNotExist"}:
        return [forbidden(f"{path}.values", NEEDS_NO_VALUES)] if values else []
    return [invalid(f"{path}.operator", operator, UNKNOWN_OPERATOR)]


def is_convertible(selector: Json | None) -> bool:
    """Tell whether *selector* can be evaluated at all."""
    return not validate_label_selector(selector, "")


def is_empty(selector: Json | None) -> bool:
    """Tell whether *selector* has no requirement, so that it matches everything."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def matches(selector: Json | None, labels: Mapping[str, str] | None) -> bool:
    """Tell whether *labels* satisfy *selector*; no selector at all matches nothing."""
    if selector is None:
        return False
    have = labels or {}
    wanted = selector.get("matchLabels") or {}
    if any(have.get(key) != value for key, value in wanted.items()):
        return False
    return all(_satisfies(one, have) for one in selector.get("matchExpressions") or [])


def _satisfies(requirement: Json, labels: Mapping[str, str]) -> bool:
    key = requirement.get("key", "")
    values = requirement.get("values") or []
    match requirement.get("operator"):
        case "In":
            return key in labels and labels[key] in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case _:
            return False


def format_selector(selector: Json | None) -> str:
    """Return *selector* in the one-line form of kubectl: ``app=a,tier in (x,y)``."""
    if not is_convertible(selector):
        return "<error>"
    if selector is None or is_empty(selector):
        return "<none>"
    parts = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    parts += [
        (one["key"], _format_requirement(one)) for one in selector.get("matchExpressions") or []
    ]
    return ",".join(text for _, text in sorted(parts, key=lambda part: part[0]))


def _format_requirement(requirement: Json) -> str:
    key, operator = requirement["key"], requirement["operator"]
    if operator == "Exists":
        return str(key)
    if operator == "DoesNotExist":
        return f"!{key}"
    values = ",".join(sorted(set(requirement.get("values") or [])))
    return f"{key}{_MARKS[operator]}({values})"


def format_labels(labels: Mapping[str, str] | None) -> str:
    """Return *labels* in the one-line form of kubectl: ``a=b,c=d``."""
    return ",".join(f"{key}={value}" for key, value in sorted((labels or {}).items())) or "<none>"
