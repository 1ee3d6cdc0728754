"""The metrics that an autoscaler follows, and references to what it scales."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
)
from numakube.api.resource_names import validate_container_resource_name
from numakube.values import names
from numakube.values.quantity import parse_quantity

if TYPE_CHECKING:
    from numakube_lab.kinds import Json

# Where each type of metric is described, in the order in which the descriptions are checked.
_SOURCES: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
_TYPES: Final = tuple(sorted(_SOURCES))
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_POSITIVE: Final = "must be positive"


def validate_reference(
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


def validate_metric(metric: Json, path: str) -> list[FieldError]:
    """Check one metric: its type, and the one description that fits the type."""
    kind = metric.get("type") or ""
    errors = [] if kind else [required(f"{path}.type", "must specify a metric source type")]
    unknown = [] if kind in _SOURCES else [not_supported(f"{path}.type", kind, _TYPES)]
    errors += unknown
    given = [field for field in _SOURCES.values() if metric.get(field) is not None]
    if given:
        errors += _CHECKS[given[0]](metric[given[0]], f"{path}.{given[0]}")
    errors += unknown
    expected = _SOURCES.get(kind, "")
    if expected and expected not in given:
        detail = "must populate information for the given metric source"
        errors.append(required(f"{path}.{expected}", detail))
    if len(given) != 1:
        detail = "must populate the given metric source only"
        errors += [forbidden(f"{path}.{field}", detail) for field in given if field != expected]
    return errors


def _check_object(source: Json, path: str) -> list[FieldError]:
    described, target = source.get("describedObject") or {}, source.get("target") or {}
    errors = validate_reference(described, f"{path}.describedObject", any_group=True)
    errors += _check_identifier(source, path) + _check_target(target, f"{path}.target")
    if target.get("value") is None and target.get("averageValue") is None:
        detail = "must set either a target value or averageValue"
        errors.append(required(f"{path}.target.averageValue", detail))
    return errors


def _check_external(source: Json, path: str) -> list[FieldError]:
    target = source.get("target") or {}
    errors = _check_identifier(source, path) + _check_target(target, f"{path}.target")
    given = [target.get(field) is not None for field in ("value", "averageValue")]
    if not any(given):
        detail = "must set either a target value for metric or a per-pod target"
        errors.append(required(f"{path}.target.averageValue", detail))
    if all(given):
        detail = "may not set both a target value for metric and a per-pod target"
        errors.append(forbidden(f"{path}.target.value", detail))
    return errors


def _check_pods(source: Json, path: str) -> list[FieldError]:
    target = source.get("target") or {}
    errors = _check_identifier(source, path) + _check_target(target, f"{path}.target")
    if target.get("averageValue") is None:
        detail = "must specify a positive target averageValue"
        errors.append(required(f"{path}.target.averageValue", detail))
    return errors


def _check_resource(source: Json, path: str) -> list[FieldError]:
    errors = [] if source.get("name") else [_nameless(path)]
    return errors + _check_use(source, path)


def _check_container_resource(source: Json, path: str) -> list[FieldError]:
    name, container = source.get("name") or "", source.get("container") or ""
    errors = validate_container_resource_name(name, f"{path}.name") if name else [_nameless(path)]
    place = f"{path}.container"
    if container:
        errors += invalids(place, container, names.dns_label(container))
    else:
        errors.append(required(place, "must specify a container"))
    return errors + _check_use(source, path)


def _nameless(path: str) -> FieldError:
    return required(f"{path}.name", "must specify a resource name")


def _check_use(source: Json, path: str) -> list[FieldError]:
    """Check how much of a resource shall be used: an amount, or a share of the request."""
    target = source.get("target") or {}
    errors = _check_target(target, f"{path}.target")
    given = [target.get(field) is not None for field in ("averageUtilization", "averageValue")]
    if not any(given):
        detail = "must set either a target raw value or a target utilization"
        errors.append(required(f"{path}.target.averageUtilization", detail))
    if all(given):
        detail = "may not set both a target raw value and a target utilization"
        errors.append(forbidden(f"{path}.target.averageValue", detail))
    return errors


def _check_target(target: Json, path: str) -> list[FieldError]:
    kind, share = target.get("type") or "", target.get("averageUtilization")
    errors = [] if kind else [required(f"{path}.type", "must specify a metric target type")]
    if kind not in _TARGETS:
        detail = "must be either Utilization, Value, or AverageValue"
        errors.append(invalid(f"{path}.type", kind, detail))
    for field in ("value", "averageValue"):
        amount = target.get(field)
        if amount is not None and parse_quantity(amount) <= parse_quantity("0"):
            errors.append(invalid(f"{path}.{field}", amount, _POSITIVE))
    if share is not None and share < 1:
        errors.append(invalid(f"{path}.averageUtilization", share, "must be greater than 0"))
    return errors


def _check_identifier(source: Json, path: str) -> list[FieldError]:
    name = (source.get("metric") or {}).get("name") or ""
    place = f"{path}.metric.name"
    if not name:
        return [required(place, "must specify a metric name")]
    return invalids(place, name, names.path_segment(name))


_CHECKS: Final = {
    "object": _check_object,
    "external": _check_external,
    "pods": _check_pods,
    "resource": _check_resource,
    "containerResource": _check_container_resource,
}
