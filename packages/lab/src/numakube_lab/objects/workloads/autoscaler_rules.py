"""HorizontalPodAutoscalers in autoscaling/v2 and v1, and the Scale of anything with replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from numakube.api.field_errors import FieldError, forbidden, invalid, not_supported, required
from numakube.api.resource_names import validate_not_negative
from numakube.values import names
from numakube.values.quantity import parse_quantity
from numakube_lab.objects.checks.kind_rules import KindRules, PartRules
from numakube_lab.objects.checks.numbers import not_negative
from numakube_lab.objects.workloads.autoscaler_metrics import validate_metric, validate_reference

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

_TYPE: Final = ("apiVersion", "kind")
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
    errors += _check_target(spec.get("scaleTargetRef") or {}, before)
    errors += _check_metrics(spec)
    for side in ("scaleUp", "scaleDown"):
        rules = (spec.get("behavior") or {}).get(side)
        if rules is not None:
            errors += _check_rules(rules, f"spec.behavior.{side}")
    return errors


def _check_target(target: Json, before: Json | None) -> list[FieldError]:
    old = (before or {}).get("scaleTargetRef") or {}
    same = all((old.get(field) or "") == (target.get(field) or "") for field in _TYPE)
    return validate_reference(
        target,
        "spec.scaleTargetRef",
        any_version=before is not None and same,
        any_group=target.get("kind") == "ReplicationController",
    )


def _check_metrics(spec: Json) -> list[FieldError]:
    metrics = spec.get("metrics") or []
    errors: list[FieldError] = []
    for index, metric in enumerate(metrics):
        errors += validate_metric(metric, f"spec.metrics[{index}]")
    from_zero = any(metric.get("type") in {"Object", "External"} for metric in metrics)
    if spec.get("minReplicas") == 0 and not from_zero:
        need = "must specify at least one Object or External metric"
        errors.append(forbidden("spec.metrics", f"{need} to support scaling to zero replicas"))
    return errors


def _spec_v1(autoscaler: Json) -> Json:
    """Return a spec of the first version with its one metric as the second describes it."""
    spec = dict(autoscaler.get("spec") or {})
    if (share := spec.pop("targetCPUUtilizationPercentage", None)) is not None:
        target = {"type": "Utilization", "averageUtilization": share}
        spec["metrics"] = [{"type": "Resource", "resource": {"name": "cpu", "target": target}}]
    return spec


def _check_new_v1(autoscaler: Json) -> list[FieldError]:
    return _check(_spec_v1(autoscaler), None)


def _check_change_v1(new: Json, old: Json) -> list[FieldError]:
    return _check(_spec_v1(new), _spec_v1(old))


def _check_new_v2(autoscaler: Json) -> list[FieldError]:
    return _check(autoscaler.get("spec") or {}, None)


def _check_change_v2(new: Json, old: Json) -> list[FieldError]:
    return _check(new.get("spec") or {}, old.get("spec") or {})


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
    if (tolerance := rules.get("tolerance")) is not None:
        errors += validate_not_negative(parse_quantity(tolerance), f"{path}.tolerance")
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
    parts={"status": PartRules(check=_check_status)},
    default=_default_v1,
    check_create=_check_new_v1,
    check_change=_check_change_v1,
)
AUTOSCALER: Final = KindRules(
    parts={"status": PartRules(check=_check_status)},
    default=_default_v2,
    check_create=_check_new_v2,
    check_change=_check_change_v2,
)


def _check_scale(scale: Json) -> list[FieldError]:
    return not_negative(scale.get("spec") or {}, ("replicas",), "spec")


SCALE: Final = KindRules(check=_check_scale)
