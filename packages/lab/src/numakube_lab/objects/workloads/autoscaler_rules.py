"""HorizontalPodAutoscalers in autoscaling/v2 and v1, and the Scale of anything with replicas.

Nothing scales by metrics in the lab, so metrics and behaviour are checked by their types alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.field_errors import FieldError, invalid, invalids, required
from numakube.values import names
from numakube_lab.objects.checks.kind_rules import KindRules, PartRules
from numakube_lab.objects.checks.number_checks import not_negative

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

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
    parts={"status": PartRules(check=_check_status)},
    default=_default_v1,
    check_create=_check_new,
    check_change=_check_change,
)
AUTOSCALER: Final = KindRules(
    parts={"status": PartRules(check=_check_status)},
    default=_default_v2,
    check_create=_check_new,
    check_change=_check_change,
)


def _check_scale(scale: Json) -> list[FieldError]:
    return not_negative(scale.get("spec") or {}, ("replicas",), "spec")


SCALE: Final = KindRules(check=_check_scale)
