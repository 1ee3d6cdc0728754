"""PodDisruptionBudgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalid, not_supported
from numakube_lab.objects.checks.conditions import validate_conditions
from numakube_lab.objects.checks.kind_rules import KindRules, PartRules
from numakube_lab.objects.checks.numbers import at_most_all, int_or_percent, not_negative
from numakube_lab.objects.checks.selector_checks import validate_label_selector

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

_POLICIES: Final = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


def _check(budget: Json) -> list[FieldError]:
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


def _check_status(new: Json, old: Json) -> list[FieldError]:
    del old
    status = new.get("status") or {}
    errors = validate_conditions(status.get("conditions") or [], "status.conditions")
    return errors + not_negative(status, _COUNTS, "status")


DISRUPTION_BUDGET: Final = KindRules(
    own_metadata=False,
    counted=("spec",),
    parts={"status": PartRules(check=_check_status)},
    check=_check,
)
