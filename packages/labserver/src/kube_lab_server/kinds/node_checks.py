"""Checks of what pods and volumes say of nodes: selectors, taints and tolerations, allocatable."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.value_checks import UNKNOWN_OPERATOR, validate_operator_values
from numakube.api.field_errors import (
    ErrorType,
    FieldError,
    Verbatim,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_found,
    not_supported,
    required,
)
from numakube.values import names
from numakube.values.quantity import parse_quantity
from numakube.values.resources import is_pod_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kube_lab_server.kind_names import Json


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


EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_NO_KEY: Final = (
    'operator must be Exists when `key` is empty, which means "match all values and all keys"'
)
_ONLY_SECONDS: Final = "existing toleration can not be modified except its tolerationSeconds"


def validate_effect(effect: str, path: str) -> list[FieldError]:
    """Check the effect of a taint or toleration."""
    return [] if effect in EFFECTS else [not_supported(path, effect, EFFECTS)]


def validate_tolerations(tolerations: Sequence[Json], path: str) -> list[FieldError]:
    """Check the tolerations of a pod."""
    errors: list[FieldError] = []
    for index, toleration in enumerate(tolerations):
        errors += _validate_toleration(toleration, f"{path}[{index}]")
    return errors


def _validate_toleration(toleration: Json, path: str) -> list[FieldError]:
    key = toleration.get("key") or ""
    operator = toleration.get("operator") or ""
    effect = toleration.get("effect") or ""
    errors = invalids(f"{path}.key", key, names.qualified_name(key)) if key else []
    if not key and operator != "Exists":
        errors.append(invalid(f"{path}.operator", operator, _NO_KEY))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(f"{path}.effect", effect, detail))
    errors += _validate_operator(operator, toleration.get("value") or "", f"{path}.operator")
    return errors + (validate_effect(effect, f"{path}.effect") if effect else [])


def _validate_operator(operator: str, value: str, path: str) -> list[FieldError]:
    if operator in {"", "Equal"}:
        wrong = names.label_value(value)
        return [invalid(path, value, ";".join(wrong))] if wrong else []
    if operator == "Exists":
        detail = "value must be empty when `operator` is 'Exists'"
        return [invalid(path, value, detail)] if value else []
    # Comparison is behind a gate that is off in 1.35; a refusal names it all the same.
    known = ("Equal", "Exists", "Lt", "Gt") if operator in {"Lt", "Gt"} else ("Equal", "Exists")
    return [not_supported(path, operator, known)]


def validate_only_added_tolerations(
    new: Sequence[Json], old: Sequence[Json], path: str
) -> list[FieldError]:
    """Check that a pod's update adds tolerations or changes their seconds, nothing else."""
    kept = [_without_seconds(toleration) for toleration in new]
    if any(_without_seconds(toleration) not in kept for toleration in old):
        return [forbidden(path, _ONLY_SECONDS)]
    return validate_tolerations(new, path)


def _without_seconds(toleration: Json) -> Json:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def merge_tolerations(tolerations: Sequence[Json]) -> list[Json]:
    """Return *tolerations* without those that another one covers."""
    merged: list[Json] = []
    for index, one in enumerate(tolerations):
        earlier = any(_covers(other, one) for other in merged)
        later = any(other != one and _covers(other, one) for other in tolerations[index + 1 :])
        if not earlier and not later:
            merged.append(one)
    return merged


def _covers(one: Json, other: Json) -> bool:
    """Tell whether *one* tolerates whatever *other* does."""
    if one == other:
        return True
    operator = one.get("operator") or "Equal"
    every_key = not one.get("key") and operator == "Exists"
    if one.get("key") != other.get("key") and not every_key:
        return False
    if one.get("effect") and one.get("effect") != other.get("effect"):
        return False
    patience = one.get("tolerationSeconds")
    if one.get("effect") == "NoExecute" and patience is not None:
        longer = other.get("tolerationSeconds")
        if longer is None or longer > patience:
            return False
    if operator == "Equal":
        return other.get("operator") == "Equal" and one.get("value") == other.get("value")
    return operator == "Exists"


def validate_taints(taints: Sequence[Json], path: str) -> list[FieldError]:
    """Check the taints of a node, which are unique by key and effect."""
    errors: list[FieldError] = []
    seen: dict[str, set[str]] = {}
    for index, taint in enumerate(taints):
        place = f"{path}[{index}]"
        key, effect = taint.get("key") or "", taint.get("effect") or ""
        value = taint.get("value") or ""
        errors += invalids(f"{place}.key", key, names.qualified_name(key))
        if wrong := names.label_value(value):
            errors.append(invalid(f"{place}.value", value, ";".join(wrong)))
        errors += (
            validate_effect(effect, f"{place}.effect") if effect else [required(f"{place}.effect")]
        )
        known = seen.setdefault(effect, set())
        if key in known:
            errors.append(_repeated_taint(taint, place))
        known.add(key)
    return errors


def _repeated_taint(taint: Json, path: str) -> FieldError:
    # The taint is shown as the server holds it, with the field names of its Go type.
    shown = {
        "Key": taint.get("key") or "",
        "Value": taint.get("value") or "",
        "Effect": taint.get("effect") or "",
        "TimeAdded": taint.get("timeAdded"),
    }
    text = Verbatim(json.dumps(shown, separators=(",", ":"), ensure_ascii=False))
    return FieldError(
        ErrorType.DUPLICATE, path, "taints must be unique by key and effect pair", text
    )


_NOT_ALLOCATABLE: Final = "must be a node allocatable resource name"
_EITHER: Final = "at least one of perPod or perContainer must be set"


def check_device_resources(device: Json, path: str) -> list[FieldError]:
    """Check what one device of a slice stands for."""
    errors: list[FieldError] = []
    for name, one in sorted((device.get("nodeAllocatableResources") or {}).items()):
        place = f"{path}.nodeAllocatableResources[{name}]"
        if not is_pod_level(name):
            errors.append(invalid(place, name, _NOT_ALLOCATABLE))
        mapping, overhead = one.get("mapping"), one.get("overhead")
        if mapping is None and overhead is None:
            errors.append(required(place, "at least one of mapping or overhead must be set"))
        if mapping is not None:
            errors += _check_mapping(mapping, device.get("capacity") or {}, f"{place}.mapping")
        if overhead is not None:
            errors += _check_overhead(overhead, f"{place}.overhead")
    return errors


def _check_mapping(mapping: Json, capacity: Json, path: str) -> list[FieldError]:
    key, factor = mapping.get("capacityKey"), mapping.get("capacityMultiplier")
    errors: list[FieldError] = []
    if key is not None and key not in capacity:
        place = f"{path}.capacityKey"
        errors.append(not_found(place, key))
    if (key is None) != (factor is None):
        has, lacks = ("capacityKey", "capacityMultiplier")[:: 1 if factor is None else -1]
        errors.append(required(f"{path}.{lacks}", f"{lacks} is required when {has} is set"))
    for field in ("capacityMultiplier", "deviceMultiplier"):
        value = mapping.get(field)
        if value is not None and parse_quantity(value).value() <= 0:
            errors.append(invalid(f"{path}.{field}", str(value), "must be positive"))
    return errors


def _check_overhead(overhead: Json, path: str) -> list[FieldError]:
    given = {field: overhead.get(field) for field in ("perPod", "perContainer")}
    if all(value is None for value in given.values()):
        return [invalid(path, "", _EITHER)]
    return [
        invalid(f"{path}.{field}", str(value), "must be non-negative")
        for field, value in given.items()
        if value is not None and parse_quantity(value).milli_value() < 0
    ]


def check_pod_resources(status: Json, spec: Json) -> list[FieldError]:
    """Check what the status of a pod says of its claims."""
    known = {claim.get("resourceClaimName") for claim in spec.get("resourceClaims") or ()}
    known |= {entry.get("resourceClaimName") for entry in status.get("resourceClaimStatuses") or ()}
    errors: list[FieldError] = []
    for index, one in enumerate(status.get("nodeAllocatableResourceClaimStatuses") or ()):
        path = f"status.nodeAllocatableResourceClaimStatuses[{index}]"
        name = one.get("resourceClaimName") or ""
        if name and name not in known:
            detail = "no mapping found in pod reference"
            errors.append(invalid(f"{path}.resourceClaimName", name, detail))
        for field in ("mapping", "overhead"):
            for position, item in enumerate(one.get(field) or ()):
                errors += _check_item(item, f"{path}.{field}[{position}]", field)
    return errors


def _check_item(item: Json, path: str, field: str) -> list[FieldError]:
    name = item.get("name") or ""
    errors = [] if is_pod_level(name) else [invalid(f"{path}.name", name, _NOT_ALLOCATABLE)]
    if field == "overhead":
        return errors + _check_overhead(item, path)
    quantity = item.get("quantity")
    if quantity is not None and parse_quantity(quantity).milli_value() < 0:
        errors.append(invalid(f"{path}.quantity", str(quantity), "must be non-negative"))
    return errors
