"""Kinds that configure the API server itself, and a few that few clients write.

Of these the defaults are filled in and the fields that must be there are checked.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import FieldError, invalid, invalids, not_supported, required
from numakube.api.resource_names import validate_not_negative
from numakube.values import names
from numakube.values.gotext import go_quote
from numakube.values.quantity import parse_quantity
from numakube_lab.objects.checks.kind_rules import STATUS, KindRules, PartRules, keep, keep_metadata
from numakube_lab.objects.checks.selector_checks import validate_label_selector
from numakube_lab.objects.pod.volume_sources import validate_driver_name
from numakube_lab.schema.metadata_checks import immutable

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

_PEM: Final = b"-----BEGIN CERTIFICATE REQUEST-----"
_MAX_PRECEDENCE: Final = 10000
_MAX_GROUP_PRIORITY: Final = 20000
_MAX_VERSION_PRIORITY: Final = 1000
_QUEUING: Final = (("handSize", 8), ("queues", 64), ("queueLengthLimit", 50))


def _default_flow_schema(schema: Json) -> None:
    spec = schema.setdefault("spec", {})
    spec["matchingPrecedence"] = spec.get("matchingPrecedence") or 1000


def _check_flow_schema(schema: Json) -> list[FieldError]:
    spec = schema.get("spec") or {}
    precedence = spec.get("matchingPrecedence") or 0
    errors = []
    if not 0 < precedence <= _MAX_PRECEDENCE:
        bound = "greater than 0" if precedence <= 0 else f"less than or equal to {_MAX_PRECEDENCE}"
        errors.append(invalid("spec.matchingPrecedence", precedence, f"must be {bound}"))
    name = (spec.get("priorityLevelConfiguration") or {}).get("name") or ""
    path = "spec.priorityLevelConfiguration.name"
    return errors + (invalids(path, name, names.dns_subdomain(name)) if name else [required(path)])


def _default_priority_level(level: Json) -> None:
    spec = level.setdefault("spec", {})
    for kind, shares in (("exempt", 0), ("limited", 30)):
        if (settings := spec.get(kind)) is None:
            continue
        for field, value in (("nominalConcurrencyShares", shares), ("lendablePercent", 0)):
            if settings.get(field) is None:
                settings[field] = value
        queuing = (settings.get("limitResponse") or {}).get("queuing")
        if queuing is not None:
            queuing.update({field: queuing.get(field) or value for field, value in _QUEUING})


def _check_priority_level(level: Json) -> list[FieldError]:
    spec = level.get("spec") or {}
    match spec.get("type") or "":
        case "Exempt":
            if spec.get("limited") is None:
                return []
            return [_forbidden_limits()]
        case "Limited":
            detail = "must not be empty when type is Limited"
            return [required("spec.limited", detail)] if spec.get("limited") is None else []
        case other:
            return [not_supported("spec.type", other, ("Exempt", "Limited"))]


def _forbidden_limits() -> FieldError:
    detail = "must be nil if the type is not Limited"
    return invalid("spec.limited", None, detail)


def _default_api_service(service: Json) -> None:
    reference = (service.get("spec") or {}).get("service")
    if reference is not None and reference.get("port") is None:
        reference["port"] = 443


def _on_api_service(service: Json) -> None:
    if (service.get("spec") or {}).get("service") is None:
        condition = {
            "type": "Available",
            "status": "True",
            "lastTransitionTime": service["metadata"].get("creationTimestamp"),
            "reason": "Local",
            "message": "Local APIServices are always available",
        }
        service["status"] = {"conditions": [condition]}


def _check_api_service(service: Json) -> list[FieldError]:
    spec, name = service.get("spec") or {}, service["metadata"].get("name") or ""
    group, version = spec.get("group") or "", spec.get("version") or ""
    errors = []
    if name != f"{version}.{group}":
        detail = f'must be `spec.version+"."+spec.group`: {go_quote(f"{version}.{group}")}'
        errors.append(invalid("metadata.name", name, detail))
    if not group and version != "v1":
        detail = "only v1 may have an empty group and it better be legacy kube"
        errors.append(required("spec.group", detail))
    errors += invalids("spec.group", group, names.dns_subdomain(group) if group else [])
    errors += invalids("spec.version", version, names.dns_1035_label(version))
    errors += _check_priority(spec, "groupPriorityMinimum", _MAX_GROUP_PRIORITY)
    errors += _check_priority(spec, "versionPriority", _MAX_VERSION_PRIORITY)
    reference = spec.get("service")
    if reference is None:
        return errors
    fields = ("namespace", "name")
    return errors + [
        required(f"spec.service.{field}") for field in fields if not reference.get(field)
    ]


def _check_priority(spec: Json, field: str, maximum: int) -> list[FieldError]:
    number = spec.get(field) or 0
    if 0 < number <= maximum:
        return []
    return [invalid(f"spec.{field}", number, f"must be positive and less than {maximum}")]


def _keep_all_but_status(new: Json, old: Json, now: str) -> None:
    del now
    keep(new, old, "spec")
    keep_metadata(new, old)


def _on_request_update(new: Json, old: Json) -> None:
    keep(new, old, "spec")


def _check_signing_request(request: Json) -> list[FieldError]:
    spec = request.get("spec") or {}
    errors = []
    text = spec.get("request") or ""
    if _PEM not in base64.b64decode(text):
        errors.append(invalid("spec.request", text, "PEM block type must be CERTIFICATE REQUEST"))
    if not spec.get("usages"):
        errors.append(required("spec.usages", "usages must be provided"))
    if not spec.get("signerName"):
        errors.append(required("spec.signerName", "signerName must be provided"))
    return errors


def _check_attributes_class(found: Json) -> list[FieldError]:
    errors = validate_driver_name(found.get("driverName") or "", "driverName")
    if not found.get("parameters"):
        errors.append(required("parameters", "must contain at least one key/value pair"))
    return errors


def _check_attributes_change(new: Json, old: Json) -> list[FieldError]:
    return [
        error
        for field in ("driverName", "parameters")
        for error in immutable(new.get(field), old.get(field), field)
    ]


def _check_capacity(capacity: Json) -> list[FieldError]:
    name = capacity.get("storageClassName") or ""
    path = "storageClassName"
    errors = invalids(path, name, names.dns_subdomain(name)) if name else [required(path)]
    if (topology := capacity.get("nodeTopology")) is not None:
        errors += validate_label_selector(topology, "nodeTopology")
    for field in ("capacity", "maximumVolumeSize"):
        if (text := capacity.get(field)) is not None:
            errors += validate_not_negative(parse_quantity(text), field)
    return errors


def _check_capacity_change(new: Json, old: Json) -> list[FieldError]:
    return [
        error
        for field in ("nodeTopology", "storageClassName")
        for error in immutable(new.get(field), old.get(field), field)
    ]


FLOW_SCHEMA: Final = KindRules(
    namespaced=False,
    counted=("spec",),
    parts=STATUS,
    default=_default_flow_schema,
    check=_check_flow_schema,
)
PRIORITY_LEVEL: Final = KindRules(
    namespaced=False,
    counted=("spec",),
    parts=STATUS,
    default=_default_priority_level,
    check=_check_priority_level,
)
API_SERVICE: Final = KindRules(
    namespaced=False,
    name_check=names.path_segment,
    parts={"status": PartRules(prepare=_keep_all_but_status)},
    default=_default_api_service,
    on_create=_on_api_service,
    check=_check_api_service,
)
SIGNING_REQUEST: Final = KindRules(
    namespaced=False,
    parts={
        "status": PartRules(prepare=_keep_all_but_status),
        "approval": PartRules(),
    },
    on_update=_on_request_update,
    check_create=_check_signing_request,
)
VOLUME_ATTRIBUTES_CLASS: Final = KindRules(
    namespaced=False, check=_check_attributes_class, check_change=_check_attributes_change
)
CSI_STORAGE_CAPACITY: Final = KindRules(check=_check_capacity, check_change=_check_capacity_change)
CLUSTER_WIDE: Final = KindRules(namespaced=False)
"""Kinds without a namespace of which only the metadata is checked."""
CLUSTER_WIDE_WITH_STATUS: Final = KindRules(namespaced=False, parts=STATUS)
