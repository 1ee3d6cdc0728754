"""Roles, ClusterRoles and their bindings."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import KindRules
from kube_lab_server.kinds.table_columns import AGE, NAME, Column, Table, age_of, name_of, wide
from kube_lab_server.kinds.value_checks import validate_label_selector
from numakube.api.field_errors import FieldError, invalid, invalids, not_supported, required
from numakube.values import names

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


def _role_binding(obj: Json, now: datetime) -> list[JsonValue]:
    role, subjects = obj["roleRef"], obj.get("subjects") or []
    return [
        name_of(obj),
        f"{role.get('kind') or ''}/{role.get('name') or ''}",
        age_of(obj, now),
        *(_subjects(subjects, kind) for kind in ("User", "Group")),
        _accounts(subjects),
    ]


def _subjects(subjects: list[Json], kind: str) -> str:
    return ", ".join(subject["name"] for subject in subjects if subject["kind"] == kind)


def _accounts(subjects: list[Json]) -> str:
    return ", ".join(
        f"{subject.get('namespace') or ''}/{subject['name']}"
        for subject in subjects
        if subject["kind"] == "ServiceAccount"
    )


ROLE_BINDING_TABLE: Final = Table(
    (
        NAME,
        Column("Role", "Role that is granted."),
        AGE,
        wide("Users", "Users who get the role."),
        wide("Groups", "Groups that get the role."),
        wide("ServiceAccounts", "Service accounts that get the role."),
    ),
    _role_binding,
)


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
    table=ROLE_BINDING_TABLE,
    name_check=names.path_segment,
    default=_default_binding,
    check=partial(_check_binding, namespaced=True),
    check_change=_check_binding_change,
    rechecks_name=True,
)
CLUSTER_ROLE_BINDING: Final = KindRules(
    table=ROLE_BINDING_TABLE,
    namespaced=False,
    name_check=names.path_segment,
    default=_default_binding,
    check=partial(_check_binding, namespaced=False),
    check_change=_check_binding_change,
    rechecks_name=True,
)
