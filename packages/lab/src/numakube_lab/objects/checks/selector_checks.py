"""Label selectors inside objects: whether they are well-formed, and what they match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, forbidden, invalid, invalids, required
from numakube.api.selectors import NOTHING, Requirement, Selector
from numakube.values import names
from numakube_lab.schema.metadata_checks import validate_labels

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numakube_lab.kinds import Json

NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
NEEDS_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
UNKNOWN_OPERATOR: Final = "not a valid selector operator"


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


def selector_of(selector: Json | None) -> Selector:
    """Return what *selector* selects; none at all selects nothing."""
    if selector is None:
        return NOTHING
    exact = (selector.get("matchLabels") or {}).items()
    requirements = [Requirement(key, "=", frozenset((value,))) for key, value in exact]
    for one in selector.get("matchExpressions") or ():
        values = frozenset(one.get("values") or ())
        requirements.append(Requirement(one.get("key", ""), one.get("operator", ""), values))
    return Selector(tuple(sorted(requirements, key=lambda one: one.key)))


def matches(selector: Json | None, labels: Mapping[str, str] | None) -> bool:
    """Tell whether *labels* satisfy *selector*; no selector at all matches nothing."""
    return selector_of(selector).matches(labels or {})
