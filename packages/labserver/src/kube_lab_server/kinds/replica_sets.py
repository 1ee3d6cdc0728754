"""ReplicaSets, ReplicationControllers, PodTemplates, and PodDisruptionBudgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.deployments import ABOVE_REPLICAS
from kube_lab_server.kinds.kind_rules import KindRules, PartRules
from kube_lab_server.kinds.pod.pod_defaults import (
    default_pod_template,
    template_warnings,
    validate_endless,
    validate_match,
    validate_replicated,
    validate_template,
    warn_of_template,
)
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    SELECTOR,
    TEMPLATE,
    Column,
    Table,
    age_of,
    format_labels,
    format_selector,
    name_of,
    number,
    spec_and_status,
    template_cells,
)
from kube_lab_server.kinds.value_checks import (
    at_most_all,
    int_or_percent,
    not_greater,
    not_negative,
    validate_conditions,
    validate_label_selector,
)
from kube_lab_server.schema.metadata_checks import immutable
from numakube.api.field_errors import FieldError, invalid, not_supported, required

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


def _replica_cells(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = spec_and_status(obj)
    return [
        name_of(obj),
        spec.get("replicas") or 0,
        status.get("replicas") or 0,
        status.get("readyReplicas") or 0,
        age_of(obj, now),
        *template_cells(spec.get("template")),
    ]


def _replica_set(obj: Json, now: datetime) -> list[JsonValue]:
    return [*_replica_cells(obj, now), format_selector(obj["spec"].get("selector"))]


def _replication_controller(obj: Json, now: datetime) -> list[JsonValue]:
    return [*_replica_cells(obj, now), format_labels(obj["spec"].get("selector"))]


_REPLICA_COLUMNS: Final = (
    NAME,
    number("Desired", "How many pods there shall be."),
    number("Current", "How many pods there are."),
    number("Ready", "How many pods are ready."),
    AGE,
    *TEMPLATE,
    SELECTOR,
)


REPLICA_SET_TABLE: Final = Table(_REPLICA_COLUMNS, _replica_set)


REPLICATION_CONTROLLER_TABLE: Final = Table(_REPLICA_COLUMNS, _replication_controller)


def _pod_template(obj: Json, now: datetime) -> list[JsonValue]:
    del now
    template = obj.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    return [name_of(obj), *template_cells(template), format_labels(labels)]


POD_TEMPLATE_TABLE: Final = Table(
    (
        NAME,
        Column("Containers", "Names of the containers of each pod."),
        Column("Images", "Images of the containers of each pod."),
        Column("Pod Labels", "Labels of the pods made from the template."),
    ),
    _pod_template,
)


def _budget(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    bounds = [spec.get(field) for field in ("minAvailable", "maxUnavailable")]
    return [
        name_of(obj),
        *("N/A" if bound is None else str(bound) for bound in bounds),
        status.get("disruptionsAllowed") or 0,
        age_of(obj, now),
    ]


DISRUPTION_BUDGET_TABLE: Final = Table(
    (
        NAME,
        Column("Min Available", "How many pods must stay available."),
        Column("Max Unavailable", "How many pods may be unavailable."),
        number("Allowed Disruptions", "How many pods may be disrupted now."),
        AGE,
    ),
    _budget,
)


_STATUS_COUNTS: Final = (
    "replicas",
    "fullyLabeledReplicas",
    "readyReplicas",
    "availableReplicas",
    "observedGeneration",
    "terminatingReplicas",
)


def _default_replicas(owner: Json) -> Json:
    spec: Json = owner.setdefault("spec", {})
    if spec.get("replicas") is None:
        spec["replicas"] = 1
    return spec


def _default_replica_set(replica_set: Json) -> None:
    spec = _default_replicas(replica_set)
    default_pod_template(spec.setdefault("template", {}))


def _default_controller(controller: Json) -> None:
    spec = _default_replicas(controller)
    template = spec.get("template")
    if template is None:
        return
    default_pod_template(template)
    if labels := (template.get("metadata") or {}).get("labels"):
        spec["selector"] = spec.get("selector") or dict(labels)
        meta = controller.setdefault("metadata", {})
        meta["labels"] = meta.get("labels") or dict(labels)


def _check_replica_set(replica_set: Json) -> list[FieldError]:
    spec = replica_set["spec"]
    errors = not_negative(spec, ("replicas", "minReadySeconds"), "spec")
    return errors + validate_replicated(spec, "spec")


def _check_controller(controller: Json) -> list[FieldError]:
    spec = controller["spec"]
    errors = not_negative(spec, ("minReadySeconds",), "spec")
    labels = spec.get("selector")
    if not labels:
        errors.append(required("spec.selector"))
    errors += not_negative(spec, ("replicas",), "spec")
    template = spec.get("template")
    if template is None:
        return [*errors, required("spec.template")]
    errors += validate_match({"matchLabels": labels}, template, "spec.template")
    errors += validate_template(template, "spec.template")
    return errors + validate_endless(template, "ReplicationController", "spec.template")


def _check_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector")


def _check_status(new: Json, old: Json) -> list[FieldError]:
    del old
    status = new.get("status") or {}
    errors = not_negative(status, _STATUS_COUNTS, "status")
    fields = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
    errors += not_greater(status, fields, "replicas", "status", ABOVE_REPLICAS)
    detail = "cannot be greater than readyReplicas"
    return errors + not_greater(status, ("availableReplicas",), "readyReplicas", "status", detail)


REPLICA_SET: Final = KindRules(
    table=REPLICA_SET_TABLE,
    counted=("spec",),
    parts={"status": PartRules(check=_check_status)},
    default=_default_replica_set,
    check=_check_replica_set,
    check_change=_check_change,
    warn=warn_of_template,
)

REPLICATION_CONTROLLER: Final = KindRules(
    table=REPLICATION_CONTROLLER_TABLE,
    counted=("spec",),
    parts={"status": PartRules(check=_check_status)},
    default=_default_controller,
    check=_check_controller,
    warn=warn_of_template,
)


def _default_pod_template(obj: Json) -> None:
    default_pod_template(obj.setdefault("template", {}))


def _check_pod_template(obj: Json) -> list[FieldError]:
    return validate_template(obj.get("template") or {}, "template")


def _warn_pod_template(obj: Json, old: Json | None) -> list[str]:
    return template_warnings(obj, old, "template")


POD_TEMPLATE: Final = KindRules(
    table=POD_TEMPLATE_TABLE,
    counted=("template",),
    default=_default_pod_template,
    check=_check_pod_template,
    warn=_warn_pod_template,
)


_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _check_budget(budget: Json) -> list[FieldError]:
    spec = budget.get("spec") or {}
    bounds = ("minAvailable", "maxUnavailable")
    given = [field for field in bounds if spec.get(field) is not None]
    errors: list[FieldError] = []
    if len(given) > 1:
        detail = "minAvailable and maxUnavailable cannot be both set"
        errors.append(invalid("spec", spec, detail))
    for field in given:
        errors += int_or_percent(spec[field], f"spec.{field}")
        errors += at_most_all(spec[field], f"spec.{field}")
    errors += validate_label_selector(spec.get("selector"), "spec.selector")
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        errors.append(not_supported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES))
    return errors


def _check_budget_status(new: Json, old: Json) -> list[FieldError]:
    del old
    status = new.get("status") or {}
    errors = validate_conditions(status.get("conditions") or [], "status.conditions")
    return errors + not_negative(status, _COUNTS, "status")


DISRUPTION_BUDGET: Final = KindRules(
    table=DISRUPTION_BUDGET_TABLE,
    own_metadata=False,
    counted=("spec",),
    parts={"status": PartRules(check=_check_budget_status)},
    check=_check_budget,
)
