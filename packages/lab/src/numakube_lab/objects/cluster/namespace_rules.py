"""Namespaces, and the ResourceQuotas in them, which the lab stores and does not enforce."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api import resource_names as resources
from numakube.api.field_errors import FieldError, invalid, invalids
from numakube.api.resource_requirements import round_to_milli
from numakube.values import names
from numakube_lab.objects.checks.kind_rules import KindRules, PartRules, keep
from numakube_lab.schema.metadata_checks import validate_finalizer_name

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

NAME_LABEL: Final = "kubernetes.io/metadata.name"
_KUBERNETES: Final = "kubernetes"


def _default(namespace: Json) -> None:
    _label(namespace)
    status = namespace.setdefault("status", {})
    status["phase"] = status.get("phase") or "Active"


def _label(namespace: Json) -> None:
    meta = namespace.setdefault("metadata", {})
    if name := meta.get("name"):
        meta["labels"] = (meta.get("labels") or {}) | {NAME_LABEL: name}


def _on_create(namespace: Json) -> None:
    namespace["status"] = {"phase": "Active"}
    spec = namespace.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    if _KUBERNETES not in finalizers:
        spec["finalizers"] = [*finalizers, _KUBERNETES]
    _label(namespace)


def _on_update(new: Json, old: Json) -> None:
    keep(new.setdefault("spec", {}), old.get("spec") or {}, "finalizers")
    _label(new)


def _prepare_finalize(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "status")


def _check(namespace: Json) -> list[FieldError]:
    return _check_finalizers(namespace, "spec.finalizers")


def _check_finalizers(namespace: Json, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for finalizer in (namespace.get("spec") or {}).get("finalizers") or []:
        errors += invalids(path, finalizer, names.qualified_name(finalizer))
        errors += validate_finalizer_name(finalizer, path)
    return errors


def _check_finalize(new: Json, old: Json) -> list[FieldError]:
    del old
    errors: list[FieldError] = []
    for index, finalizer in enumerate((new.get("spec") or {}).get("finalizers") or []):
        path = f"spec.finalizers[{index}]"
        errors += invalids(path, finalizer, names.qualified_name(finalizer))
        errors += validate_finalizer_name(finalizer, path)
    return errors


def _check_status(new: Json, old: Json) -> list[FieldError]:
    del old
    phase = (new.get("status") or {}).get("phase") or ""
    if new["metadata"].get("deletionTimestamp") is None:
        wanted, when = "Active", "if `deletionTimestamp` is empty"
    else:
        wanted, when = "Terminating", "if `deletionTimestamp` is not empty"
    if phase == wanted:
        return []
    return [invalid("status.Phase", phase, f"may only be '{wanted}' {when}")]


NAMESPACE: Final = KindRules(
    namespaced=False,
    name_check=names.dns_label,
    parts={
        "status": PartRules(check=_check_status),
        "finalize": PartRules(prepare=_prepare_finalize, check=_check_finalize),
    },
    default=_default,
    on_create=_on_create,
    on_update=_on_update,
    check=_check,
    whole_first=True,
    rechecks_name=True,
)


def _default_quota(quota: Json) -> None:
    round_to_milli((quota.get("spec") or {}).get("hard"))
    for field in ("hard", "used"):
        round_to_milli((quota.get("status") or {}).get(field))


def _check_quota(quota: Json) -> list[FieldError]:
    return _check_amounts((quota.get("spec") or {}).get("hard"), "spec.hard")


def _check_amounts(amounts: Json | None, path: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, text in sorted((amounts or {}).items()):
        place = f"{path}[{name}]"
        errors += resources.validate_quota_resource_name(name, place)
        errors += resources.validate_amount(name, text, place)
    return errors


def _check_quota_status(new: Json, old: Json) -> list[FieldError]:
    del old
    status = new.get("status") or {}
    errors = _check_amounts(status.get("hard"), "status.hard")
    return errors + _check_amounts(status.get("used"), "status.used")


RESOURCE_QUOTA: Final = KindRules(
    parts={"status": PartRules(check=_check_quota_status)},
    default=_default_quota,
    check=_check_quota,
)
