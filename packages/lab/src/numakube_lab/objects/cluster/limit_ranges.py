"""Limit ranges: defaults for what containers ask for, and bounds that admission enforces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import aggregate
from numakube.api.resource_requirements import round_to_milli
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import is_pod_level
from numakube_lab.objects.checks.cluster_view import Refused
from numakube_lab.objects.checks.kind_rules import KindRules
from numakube_lab.objects.pod.pod_resources import Amounts, amounts_of, sum_containers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numakube_lab.kinds import Json
    from numakube_lab.objects.checks.cluster_view import ClusterView

_SIDES: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")
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


LIMIT_RANGE: Final = KindRules(
    own_metadata_change=False, default=_default_range, rechecks_name=True
)


def set_limits(pod: Json, view: ClusterView) -> Refused | None:
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


def check_pod_limits(pod: Json, view: ClusterView) -> Refused | None:
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
            return Refused(aggregate(wrong))
    return None


def _of_pod(spec: Json, side: str) -> Amounts:
    total = sum_containers(spec, side)
    own = amounts_of(spec, side)
    return total | {name: amount for name, amount in own.items() if is_pod_level(name)}


def check_claim_limits(claim: Json, view: ClusterView) -> Refused | None:
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
            return Refused(aggregate(wrong))
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
