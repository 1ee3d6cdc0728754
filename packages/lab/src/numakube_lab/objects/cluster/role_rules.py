"""Roles, ClusterRoles and their bindings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalid, invalids, not_supported, required
from numakube.values import names
from numakube_lab.objects.checks.kind_rules import KindRules
from numakube_lab.objects.checks.selector_checks import validate_label_selector

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

GROUP: Final = "rbac.authorization.k8s.io"


def _check_role(role: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(role.get("rules") or []):
        errors += _check_rule(rule, f"rules[{index}]", namespaced=True)
    return errors


def _check_cluster_role(role: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, rule in enumerate(role.get("rules") or []):
        errors += _check_rule(rule, f"rules[{index}]", namespaced=False)
    aggregation = role.get("aggregationRule")
    if aggregation is None:
        return errors
    path = "aggregationRule.clusterRoleSelectors"
    selectors = aggregation.get("clusterRoleSelectors") or []
    if not selectors:
        detail = "at least one clusterRoleSelector required if aggregationRule is non-nil"
        errors.append(required(path, detail))
    for index, selector in enumerate(selectors):
        place = f"{path}[{index}]"
        wrong = validate_label_selector(selector, place)
        errors += wrong
        if wrong:
            errors.append(invalid(place, None, "invalid label selector."))
    return errors


def _check_rule(rule: Json, path: str, *, namespaced: bool) -> list[FieldError]:
    errors = []
    if not rule.get("verbs"):
        errors.append(required(f"{path}.verbs", "verbs must contain at least one value"))
    if urls := rule.get("nonResourceURLs"):
        place = f"{path}.nonResourceURLs"
        if namespaced:
            detail = "namespaced rules cannot apply to non-resource URLs"
            errors.append(invalid(place, urls, detail))
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            detail = "rules cannot apply to both regular resources and non-resource URLs"
            errors.append(invalid(place, urls, detail))
        return errors
    if not rule.get("apiGroups"):
        detail = "resource rules must supply at least one api group"
        errors.append(required(f"{path}.apiGroups", detail))
    if not rule.get("resources"):
        detail = "resource rules must supply at least one resource"
        errors.append(required(f"{path}.resources", detail))
    return errors


ROLE: Final = KindRules(name_check=names.path_segment, check=_check_role, rechecks_name=True)
CLUSTER_ROLE: Final = KindRules(
    namespaced=False,
    name_check=names.path_segment,
    check=_check_cluster_role,
    rechecks_name=True,
)


def _default_binding(binding: Json) -> None:
    ref = binding.setdefault("roleRef", {})
    ref["apiGroup"] = ref.get("apiGroup") or GROUP
    for subject in binding.get("subjects") or []:
        if not subject.get("apiGroup") and subject.get("kind") in {"User", "Group"}:
            subject["apiGroup"] = GROUP


def _check_binding(binding: Json, *, namespaced: bool) -> list[FieldError]:
    ref = binding.get("roleRef") or {}
    errors: list[FieldError] = []
    group, kind, name = (ref.get(field) or "" for field in ("apiGroup", "kind", "name"))
    if group != GROUP:
        errors.append(not_supported("roleRef.apiGroup", group, (GROUP,)))
    kinds = ("Role", "ClusterRole") if namespaced else ("ClusterRole",)
    if kind not in kinds:
        errors.append(not_supported("roleRef.kind", kind, kinds))
    if name:
        errors += invalids("roleRef.name", name, names.path_segment(name))
    else:
        errors.append(required("roleRef.name"))
    for index, subject in enumerate(binding.get("subjects") or []):
        errors += _check_subject(subject, f"subjects[{index}]", namespaced=namespaced)
    return errors


def _check_subject(subject: Json, path: str, *, namespaced: bool) -> list[FieldError]:
    name, kind = subject.get("name") or "", subject.get("kind") or ""
    group = subject.get("apiGroup") or ""
    errors = [] if name else [required(f"{path}.name")]
    if kind == "ServiceAccount":
        if name:
            errors += invalids(f"{path}.name", name, names.dns_subdomain(name))
        if group:
            errors.append(not_supported(f"{path}.apiGroup", group, ("",)))
        if not namespaced and not subject.get("namespace"):
            errors.append(required(f"{path}.namespace"))
    elif kind in {"User", "Group"}:
        if group != GROUP:
            errors.append(not_supported(f"{path}.apiGroup", group, (GROUP,)))
    else:
        known = ("ServiceAccount", "User", "Group")
        errors.append(not_supported(f"{path}.kind", kind, known))
    return errors


def _check_binding_change(new: Json, old: Json) -> list[FieldError]:
    if new.get("roleRef") == old.get("roleRef"):
        return []
    return [invalid("roleRef", new.get("roleRef"), "cannot change roleRef")]


ROLE_BINDING: Final = KindRules(
    name_check=names.path_segment,
    default=_default_binding,
    check=partial(_check_binding, namespaced=True),
    check_change=_check_binding_change,
    rechecks_name=True,
)
CLUSTER_ROLE_BINDING: Final = KindRules(
    namespaced=False,
    name_check=names.path_segment,
    default=_default_binding,
    check=partial(_check_binding, namespaced=False),
    check_change=_check_binding_change,
    rechecks_name=True,
)
