"""HorizontalPodAutoscalers in autoscaling/v2 and v1, and the Scale of anything with replicas.

Nothing scales by metrics in the lab, so autoscalers have defaults and are checked by their types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube_lab.objects.checks.kind_rules import STATUS, KindRules
from numakube_lab.objects.checks.numbers import not_negative

if TYPE_CHECKING:
    from numakube.api.field_errors import FieldError
    from numakube_lab.kinds import Json


def _default_v1(autoscaler: Json) -> None:
    _default_spec(autoscaler, targetCPUUtilizationPercentage=80)


def _default_v2(autoscaler: Json) -> None:
    target = {"type": "Utilization", "averageUtilization": 80}
    metric = {"type": "Resource", "resource": {"name": "cpu", "target": target}}
    _default_spec(autoscaler, metrics=[metric])


def _default_spec(autoscaler: Json, **values: object) -> None:
    spec = autoscaler.setdefault("spec", {})
    for field, value in (values | {"minReplicas": 1}).items():
        if spec.get(field) in (None, []):
            spec[field] = value


AUTOSCALER_V1: Final = KindRules(parts=STATUS, default=_default_v1)
AUTOSCALER: Final = KindRules(parts=STATUS, default=_default_v2)


def _check_scale(scale: Json) -> list[FieldError]:
    return not_negative(scale.get("spec") or {}, ("replicas",), "spec")


SCALE: Final = KindRules(check=_check_scale)
