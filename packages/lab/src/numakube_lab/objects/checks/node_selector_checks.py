"""Selectors of nodes: node affinity of pods and volumes, topology terms of storage classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, duplicate, invalid, invalids, required
from numakube.values import names
from numakube_lab.objects.checks.selector_checks import UNKNOWN_OPERATOR, validate_operator_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numakube_lab.kinds import Json


REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
WEIGHT_WRONG: Final = "must be in the range 1-100"
_ONE_FIELD_VALUE: Final = (
    "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
)


def validate_node_affinity(
    affinity: Json, path: str, *, any_value: bool = False
) -> list[FieldError]:
    """Check a pod's node affinity; invalid old label values pass if *any_value*."""
    errors: list[FieldError] = []
    if (selector := affinity.get(REQUIRED)) is not None:
        errors += validate_node_selector(selector, f"{path}.{REQUIRED}", any_value=any_value)
    for index, term in enumerate(affinity.get(PREFERRED) or []):
        place = f"{path}.{PREFERRED}[{index}]"
        errors += validate_weight(term, place)
        preference = term.get("preference") or {}
        errors += validate_node_selector_term(preference, f"{place}.preference", any_value=True)
    return errors


def validate_weight(term: Json, path: str) -> list[FieldError]:
    """Check the weight of a preferred term."""
    weight = term.get("weight") or 0
    return [] if 0 < weight <= 100 else [invalid(f"{path}.weight", weight, WEIGHT_WRONG)]


def validate_node_selector(
    selector: Json, path: str, *, any_value: bool = False
) -> list[FieldError]:
    """Check a node selector, which has at least one term."""
    place = f"{path}.nodeSelectorTerms"
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(place, "must have at least one node selector term")]
    errors: list[FieldError] = []
    for index, term in enumerate(terms):
        errors += validate_node_selector_term(term, f"{place}[{index}]", any_value=any_value)
    return errors


def validate_node_selector_term(
    term: Json, path: str, *, any_value: bool = False
) -> list[FieldError]:
    """Check one term, whose expressions must all hold."""
    errors: list[FieldError] = []
    for index, one in enumerate(term.get("matchExpressions") or []):
        place = f"{path}.matchExpressions[{index}]"
        errors += _validate_expression(one, place, any_value=any_value)
    for index, one in enumerate(term.get("matchFields") or []):
        errors += _validate_field(one, f"{path}.matchFields[{index}]")
    return errors


def _validate_expression(one: Json, path: str, *, any_value: bool) -> list[FieldError]:
    operator, values = one.get("operator") or "", one.get("values") or []
    if operator not in {"Gt", "Lt"}:
        errors = validate_operator_values(operator, values, path)
    elif len(values) == 1:
        errors = []
    else:
        detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
        errors = [required(f"{path}.values", detail)]
    key = one.get("key") or ""
    errors += invalids(f"{path}.key", key, names.qualified_name(key))
    if not any_value:
        for index, value in enumerate(values):
            errors += invalids(f"{path}.values[{index}]", value, names.label_value(value))
    return errors


def _validate_field(one: Json, path: str) -> list[FieldError]:
    operator, values = one.get("operator") or "", one.get("values") or []
    errors: list[FieldError] = []
    if operator not in {"In", "NotIn"}:
        errors.append(invalid(f"{path}.operator", operator, UNKNOWN_OPERATOR))
    elif len(values) != 1:
        errors.append(required(f"{path}.values", _ONE_FIELD_VALUE))
    key = one.get("key") or ""
    if key != "metadata.name":
        return [*errors, invalid(f"{path}.key", key, "not a valid field selector key")]
    for index, value in enumerate(values):
        errors += invalids(f"{path}.values[{index}]", value, names.dns_subdomain(value))
    return errors


def validate_node_affinity_mutation(
    new: Json | None, old: Json | None, path: str
) -> list[FieldError]:
    """Check that a gated pod's required node affinity only gets narrower."""
    old_terms = ((old or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    new_terms = ((new or {}).get(REQUIRED) or {}).get("nodeSelectorTerms") or []
    place = f"{path}.{REQUIRED}.nodeSelectorTerms"
    if old_terms and len(old_terms) != len(new_terms):
        detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        return [invalid(place, new_terms or None, detail)]
    detail = "only additions are allowed (no mutations or deletions)"
    return [
        invalid(f"{place}[{index}]", after, detail)
        for index, (before, after) in enumerate(zip(old_terms, new_terms, strict=False))
        if not _only_adds(after, before)
    ]


def _only_adds(new: Json, old: Json) -> bool:
    sides = ("matchExpressions", "matchFields")
    if not any(old.get(side) for side in sides):
        # A term without requirements matches nothing; adding one would make it match more.
        return not any(new.get(side) for side in sides)
    return all(_starts_with(new.get(side) or [], old.get(side) or []) for side in sides)


def _starts_with(items: Sequence[Json], head: Sequence[Json]) -> bool:
    return items[: len(head)] == head


def validate_topology_term(term: Json, path: str) -> list[FieldError]:
    """Check a topology term of a storage class."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, one in enumerate(term.get("matchLabelExpressions") or []):
        place = f"{path}.matchLabelExpressions[{index}]"
        key, values = one.get("key") or "", one.get("values") or []
        if not values:
            errors.append(required(f"{place}.values"))
        errors += [
            duplicate(f"{place}.values[{position}]", value)
            for position, value in enumerate(values)
            if value in values[:position]
        ]
        errors += invalids(f"{place}.key", key, names.qualified_name(key))
        if key in seen:
            errors.append(duplicate(f"{place}.key", key))
        seen.add(key)
    return errors


DEPRECATED_LABELS: Final = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
"""Labels with the warning for their users."""
