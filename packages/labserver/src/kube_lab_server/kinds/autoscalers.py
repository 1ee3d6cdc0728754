"""HorizontalPodAutoscalers in autoscaling/v2 and v1, and the Scale of anything with replicas.

Nothing here scales by metrics, so metrics and behaviour are checked by their types alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kube_lab_server.kinds.kind_rules import KindRules, PartRules
from kube_lab_server.kinds.table_columns import (
    AGE,
    NAME,
    NONE,
    UNKNOWN,
    UNSET,
    Column,
    Table,
    age_of,
    name_of,
    number,
)
from kube_lab_server.kinds.value_checks import not_negative
from numakube.api.field_errors import FieldError, invalid, invalids, required
from numakube.values import names

if TYPE_CHECKING:
    from datetime import datetime

    from kube_lab_server.kind_names import Json, JsonValue


_MAX_SHOWN: Final = 2
_KEYS: Final = {
    "External": "external",
    "Pods": "pods",
    "Object": "object",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}


def _autoscaler(obj: Json, now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    return _cells(obj, spec.get("metrics") or [], status.get("currentMetrics") or [], now)


def _autoscaler_v1(obj: Json, now: datetime) -> list[JsonValue]:
    """Show the one metric that autoscalers of the first version have."""
    target = (obj.get("spec") or {}).get("targetCPUUtilizationPercentage")
    current = (obj.get("status") or {}).get("currentCPUUtilizationPercentage")
    metrics = [] if target is None else [_cpu("target", target)]
    return _cells(obj, metrics, [] if current is None else [_cpu("current", current)], now)


def _cpu(field: str, percentage: int) -> Json:
    cpu = {"name": "cpu", field: {"averageUtilization": percentage}}
    return {"type": "Resource", "resource": cpu}


def _cells(obj: Json, metrics: list[Json], current: list[Json], now: datetime) -> list[JsonValue]:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    target = spec.get("scaleTargetRef") or {}
    least = spec.get("minReplicas")
    return [
        name_of(obj),
        f"{target.get('kind') or ''}/{target.get('name') or ''}",
        _shown_metrics(metrics, current),
        UNSET if least is None else str(least),
        spec.get("maxReplicas") or 0,
        status.get("currentReplicas") or 0,
        age_of(obj, now),
    ]


def _shown_metrics(metrics: list[Json], current: list[Json]) -> str:
    if not metrics:
        return NONE
    paired = [*current, *({} for _ in metrics[len(current) :])]
    shown = [_shown_metric(metric, state) for metric, state in zip(metrics, paired, strict=False)]
    text = ", ".join(shown[:_MAX_SHOWN])
    more = len(shown) - _MAX_SHOWN
    return f"{text} + {more} more..." if more > 0 else text


def _shown_metric(metric: Json, state: Json) -> str:
    key = _KEYS.get(metric.get("type") or "")
    if key is None:
        return "<unknown type>"
    wanted = metric.get(key) or {}
    target, present = wanted.get("target") or {}, state.get(key)
    values = (present or {}).get("current") or {}
    average = target.get("averageValue")
    match key:
        case "external" | "object" if average is not None:
            return f"{values.get('averageValue') or UNKNOWN}/{average} (avg)"
        case "external" | "object":
            return f"{_value(present, values, 'value')}/{target.get('value') or '<nil>'}"
        case "pods":
            return f"{_value(present, values, 'averageValue')}/{average or '<nil>'}"
        case _ if average is not None:
            return f"{wanted.get('name')}: {_value(present, values, 'averageValue')}/{average}"
        case _:
            used, share = values.get("averageUtilization"), target.get("averageUtilization")
            shown = "<auto>" if share is None else f"{share}%"
            return f"{wanted.get('name')}: {UNKNOWN if used is None else f'{used}%'}/{shown}"


def _value(present: Json | None, values: Json, field: str) -> str:
    """Return a current value; one missing from a status that is there is nil."""
    return UNKNOWN if present is None else str(values.get(field) or "<nil>")


_COLUMNS: Final = (
    NAME,
    Column("Reference", "Object whose number of pods is set."),
    Column("Targets", "Current and wanted values of the metrics."),
    Column("MinPods", "Smallest number of pods."),
    Column("MaxPods", "Largest number of pods."),
    Column("Replicas", "How many pods there are."),
    AGE,
)
AUTOSCALER_TABLE: Final = Table(_COLUMNS, _autoscaler)
AUTOSCALER_V1_TABLE: Final = Table(_COLUMNS, _autoscaler_v1)


def _scale(obj: Json, now: datetime) -> list[JsonValue]:
    replicas = [(obj.get(part) or {}).get("replicas") or 0 for part in ("spec", "status")]
    return [name_of(obj), *replicas, age_of(obj, now)]


SCALE_TABLE: Final = Table(
    (
        Column("Name", "Name of the object."),
        number("Desired", "How many pods there shall be."),
        number("Available", "How many pods there are."),
        AGE,
    ),
    _scale,
)


_TYPE: Final = ("apiVersion", "kind")
_QUARTER_MINUTE: Final = 15


def _default_v1(autoscaler: Json) -> None:
    spec = autoscaler.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if spec.get("targetCPUUtilizationPercentage") is None:
        spec["targetCPUUtilizationPercentage"] = 80


def _default_v2(autoscaler: Json) -> None:
    spec = autoscaler.setdefault("spec", {})
    if spec.get("minReplicas") is None:
        spec["minReplicas"] = 1
    if not spec.get("metrics"):
        target = {"type": "Utilization", "averageUtilization": 80}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    behavior = spec.get("behavior")
    if behavior is None:
        return
    percent = {"type": "Percent", "value": 100, "periodSeconds": _QUARTER_MINUTE}
    pods = {"type": "Pods", "value": 4, "periodSeconds": _QUARTER_MINUTE}
    up: dict[str, Any] = {
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [pods, percent],
    }
    down: dict[str, Any] = {"selectPolicy": "Max", "policies": [percent]}
    for side, rules in (("scaleUp", up), ("scaleDown", down)):
        given = behavior.get(side) or {}
        behavior[side] = rules | {k: v for k, v in given.items() if v is not None}


def _check(spec: Json, before: Json | None) -> list[FieldError]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    errors: list[FieldError] = []
    may_be_zero = before is not None and before.get("minReplicas") == 0
    lowest = 0 if may_be_zero else 1
    if least is not None and least < lowest:
        detail = f"must be greater than or equal to {lowest}"
        errors.append(invalid("spec.minReplicas", least, detail))
    if most < 1:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if least is not None and most < least:
        detail = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", most, detail))
    return errors + _check_target(spec.get("scaleTargetRef") or {}, before)


def _check_target(target: Json, before: Json | None) -> list[FieldError]:
    old = (before or {}).get("scaleTargetRef") or {}
    same = all((old.get(field) or "") == (target.get(field) or "") for field in _TYPE)
    return _check_reference(
        target,
        "spec.scaleTargetRef",
        any_version=before is not None and same,
        any_group=target.get("kind") == "ReplicationController",
    )


def _check_reference(
    reference: Json, path: str, *, any_version: bool = False, any_group: bool = False
) -> list[FieldError]:
    """Check a reference to an object; if not *any_group*, its group has to be named."""
    errors: list[FieldError] = []
    for field in ("kind", "name"):
        value, place = reference.get(field) or "", f"{path}.{field}"
        errors += invalids(place, value, names.path_segment(value)) if value else [required(place)]
    version = reference.get("apiVersion") or ""
    group, _, _ = version.rpartition("/")
    if any_version:
        return errors
    if version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        errors.append(invalid(f"{path}.apiVersion", version, detail))
    elif not group and not any_group:
        detail = "apiVersion must specify API group"
        errors.append(invalid(f"{path}.apiVersion", version, detail))
    return errors


def _check_new(autoscaler: Json) -> list[FieldError]:
    return _check(autoscaler.get("spec") or {}, None)


def _check_change(new: Json, old: Json) -> list[FieldError]:
    return _check(new.get("spec") or {}, old.get("spec") or {})


def _check_status(new: Json, old: Json) -> list[FieldError]:
    del old
    return not_negative(new.get("status") or {}, ("currentReplicas", "desiredReplicas"), "status")


AUTOSCALER_V1: Final = KindRules(
    table=AUTOSCALER_V1_TABLE,
    parts={"status": PartRules(check=_check_status)},
    default=_default_v1,
    check_create=_check_new,
    check_change=_check_change,
)
AUTOSCALER: Final = KindRules(
    table=AUTOSCALER_TABLE,
    parts={"status": PartRules(check=_check_status)},
    default=_default_v2,
    check_create=_check_new,
    check_change=_check_change,
)


def _check_scale(scale: Json) -> list[FieldError]:
    return not_negative(scale.get("spec") or {}, ("replicas",), "spec")


SCALE: Final = KindRules(table=SCALE_TABLE, check=_check_scale)
