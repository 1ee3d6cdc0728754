"""Claims of devices, their templates, and the classes of devices that they ask for.

Fields of features that are off by default, such as device taints and shared capacity, are dropped
as the real server drops them. Names of extended resources are kept, as Kubernetes 1.36 does and
1.35 with the gate ``DRAExtendedResource``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalid
from numakube.values.resources import is_extended
from numakube_lab.objects.checks.kind_rules import KindRules, PartRules
from numakube_lab.objects.devices.device_claim_status import (
    check_claim_status,
    prepare_claim_status,
)
from numakube_lab.objects.devices.device_requests import (
    MAX_ITEMS,
    check_configuration,
    check_items,
    check_selectors,
    check_spec,
)
from numakube_lab.schema.metadata_checks import immutable, validate_annotations, validate_labels

if TYPE_CHECKING:
    from numakube_lab.kinds import Json


def _default_request(request: Json | None) -> None:
    if request is None:
        return
    mode = request["allocationMode"] = request.get("allocationMode") or "ExactCount"
    if mode == "ExactCount" and not request.get("count"):
        request["count"] = 1


def _default_spec(spec: Json) -> None:
    for request in (spec.get("devices") or {}).get("requests") or []:
        _default_request(request.get("exactly"))
        for alternative in request.get("firstAvailable") or []:
            _default_request(alternative)


def _default_claim(claim: Json) -> None:
    _default_spec(claim.get("spec") or {})


def _default_template(template: Json) -> None:
    _default_spec((template.get("spec") or {}).get("spec") or {})


def _drop_from_spec(spec: Json) -> None:
    """Drop the fields of features that are off."""
    devices = spec.get("devices") or {}
    for request in devices.get("requests") or []:
        for asked in (request.get("exactly") or {}, *(request.get("firstAvailable") or [])):
            asked.pop("tolerations", None)
            asked.pop("capacity", None)
    for constraint in devices.get("constraints") or []:
        constraint.pop("distinctAttribute", None)


def _on_claim(claim: Json) -> None:
    _drop_from_spec(claim.get("spec") or {})


def _on_template(template: Json) -> None:
    _drop_from_spec((template.get("spec") or {}).get("spec") or {})


def _on_claim_update(new: Json, old: Json) -> None:
    del old
    _on_claim(new)


def _on_template_update(new: Json, old: Json) -> None:
    del old
    _on_template(new)


def _check_claim(claim: Json) -> list[FieldError]:
    return check_spec(claim.get("spec") or {}, "spec")


def _check_change(new: Json, old: Json) -> list[FieldError]:
    return immutable(new.get("spec"), old.get("spec"), "spec")


def _check_template(template: Json) -> list[FieldError]:
    spec = template.get("spec") or {}
    meta = spec.get("metadata") or {}
    errors = validate_labels(meta.get("labels"), "spec.metadata.labels")
    errors += validate_annotations(meta.get("annotations"), "spec.metadata.annotations")
    return errors + check_spec(spec.get("spec") or {}, "spec.spec")


def _check_class(found: Json) -> list[FieldError]:
    spec = found.get("spec") or {}
    errors = check_selectors(spec.get("selectors") or [], "spec.selectors")
    configs = spec.get("config") or []
    errors += check_items(configs, MAX_ITEMS, check_configuration, "spec.config")
    name = spec.get("extendedResourceName")
    if name is not None and not is_extended(name):
        detail = "must be a valid extended resource name"
        errors.append(invalid("spec.extendedResourceName", name, detail))
    return errors


RESOURCE_CLAIM: Final = KindRules(
    parts={"status": PartRules(prepare=prepare_claim_status, check=check_claim_status)},
    default=_default_claim,
    on_create=_on_claim,
    on_update=_on_claim_update,
    check_create=_check_claim,
    check_change=_check_change,
    rechecks_name=True,
)
RESOURCE_CLAIM_TEMPLATE: Final = KindRules(
    default=_default_template,
    on_create=_on_template,
    on_update=_on_template_update,
    check_create=_check_template,
    check_change=_check_change,
)
DEVICE_CLASS: Final = KindRules(
    namespaced=False,
    counted=("spec",),
    check=_check_class,
    rechecks_name=True,
)
