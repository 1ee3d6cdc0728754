"""HorizontalPodAutoscalers in autoscaling/v2 and v1, and the Scale of anything with replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.lab.field_errors import FieldError, forbidden, invalid, not_supported, required
from numakube.lab.objects import names
from numakube.lab.objects.kind_rules import KindRules, PartRules
from numakube.lab.objects.metadata import invalids
from numakube.lab.objects.numbers import not_negative

if TYPE_CHECKING:
    from numakube.lab.kinds import Json

_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_SELECTIONS: Final = ("Disabled", "Max", "Min")
_MAX_WINDOW: Final = 3600
_MAX_PERIOD: Final = 1800
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


def _check_any(spec: Json) -> list[FieldError]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas") or 0
    errors: list[FieldError] = []
    if least is not None and least < 1:
        errors.append(invalid("spec.minReplicas", least, "must be greater than or equal to 1"))
    if most < 1:
        errors.append(invalid("spec.maxReplicas", most, "must be greater than 0"))
    if least is not None and most < least:
        detail = "must be greater than or equal to `minReplicas`"
        errors.append(invalid("spec.maxReplicas", most, detail))
    return errors + _check_reference(spec.get("scaleTargetRef") or {}, "spec.scaleTargetRef")


def _check_reference(ref: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for field in ("kind", "name"):
        value, place = ref.get(field) or "", f"{path}.{field}"
        good = invalids(place, value, names.path_segment(value))
        errors += good if value else [required(place)]
    version = ref.get("apiVersion") or ""
    if version.count("/") > 1:
        detail = f"unexpected GroupVersion string: {version}"
        errors.append(invalid(f"{path}.apiVersion", version, detail))
    return errors


def _check_v1(autoscaler: Json) -> list[FieldError]:
    return _check_any(autoscaler.get("spec") or {})


def _check_v2(autoscaler: Json) -> list[FieldError]:
    spec = autoscaler.get("spec") or {}
    errors = _check_any(spec)
    for index, metric in enumerate(spec.get("metrics") or []):
        errors += _check_metric(metric, f"spec.metrics[{index}]")
    for side in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(side)
        if rules is not None:
            errors += _check_rules(rules, f"spec.behavior.{side}")
    return errors


def _check_metric(metric: Json, path: str) -> list[FieldError]:
    kind = metric.get("type") or ""
    errors = []
    if not kind:
        errors.append(required(f"{path}.type", "must specify a metric source type"))
    unknown = not_supported(f"{path}.type", kind, tuple(_SOURCES))
    if kind not in _SOURCES:
        errors += [unknown, unknown]
    expected = _SOURCES.get(kind, "")
    given = [field for field in _SOURCES.values() if metric.get(field) is not None]
    if expected and expected not in given:
        detail = "must populate information for the given metric source"
        errors.append(required(f"{path}.{expected}", detail))
    if len(given) != 1:
        detail = "must populate the given metric source only"
        errors += [forbidden(f"{path}.{field}", detail) for field in given if field != expected]
    return errors


def _check_rules(rules: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    window, place = rules.get("stabilizationWindowSeconds"), f"{path}.stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(place, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW:
        errors.append(invalid(place, window, f"must be less than or equal to {_MAX_WINDOW}"))
    selection = rules.get("selectPolicy")
    if selection is not None and selection not in _SELECTIONS:
        errors.append(not_supported(f"{path}.selectPolicy", selection, _SELECTIONS))
    policies = rules.get("policies") or []
    if not policies:
        errors.append(required(f"{path}.policies", "must specify at least one Policy"))
    for index, policy in enumerate(policies):
        errors += _check_policy(policy, f"{path}.policies[{index}]")
    return errors


def _check_policy(policy: Json, path: str) -> list[FieldError]:
    kind, period = policy.get("type") or "", policy.get("periodSeconds") or 0
    errors = []
    if kind not in {"Percent", "Pods"}:
        errors.append(not_supported(f"{path}.type", kind, ("Percent", "Pods")))
    errors += [
        invalid(f"{path}.{field}", policy.get(field) or 0, names.NOT_POSITIVE)
        for field in ("value", "periodSeconds")
        if (policy.get(field) or 0) <= 0
    ]
    if period > _MAX_PERIOD:
        detail = f"must be less than or equal to {_MAX_PERIOD}"
        errors.append(invalid(f"{path}.periodSeconds", period, detail))
    return errors


def _check_status(new: Json, old: Json) -> list[FieldError]:
    del old
    return not_negative(new.get("status") or {}, ("currentReplicas", "desiredReplicas"), "status")


AUTOSCALER_V1: Final = KindRules(
    parts={"status": PartRules(check=_check_status)}, default=_default_v1, check=_check_v1
)
AUTOSCALER: Final = KindRules(
    parts={"status": PartRules(check=_check_status)}, default=_default_v2, check=_check_v2
)


def _check_scale(scale: Json) -> list[FieldError]:
    return not_negative(scale.get("spec") or {}, ("replicas",), "spec")


SCALE: Final = KindRules(check=_check_scale)
