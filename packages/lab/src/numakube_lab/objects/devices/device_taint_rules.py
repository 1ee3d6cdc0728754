"""DeviceTaintRules (Kubernetes 1.37): a taint for every device that a selector matches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalids, not_supported, required, too_many
from numakube.values import names
from numakube_lab.objects.checks.condition_checks import validate_conditions
from numakube_lab.objects.checks.kind_rules import KindRules, PartRules, keep, keep_metadata
from numakube_lab.objects.devices.device_names import validate_device_name, validate_pool_name
from numakube_lab.objects.pod.volume_sources import validate_driver_name

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")
_MAX_CONDITIONS: Final = 8
_SELECTED: Final = {
    "driver": validate_driver_name,
    "pool": validate_pool_name,
    "device": validate_device_name,
}


def _on_create(rule: Json) -> None:
    taint = (rule.get("spec") or {}).get("taint")
    if taint and not taint.get("timeAdded"):
        taint["timeAdded"] = rule["metadata"]["creationTimestamp"]


def _check(rule: Json) -> list[FieldError]:
    spec = rule.get("spec") or {}
    selector = spec.get("deviceSelector") or {}
    errors = [
        error
        for field, check in _SELECTED.items()
        if selector.get(field) is not None
        for error in check(selector[field], f"spec.deviceSelector.{field}")
    ]
    return errors + _check_taint(spec.get("taint") or {}, "spec.taint")


def _check_taint(taint: Json, path: str) -> list[FieldError]:
    key, value, effect = (taint.get(field) or "" for field in ("key", "value", "effect"))
    errors = invalids(f"{path}.key", key, names.qualified_name(key))
    errors += invalids(f"{path}.value", value, names.label_value(value))
    if not effect:
        errors.append(required(f"{path}.effect"))
    elif effect not in _EFFECTS:
        errors.append(not_supported(f"{path}.effect", effect, _EFFECTS))
    return errors


def _prepare_status(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "spec")
    keep_metadata(new, old)


def _check_status(new: Json, old: Json) -> list[FieldError]:
    del old
    path, conditions = "status.conditions", (new.get("status") or {}).get("conditions") or []
    errors = validate_conditions(conditions, path)
    if len(conditions) > _MAX_CONDITIONS:
        errors.append(too_many(path, len(conditions), _MAX_CONDITIONS))
    return errors


DEVICE_TAINT_RULE: Final = KindRules(
    namespaced=False,
    counted=("spec",),
    parts={"status": PartRules(prepare=_prepare_status, check=_check_status)},
    on_create=_on_create,
    check=_check,
)
