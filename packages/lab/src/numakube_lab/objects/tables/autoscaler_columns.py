"""The tables of autoscalers and scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.tables.age_texts import UNKNOWN
from numakube_lab.objects.tables.table_columns import (
    AGE,
    NAME,
    NONE,
    UNSET,
    Column,
    Table,
    age_of,
    name_of,
    number,
)

if TYPE_CHECKING:
    from datetime import datetime

    from numakube_lab.kinds import Json, JsonValue

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
AUTOSCALER: Final = Table(_COLUMNS, _autoscaler)
AUTOSCALER_V1: Final = Table(_COLUMNS, _autoscaler_v1)


def _scale(obj: Json, now: datetime) -> list[JsonValue]:
    replicas = [(obj.get(part) or {}).get("replicas") or 0 for part in ("spec", "status")]
    return [name_of(obj), *replicas, age_of(obj, now)]


SCALE: Final = Table(
    (
        Column("Name", "Name of the object."),
        number("Desired", "How many pods there shall be."),
        number("Available", "How many pods there are."),
        AGE,
    ),
    _scale,
)
