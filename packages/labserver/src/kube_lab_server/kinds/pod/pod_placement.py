"""Rules of a pod about other pods: affinity, anti-affinity and topology spread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.kinds.node_checks import (
    PREFERRED,
    REQUIRED,
    validate_node_affinity,
    validate_weight,
)
from kube_lab_server.kinds.value_checks import validate_label_selector
from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.values import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kube_lab_server.kind_names import Json

_NO_SELECTOR: Final = "must not be specified when labelSelector is not set"
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_NODE_POLICIES: Final = ("Honor", "Ignore")


def validate_affinity(affinity: Json | None, path: str) -> list[FieldError]:
    """Check all three parts of a pod's affinity."""
    errors: list[FieldError] = []
    if not affinity:
        return errors
    if (node := affinity.get("nodeAffinity")) is not None:
        errors += validate_node_affinity(node, f"{path}.nodeAffinity")
    for part in ("podAffinity", "podAntiAffinity"):
        if (terms := affinity.get(part)) is not None:
            errors += _validate_pod_affinity(terms, f"{path}.{part}")
    return errors


def _validate_pod_affinity(affinity: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, term in enumerate(affinity.get(REQUIRED) or []):
        errors += _validate_term(term, f"{path}.{REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.get(PREFERRED) or []):
        place = f"{path}.{PREFERRED}[{index}]"
        errors += validate_weight(weighted, place)
        errors += _validate_term(weighted.get("podAffinityTerm") or {}, f"{place}.podAffinityTerm")
    return errors


def _validate_term(term: Json, path: str) -> list[FieldError]:
    errors = validate_label_selector(term.get("labelSelector"), f"{path}.labelSelector")
    errors += validate_label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector")
    for namespace in term.get("namespaces") or []:
        errors += invalids(f"{path}.namespace", namespace, names.dns_label(namespace))
    errors += _validate_label_keys(term, path)
    key = term.get("topologyKey") or ""
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    return errors + invalids(f"{path}.topologyKey", key, names.qualified_name(key))


def _validate_label_keys(term: Json, path: str) -> list[FieldError]:
    """Check the keys whose values are taken from the pod's own labels."""
    match, mismatch = term.get("matchLabelKeys") or [], term.get("mismatchLabelKeys") or []
    selector = term.get("labelSelector")
    errors = _validate_keys(match, selector, f"{path}.matchLabelKeys")
    errors += _validate_keys(mismatch, selector, f"{path}.mismatchLabelKeys")
    errors += _validate_merged_keys(match, selector or {}, path)
    detail = "exists in both matchLabelKeys and mismatchLabelKeys"
    errors += [
        invalid(f"{path}.matchLabelKeys[{index}]", key, detail)
        for index, key in enumerate(match)
        if key in mismatch
    ]
    return errors


def _validate_keys(keys: Sequence[str], selector: Json | None, path: str) -> list[FieldError]:
    if not keys:
        return []
    if selector is None:
        return [forbidden(path, _NO_SELECTOR)]
    errors: list[FieldError] = []
    for index, key in enumerate(keys):
        errors += invalids(f"{path}[{index}]", key, names.qualified_name(key))
    return errors


def _validate_merged_keys(keys: Sequence[str], selector: Json, path: str) -> list[FieldError]:
    # By now the server has added one expression a key, so a key in the selector of the user is
    # one that occurs twice.
    positions = {key: index for index, key in enumerate(keys)}
    seen = set(selector.get("matchLabels") or {})
    errors = []
    for expression in selector.get("matchExpressions") or []:
        key = expression.get("key") or ""
        if key in positions and key in seen:
            detail = "exists in both matchLabelKeys and labelSelector"
            errors.append(invalid(f"{path}[{positions[key]}]", key, detail))
        seen.add(key)
    return errors


def validate_spread(constraints: Sequence[Json], path: str) -> list[FieldError]:
    """Check the topology spread constraints of a pod."""
    errors: list[FieldError] = []
    for index, constraint in enumerate(constraints):
        place = f"{path}[{index}]"
        repeated = _pair(constraint) in map(_pair, constraints[index + 1 :])
        errors += _validate_constraint(constraint, place, repeated=repeated)
        errors += _validate_label_keys(constraint, place)
        selector = constraint.get("labelSelector")
        errors += validate_label_selector(selector, f"{place}.labelSelector")
    return errors


def _pair(constraint: Json) -> tuple[str, str]:
    return constraint.get("topologyKey") or "", constraint.get("whenUnsatisfiable") or ""


def _validate_constraint(constraint: Json, path: str, *, repeated: bool) -> list[FieldError]:
    errors: list[FieldError] = []
    skew = constraint.get("maxSkew") or 0
    key, action = _pair(constraint)
    if skew <= 0:
        errors.append(invalid(f"{path}.maxSkew", skew, names.NOT_POSITIVE))
    if not key:
        errors.append(required(f"{path}.topologyKey", "can not be empty"))
    if action not in _ACTIONS:
        errors.append(not_supported(f"{path}.whenUnsatisfiable", action, _ACTIONS))
    if repeated:
        shown = f"{{{key}, {action}}}"
        errors.append(duplicate(f"{path}.{{topologyKey, whenUnsatisfiable}}", shown))
    errors += _validate_min_domains(constraint.get("minDomains"), action, f"{path}.minDomains")
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(field)
        if policy is not None and policy not in _NODE_POLICIES:
            errors.append(not_supported(f"{path}.{field}", policy, _NODE_POLICIES))
    return errors


def _validate_min_domains(count: int | None, action: str, path: str) -> list[FieldError]:
    if count is None:
        return []
    errors = [invalid(path, count, names.NOT_POSITIVE)] if count <= 0 else []
    if action != "DoNotSchedule":
        rule = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, count, rule))
    return errors


def affinity_terms(affinity: Json | None, part: str) -> Iterator[tuple[str, Json]]:
    """Yield each term of ``podAffinity`` or ``podAntiAffinity`` (*part*) with its path in it."""
    terms = (affinity or {}).get(part) or {}
    for index, term in enumerate(terms.get(REQUIRED) or []):
        yield f"{REQUIRED}[{index}]", term
    for index, weighted in enumerate(terms.get(PREFERRED) or []):
        yield f"{PREFERRED}[{index}].podAffinityTerm", weighted.get("podAffinityTerm") or {}


def merge_label_keys(spec: Json, labels: dict[str, str]) -> None:
    """Add what a pod's own labels say to the selectors that name label keys."""
    affinity = spec.get("affinity")
    for part in ("podAffinity", "podAntiAffinity"):
        for _, term in affinity_terms(affinity, part):
            _merge(term, labels)
    for constraint in spec.get("topologySpreadConstraints") or []:
        _merge(constraint, labels)


def _merge(term: Json, labels: dict[str, str]) -> None:
    selector: dict[str, Any] | None = term.get("labelSelector")
    if selector is None:
        return
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn"))
        for key in term.get(field) or []
        if key in labels
    ]
    if added:
        selector["matchExpressions"] = [*(selector.get("matchExpressions") or []), *added]
