"""ResourceQuotas and LimitRanges."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api import resource_names as resources
from numakube.api.field_errors import FieldError, duplicate, forbidden, invalid, invalids, required
from numakube.api.resource_requirements import round_to_milli
from numakube.values import names
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import is_overcommit_allowed, is_standard_for_quota
from numakube_lab.objects.checks.kind_rules import KindRules, PartRules
from numakube_lab.objects.checks.selector_checks import UNKNOWN_OPERATOR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.kinds import Json

_POD_SCOPES: Final = frozenset(
    {
        "Terminating",
        "NotTerminating",
        "NotBestEffort",
        "PriorityClass",
        "CrossNamespacePodAffinity",
    }
)
_SCOPES: Final = _POD_SCOPES | {"BestEffort", "VolumeAttributesClass"}
_BARE_SCOPES: Final = frozenset(
    {
        "BestEffort",
        "NotBestEffort",
        "Terminating",
        "NotTerminating",
        "CrossNamespacePodAffinity",
    }
)
_CONFLICTS: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_POD_COMPUTE: Final = frozenset(
    {
        "pods",
        "cpu",
        "memory",
        "limits.cpu",
        "limits.memory",
        "requests.cpu",
        "requests.memory",
    }
)
_NOT_FOR_RESOURCE: Final = "unsupported scope applied to resource"
_MUST_EXIST: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "
    "ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "
    "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _default_quota(quota: Json) -> None:
    round_to_milli((quota.get("spec") or {}).get("hard"))
    for field in ("hard", "used"):
        round_to_milli((quota.get("status") or {}).get(field))


def _check_quota(quota: Json) -> list[FieldError]:
    spec = quota.get("spec") or {}
    errors = _check_amounts(spec.get("hard"), "spec.hard")
    errors += _check_scopes(spec, "spec.scopes")
    return errors + _check_scope_selector(spec, "spec.scopeSelector.matchExpressions")


def _check_amounts(amounts: Json | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, text in sorted((amounts or {}).items()):
        place = f"{path}[{name}]"
        errors += resources.validate_quota_resource_name(name, place)
        errors += resources.validate_amount(name, text, place)
    return errors


def _misplaced(scope: str, hard: Json | None) -> Iterator[str]:
    """Yield the resources of a quota that objects in *scope* do not have."""
    for name in sorted(hard or {}):
        if not is_standard_for_quota(name):
            continue
        if scope == "BestEffort":
            fits = name == "pods"
        elif scope == "VolumeAttributesClass":
            fits = name in {"persistentvolumeclaims", "requests.storage"}
        else:
            fits = scope not in _POD_SCOPES or name in _POD_COMPUTE
        if not fits:
            yield name


def _check_scopes(spec: Json, path: str) -> list[FieldError]:
    scopes = spec.get("scopes") or []
    errors = []
    for scope in scopes:
        if scope not in _SCOPES:
            errors.append(invalid(path, scopes, "unsupported scope"))
        misplaced = _misplaced(scope, spec.get("hard"))
        errors += [invalid(path, scopes, _NOT_FOR_RESOURCE) for _ in misplaced]
    return errors + _check_conflicts(set(scopes), scopes, path)


def _check_conflicts(given: set[str], scopes: list[str], path: str) -> list[FieldError]:
    return [
        invalid(path, scopes or None, "conflicting scopes")
        for conflict in _CONFLICTS
        if conflict <= given
    ]


def _check_scope_selector(spec: Json, path: str) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if selector is None:
        return []
    errors: list[FieldError] = []
    given = set()
    for one in selector.get("matchExpressions") or []:
        scope = one.get("scopeName") or ""
        given.add(scope)
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        misplaced = _misplaced(scope, spec.get("hard"))
        errors += [invalid(path, selector, _NOT_FOR_RESOURCE) for _ in misplaced]
        errors += _check_scope_operator(one, scope, path)
    return errors + _check_conflicts(given, spec.get("scopes") or [], path)


def _check_scope_operator(one: Json, scope: str, path: str) -> list[FieldError]:
    operator, values = one.get("operator") or "", one.get("values") or []
    errors = []
    if scope in _BARE_SCOPES and operator != "Exists":
        errors.append(invalid(f"{path}.operator", operator, _MUST_EXIST))
    if operator in {"In", "NotIn"}:
        if not values:
            rule = "must be at least one value when `operator` is 'In' or 'NotIn'"
            errors.append(required(f"{path}.values", f"{rule} for scope selector"))
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            rule = "must be no value when `operator` is 'Exist' or 'DoesNotExist'"
            errors.append(invalid(f"{path}.values", values, f"{rule} for scope selector"))
    else:
        errors.append(invalid(f"{path}.operator", operator, UNKNOWN_OPERATOR))
    return errors


def _check_quota_change(new: Json, old: Json) -> list[FieldError]:
    after, before = ((obj.get("spec") or {}).get("scopes") or [] for obj in (new, old))
    if set(after) == set(before):
        return []
    return [invalid("spec.scopes", after or None, names.IMMUTABLE)]


def _check_quota_status(new: Json, old: Json) -> list[FieldError]:
    del old
    status = new.get("status") or {}
    errors = _check_amounts(status.get("hard"), "status.hard")
    return errors + _check_amounts(status.get("used"), "status.used")


def _warn_quota(quota: Json, old: Json | None) -> list[str]:
    """Warn of a new quota that grants more requests than limits."""
    if old is not None:
        return []
    hard = (quota.get("spec") or {}).get("hard") or {}
    warnings = []
    for name in ("cpu", "memory", "storage", "ephemeral-storage"):
        request = f"requests.{name}"
        if request not in hard and name in {"cpu", "memory"}:
            request = name
        limit = f"limits.{name}"
        if request not in hard or limit not in hard:
            continue
        if parse_quantity(hard[request]) > parse_quantity(hard[limit]):
            shown = f"{request} ({hard[request]}) should be less than {limit} ({hard[limit]})"
            warnings.append(f"ResourceQuota {shown}")
    return warnings


RESOURCE_QUOTA: Final = KindRules(
    warn=_warn_quota,
    parts={"status": PartRules(check=_check_quota_status)},
    default=_default_quota,
    check=_check_quota,
    check_change=_check_quota_change,
)

_SIDES: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_LIMIT_TYPES: Final = frozenset({"Pod", "Container", "PersistentVolumeClaim"})


def _default_range(limit_range: Json) -> None:
    for limit in (limit_range.get("spec") or {}).get("limits") or []:
        if limit.get("type") == "Container":
            defaults = (limit.get("max") or {}) | (limit.get("default") or {})
            requests = (limit.get("min") or {}) | defaults | (limit.get("defaultRequest") or {})
            for field, amounts in (("default", defaults), ("defaultRequest", requests)):
                if amounts:
                    limit[field] = amounts
        for side in _SIDES:
            round_to_milli(limit.get(side))


def _check_range(limit_range: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, limit in enumerate((limit_range.get("spec") or {}).get("limits") or []):
        path = f"spec.limits[{index}]"
        kind = limit.get("type") or ""
        errors += _check_limit_type(kind, f"{path}.type")
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        errors += _check_limit_names(limit, kind, path)
        for name in sorted({name for side in _SIDES for name in limit.get(side) or {}}):
            errors += _check_limit_bounds(limit, name, path)
    return errors


def _check_limit_type(kind: str, path: str) -> list[FieldError]:
    if errors := invalids(path, kind, names.qualified_name(kind)):
        return errors
    if "/" in kind or kind in _LIMIT_TYPES:
        return []
    return [invalid(path, kind, "must be a standard limit type or fully qualified")]


def _check_limit_names(limit: Json, kind: str, path: str) -> list[FieldError]:
    compute = kind in {"Pod", "Container"}
    rule = (
        resources.validate_container_resource_name if compute else resources.validate_resource_name
    )
    errors: list[FieldError] = []
    for side in _SIDES:
        given = limit.get(side) or {}
        if kind == "Pod" and given and side in {"default", "defaultRequest"}:
            detail = "may not be specified when `type` is 'Pod'"
            errors.append(forbidden(f"{path}.{side}", detail))
            continue
        if side == "maxLimitRequestRatio" and kind == "PersistentVolumeClaim":
            errors += _check_claim_limit(limit, path)
        for name in sorted(given):
            errors += rule(name, f"{path}.{side}[{name}]")
    return errors


def _check_claim_limit(limit: Json, path: str) -> list[FieldError]:
    if any("storage" in (limit.get(side) or {}) for side in ("min", "max")):
        return []
    detail = "either minimum or maximum storage value is required, but neither was provided"
    return [required(f"{path}.limits", detail)]


# Which bound may not exceed which, where that is reported, with whose value, and in which words.
_ORDER: Final = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _check_limit_bounds(limit: Json, name: str, path: str) -> list[FieldError]:
    amounts: dict[str, Quantity] = {
        side: parse_quantity(limit[side][name])
        for side in _SIDES
        if name in (limit.get(side) or {})
        and not (limit.get("type") == "Pod" and side in {"default", "defaultRequest"})
    }
    errors = []
    for low, high, place, shown, words in _ORDER:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            detail = words.format(amounts[low], amounts[high])
            errors.append(invalid(f"{path}.{place}[{name}]", str(amounts[shown]), detail))
    errors += _check_ratio(amounts, f"{path}.maxLimitRequestRatio[{name}]")
    if not is_overcommit_allowed(name):
        errors += _check_equal(amounts, name, f"{path}.defaultRequest[{name}]")
    return errors


def _check_equal(amounts: dict[str, Quantity], name: str, path: str) -> list[FieldError]:
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if default is None or request is None or default == request:
        return []
    words = f"default value {default} must equal to defaultRequest value {request} in {name}"
    return [invalid(path, str(request), words)]


def _check_ratio(amounts: dict[str, Quantity], path: str) -> list[FieldError]:
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is None:
        return []
    errors = []
    if ratio < Quantity(1):
        errors.append(invalid(path, str(ratio), f"ratio {ratio} is less than 1"))
    if "min" in amounts and "max" in amounts and amounts["min"].milli_value():
        most = amounts["max"].milli_value() / amounts["min"].milli_value()
        if ratio.milli_value() / 1000 > most:
            words = f"ratio {ratio} is greater than max/min = {most:f}"
            errors.append(invalid(path, str(ratio), words))
    return errors


LIMIT_RANGE: Final = KindRules(
    own_metadata_change=False, default=_default_range, check=_check_range, rechecks_name=True
)
