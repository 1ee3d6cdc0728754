"""Namespaces, and the ResourceQuotas in them, which are stored and not enforced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindRules, PartRules, keep
from kube_lab_server.kinds.table_columns import AGE, NAME, Column, Table, age_of, name_of
from kube_lab_server.kinds.value_checks import UNKNOWN_OPERATOR
from kube_lab_server.schema.metadata_checks import validate_finalizer_name
from numakube.api import resource_names as resources
from numakube.api.field_errors import FieldError, invalid, invalids, required
from numakube.api.resource_requirements import round_to_milli
from numakube.values import names
from numakube.values.quantity import parse_quantity
from numakube.values.resources import is_standard_for_quota

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


def _namespace(obj: Json, now: datetime) -> list[JsonValue]:
    return [name_of(obj), (obj.get("status") or {}).get("phase") or "", age_of(obj, now)]


NAMESPACE_TABLE: Final = Table(
    (NAME, Column("Status", "Whether the namespace is in use or going away."), AGE), _namespace
)


def _quota(obj: Json, now: datetime) -> list[JsonValue]:
    status = obj.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    shown = {name: f"{name}: {used.get(name) or '0'}/{hard[name]}" for name in sorted(hard)}
    limits = [text for name, text in shown.items() if name.startswith("limits.")]
    requests = [text for name, text in shown.items() if not name.startswith("limits.")]
    return [name_of(obj), ", ".join(requests), ", ".join(limits), age_of(obj, now)]


RESOURCE_QUOTA_TABLE: Final = Table(
    (
        NAME,
        Column("Request", "Used and largest total of requests and numbers of objects."),
        Column("Limit", "Used and largest total of limits."),
        AGE,
    ),
    _quota,
)


NAME_LABEL: Final = "kubernetes.io/metadata.name"
_KUBERNETES: Final = "kubernetes"


def _default(namespace: Json) -> None:
    _label(namespace)
    status = namespace.setdefault("status", {})
    status["phase"] = status.get("phase") or "Active"


def _label(namespace: Json) -> None:
    meta = namespace.setdefault("metadata", {})
    if name := meta.get("name"):
        meta["labels"] = (meta.get("labels") or {}) | {NAME_LABEL: name}


def _on_create(namespace: Json) -> None:
    namespace["status"] = {"phase": "Active"}
    spec = namespace.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    if _KUBERNETES not in finalizers:
        spec["finalizers"] = [*finalizers, _KUBERNETES]
    _label(namespace)


def _on_update(new: Json, old: Json) -> None:
    keep(new.setdefault("spec", {}), old.get("spec") or {}, "finalizers")
    _label(new)


def _prepare_finalize(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "status")


def _check(namespace: Json) -> list[FieldError]:
    return _check_finalizers(namespace, "spec.finalizers")


def _check_finalizers(namespace: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in (namespace.get("spec") or {}).get("finalizers") or []:
        errors += invalids(path, finalizer, names.qualified_name(finalizer))
        errors += validate_finalizer_name(finalizer, path)
    return errors


def _check_finalize(new: Json, old: Json) -> list[FieldError]:
    del old
    errors: list[FieldError] = []
    for index, finalizer in enumerate((new.get("spec") or {}).get("finalizers") or []):
        path = f"spec.finalizers[{index}]"
        errors += invalids(path, finalizer, names.qualified_name(finalizer))
        errors += validate_finalizer_name(finalizer, path)
    return errors


def _check_status(new: Json, old: Json) -> list[FieldError]:
    del old
    phase = (new.get("status") or {}).get("phase") or ""
    if new["metadata"].get("deletionTimestamp") is None:
        wanted, when = "Active", "if `deletionTimestamp` is empty"
    else:
        wanted, when = "Terminating", "if `deletionTimestamp` is not empty"
    if phase == wanted:
        return []
    return [invalid("status.Phase", phase, f"may only be '{wanted}' {when}")]


NAMESPACE: Final = KindRules(
    table=NAMESPACE_TABLE,
    namespaced=False,
    name_check=names.dns_label,
    parts={
        "status": PartRules(check=_check_status),
        "finalize": PartRules(prepare=_prepare_finalize, check=_check_finalize),
    },
    default=_default,
    on_create=_on_create,
    on_update=_on_update,
    check=_check,
    whole_first=True,
    rechecks_name=True,
)

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
    for expression in selector.get("matchExpressions") or []:
        scope = expression.get("scopeName") or ""
        given.add(scope)
        if scope not in _SCOPES:
            errors.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        misplaced = _misplaced(scope, spec.get("hard"))
        errors += [invalid(path, selector, _NOT_FOR_RESOURCE) for _ in misplaced]
        errors += _check_scope_operator(expression, scope, path)
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
    table=RESOURCE_QUOTA_TABLE,
    warn=_warn_quota,
    parts={"status": PartRules(check=_check_quota_status)},
    default=_default_quota,
    check=_check_quota,
    check_change=_check_quota_change,
)
