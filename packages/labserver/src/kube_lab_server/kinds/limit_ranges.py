"""Limit ranges: defaults for what containers ask for, and bounds that admission enforces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kube_lab_server.kinds.kind_rules import AdmissionRefused, KindRules
from kube_lab_server.kinds.pod.pod_admission import Amounts, amounts_of, sum_containers
from numakube.api import resource_names as resources
from numakube.api.field_errors import (
    FieldError,
    aggregate,
    duplicate,
    forbidden,
    invalid,
    invalids,
    required,
)
from numakube.api.resource_requirements import round_to_milli
from numakube.values import names
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import is_overcommit_allowed, is_pod_level

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kube_lab_server.kind_names import Json
    from kube_lab_server.kinds.kind_rules import ClusterView


_SIDES: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
_LIMIT_TYPES: Final = frozenset({"Pod", "Container", "PersistentVolumeClaim"})
_ANNOTATION: Final = "kubernetes.io/limit-ranger"
_LISTS: Final = (("containers", "container"), ("initContainers", "init container"))


def _default_range(limit_range: Json) -> None:
    for limit in (limit_range.get("spec") or {}).get("limits") or []:
        if limit.get("type") == "Container":
            defaults = (limit.get("max") or {}) | (limit.get("default") or {})
            requests = (limit.get("min") or {}) | defaults | (limit.get("defaultRequest") or {})
            for field, amounts in (("default", defaults), ("defaultRequest", requests)):
                if amounts:
                    limit[field] = amounts
        for side in _SIDES:
            round_to_milli(limit.get(side))


def _check_range(limit_range: Json) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, limit in enumerate((limit_range.get("spec") or {}).get("limits") or []):
        path = f"spec.limits[{index}]"
        kind = limit.get("type") or ""
        errors += _check_limit_type(kind, f"{path}.type")
        if kind in seen:
            errors.append(duplicate(f"{path}.type", kind))
        seen.add(kind)
        errors += _check_limit_names(limit, kind, path)
        for name in sorted({name for side in _SIDES for name in limit.get(side) or {}}):
            errors += _check_limit_bounds(limit, name, path)
    return errors


def _check_limit_type(kind: str, path: str) -> list[FieldError]:
    if errors := invalids(path, kind, names.qualified_name(kind)):
        return errors
    if "/" in kind or kind in _LIMIT_TYPES:
        return []
    return [invalid(path, kind, "must be a standard limit type or fully qualified")]


def _check_limit_names(limit: Json, kind: str, path: str) -> list[FieldError]:
    compute = kind in {"Pod", "Container"}
    rule = (
        resources.validate_container_resource_name if compute else resources.validate_resource_name
    )
    errors: list[FieldError] = []
    for side in _SIDES:
        given = limit.get(side) or {}
        if kind == "Pod" and given and side in {"default", "defaultRequest"}:
            detail = "may not be specified when `type` is 'Pod'"
            errors.append(forbidden(f"{path}.{side}", detail))
            continue
        if side == "maxLimitRequestRatio" and kind == "PersistentVolumeClaim":
            errors += _check_claim_limit(limit, path)
        for name in sorted(given):
            errors += rule(name, f"{path}.{side}[{name}]")
    return errors


def _check_claim_limit(limit: Json, path: str) -> list[FieldError]:
    if any("storage" in (limit.get(side) or {}) for side in ("min", "max")):
        return []
    detail = "either minimum or maximum storage value is required, but neither was provided"
    return [required(f"{path}.limits", detail)]


# Which bound may not exceed which, where that is reported, with whose value, and in which words.
_ORDER: Final = (
    ("min", "max", "min", "min", "min value {} is greater than max value {}"),
    (
        "min",
        "defaultRequest",
        "defaultRequest",
        "defaultRequest",
        "min value {} is greater than default request value {}",
    ),
    (
        "defaultRequest",
        "max",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than max value {}",
    ),
    (
        "defaultRequest",
        "default",
        "defaultRequest",
        "defaultRequest",
        "default request value {} is greater than default limit value {}",
    ),
    ("min", "default", "default", "min", "min value {} is greater than default value {}"),
    ("default", "max", "default", "max", "default value {} is greater than max value {}"),
)


def _check_limit_bounds(limit: Json, name: str, path: str) -> list[FieldError]:
    amounts: dict[str, Quantity] = {
        side: parse_quantity(limit[side][name])
        for side in _SIDES
        if name in (limit.get(side) or {})
        and not (limit.get("type") == "Pod" and side in {"default", "defaultRequest"})
    }
    errors = []
    for low, high, place, shown, words in _ORDER:
        if low in amounts and high in amounts and amounts[low] > amounts[high]:
            detail = words.format(amounts[low], amounts[high])
            errors.append(invalid(f"{path}.{place}[{name}]", str(amounts[shown]), detail))
    errors += _check_ratio(amounts, f"{path}.maxLimitRequestRatio[{name}]")
    if not is_overcommit_allowed(name):
        errors += _check_equal(amounts, name, f"{path}.defaultRequest[{name}]")
    return errors


def _check_equal(amounts: dict[str, Quantity], name: str, path: str) -> list[FieldError]:
    default, request = amounts.get("default"), amounts.get("defaultRequest")
    if default is None or request is None or default == request:
        return []
    words = f"default value {default} must equal to defaultRequest value {request} in {name}"
    return [invalid(path, str(request), words)]


def _check_ratio(amounts: dict[str, Quantity], path: str) -> list[FieldError]:
    ratio = amounts.get("maxLimitRequestRatio")
    if ratio is None:
        return []
    errors = []
    if ratio < Quantity(1):
        errors.append(invalid(path, str(ratio), f"ratio {ratio} is less than 1"))
    if "min" in amounts and "max" in amounts and amounts["min"].milli_value():
        most = amounts["max"].milli_value() / amounts["min"].milli_value()
        if ratio.milli_value() / 1000 > most:
            words = f"ratio {ratio} is greater than max/min = {most:f}"
            errors.append(invalid(path, str(ratio), words))
    return errors


LIMIT_RANGE: Final = KindRules(
    own_metadata_change=False, default=_default_range, check=_check_range, rechecks_name=True
)


def set_limits(pod: Json, view: ClusterView) -> AdmissionRefused | None:
    """Give containers the default requests and limits of their namespace."""
    for limit_range in _limit_ranges(pod, view):
        requests: dict[str, str] = {}
        limits: dict[str, str] = {}
        for limit in _limits_of(limit_range, "Container"):
            requests |= limit.get("defaultRequest") or {}
            limits |= limit.get("default") or {}
        notes = [
            note
            for field, label in _LISTS
            for container in pod["spec"].get(field) or []
            for note in _complete(container, requests, limits, label)
        ]
        if notes:
            annotations = pod["metadata"].get("annotations") or {}
            text = f"LimitRanger plugin set: {'; '.join(notes)}"
            pod["metadata"]["annotations"] = annotations | {_ANNOTATION: text}
    return None


def _limit_ranges(obj: Json, view: ClusterView) -> Iterator[Json]:
    yield from view.list("", "LimitRange", obj["metadata"].get("namespace") or "")


def _limits_of(limit_range: Json, kind: str) -> list[Json]:
    limits = (limit_range.get("spec") or {}).get("limits") or []
    return [limit for limit in limits if limit.get("type") == kind]


def _complete(
    container: Json, requests: dict[str, str], limits: dict[str, str], label: str
) -> Iterator[str]:
    resources = container.setdefault("resources", {})
    for side, defaults in (("requests", requests), ("limits", limits)):
        given = resources.get(side) or {}
        added = sorted(defaults.keys() - given.keys())
        if added:
            resources[side] = given | {name: defaults[name] for name in added}
            yield f"{', '.join(added)} {side[:-1]} for {label} {container.get('name') or ''}"


def check_pod_limits(pod: Json, view: ClusterView) -> AdmissionRefused | None:
    """Refuse a pod outside the bounds of its namespace."""
    spec = pod["spec"]
    for limit_range in _limit_ranges(pod, view):
        wrong: list[str] = []
        for limit in (limit_range.get("spec") or {}).get("limits") or []:
            if limit.get("type") == "Container":
                for field, _ in _LISTS:
                    for one in spec.get(field) or []:
                        requests, limits = amounts_of(one, "requests"), amounts_of(one, "limits")
                        wrong += _outside(limit, requests, limits)
            elif limit.get("type") == "Pod":
                wrong += _outside(limit, _of_pod(spec, "requests"), _of_pod(spec, "limits"))
        if wrong:
            return AdmissionRefused(aggregate(wrong))
    return None


def _of_pod(spec: Json, side: str) -> Amounts:
    total = sum_containers(spec, side)
    own = amounts_of(spec, side)
    return total | {name: amount for name, amount in own.items() if is_pod_level(name)}


def check_claim_limits(claim: Json, view: ClusterView) -> AdmissionRefused | None:
    """Refuse a claim outside the bounds of its namespace."""
    requests = amounts_of(claim.get("spec"), "requests")
    for limit_range in _limit_ranges(claim, view):
        wrong: list[str] = []
        for limit in _limits_of(limit_range, "PersistentVolumeClaim"):
            kind = "PersistentVolumeClaim"
            for name, least in _amounts(limit, "min"):
                wrong += _below(kind, name, least, requests, {})
            for name, most in _amounts(limit, "max"):
                wrong += _request_above(kind, name, most, requests)
        if wrong:
            return AdmissionRefused(aggregate(wrong))
    return None


def _amounts(limit: Json, field: str) -> Iterator[tuple[str, Quantity]]:
    for name, text in sorted((limit.get(field) or {}).items()):
        yield name, parse_quantity(text)


def _outside(limit: Json, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = limit["type"]
    for name, least in _amounts(limit, "min"):
        yield from _below(kind, name, least, requests, limits)
    for name, most in _amounts(limit, "max"):
        yield from _above(kind, name, most, requests, limits)
    for name, ratio in _amounts(limit, "maxLimitRequestRatio"):
        yield from _stretched(kind, name, ratio, requests, limits)


def _below(
    kind: str, name: str, least: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    rule = f"minimum {name} usage per {kind} is {least}"
    if name not in requests:
        yield f"{rule}.  No request is specified"
    elif requests[name] < least:
        yield f"{rule}, but request is {requests[name]}"
    elif name in limits and limits[name] < least:
        yield f"{rule}, but limit is {limits[name]}"


def _request_above(kind: str, name: str, most: Quantity, requests: Amounts) -> Iterator[str]:
    rule = f"maximum {name} usage per {kind} is {most}"
    if name not in requests:
        yield f"{rule}.  No request is specified"
    elif requests[name] > most:
        yield f"{rule}, but request is {requests[name]}"


def _above(
    kind: str, name: str, most: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    rule = f"maximum {name} usage per {kind} is {most}"
    if name not in limits:
        yield f"{rule}.  No limit is specified"
    elif limits[name] > most:
        yield f"{rule}, but limit is {limits[name]}"
    elif name in requests and requests[name] > most:
        yield f"{rule}, but request is {requests[name]}"


def _stretched(
    kind: str, name: str, ratio: Quantity, requests: Amounts, limits: Amounts
) -> Iterator[str]:
    rule = f"{name} max limit to request ratio per {kind} is {ratio}"
    if not requests.get(name):
        yield f"{rule}, but no request is specified or request is 0"
    elif not limits.get(name):
        yield f"{rule}, but no limit is specified or limit is 0"
    else:
        actual = limits[name].milli_value() / requests[name].milli_value()
        if actual * 1000 > ratio.milli_value():
            yield f"{rule}, but provided ratio is {actual:f}"
