"""What a claim asks for: requests of devices, constraints and settings of drivers.

CEL expressions that select devices are kept but not compiled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from numakube.api.field_errors import (
    FieldError,
    duplicate,
    invalid,
    invalids,
    not_supported,
    required,
    too_long,
    too_many,
)
from numakube.values import names
from numakube.values.gotext import go_json
from numakube_lab.objects.checks.remembered_checks import remembered
from numakube_lab.objects.devices.device_names import validate_full_attribute_name
from numakube_lab.objects.pod.volume_sources import validate_driver_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numakube_lab.kinds import Json, JsonValue

MAX_ITEMS: Final = 32
_MAX_ALTERNATIVES: Final = 8
_MAX_TEXT: Final = 10 * 1024
_MODES: Final = ("All", "ExactCount")
_NOT_A_REQUEST: Final = (
    "must be the name of a request in the claim "
    "or the name of a request and a subrequest separated by '/'"
)
_ONE_OF: Final = "exactly one of `exactly` or `firstAvailable` is required"


def check_items(
    items: Sequence[JsonValue],
    maximum: int,
    check: Callable[[JsonValue, str], list[FieldError]],
    path: str,
    *,
    key: Callable[[JsonValue], object] | None = None,
) -> list[FieldError]:
    """Check the items of a list, of which no two have the same *key*."""
    if len(items) > maximum:
        return [too_many(path, len(items), maximum)]
    errors = [error for i, item in enumerate(items) for error in check(item, f"{path}[{i}]")]
    keys = [key(item) for item in items] if key else []
    repeated = [(i, found) for i, found in enumerate(keys) if found in keys[:i]]
    return errors + [duplicate(f"{path}[{index}]", found) for index, found in repeated]


def request_names(spec: Json) -> set[str]:
    """Return how the requests of a claim can be referred to."""
    found = set()
    for request in (spec.get("devices") or {}).get("requests") or []:
        found.add(request.get("name") or "")
        for alternative in request.get("firstAvailable") or []:
            found.add(f"{request.get('name') or ''}/{alternative.get('name') or ''}")
    return found


@remembered
def check_spec(spec: Json, path: str) -> list[FieldError]:
    """Check what a claim asks for."""
    devices, known = spec.get("devices") or {}, request_names(spec)
    place = f"{path}.devices"

    def check_constraint(constraint: Json, where: str) -> list[FieldError]:
        errors = check_references(constraint, known, where)
        attribute = constraint.get("matchAttribute")
        if attribute is None:
            return [*errors, required(f"{where}.matchAttribute")]
        return errors + validate_full_attribute_name(attribute, f"{where}.matchAttribute")

    def check_config(config: Json, where: str) -> list[FieldError]:
        return check_references(config, known, where) + check_configuration(config, where)

    requests, constraints = devices.get("requests") or [], devices.get("constraints") or []
    errors = check_items(requests, MAX_ITEMS, _check_request, f"{place}.requests", key=_name)
    errors += check_items(constraints, MAX_ITEMS, check_constraint, f"{place}.constraints")
    return errors + check_items(
        devices.get("config") or [], MAX_ITEMS, check_config, f"{place}.config"
    )


def _name(item: Json) -> str:
    return item.get("name") or ""


def _check_request_name(name: str, path: str) -> list[FieldError]:
    return invalids(path, name, names.dns_label(name))


def _check_request(request: Json, path: str) -> list[FieldError]:
    errors = _check_request_name(_name(request), f"{path}.name")
    exactly, alternatives = request.get("exactly"), request.get("firstAvailable") or []
    if exactly is None and not alternatives:
        return [*errors, required(path, _ONE_OF)]
    if exactly is not None and alternatives:
        return [*errors, invalid(path, None, f"{_ONE_OF}, but multiple fields are set")]
    if exactly is not None:
        return errors + _check_asked(exactly, f"{path}.exactly")
    place = f"{path}.firstAvailable"
    return errors + check_items(
        alternatives, _MAX_ALTERNATIVES, _check_alternative, place, key=_name
    )


def _check_alternative(request: Json, path: str) -> list[FieldError]:
    return _check_request_name(_name(request), f"{path}.name") + _check_asked(request, path)


def _check_asked(request: Json, path: str) -> list[FieldError]:
    wanted = request.get("deviceClassName") or ""
    place = f"{path}.deviceClassName"
    errors = invalids(place, wanted, names.dns_subdomain(wanted)) if wanted else [required(place)]
    errors += check_selectors(request.get("selectors") or [], f"{path}.selectors")
    mode, count = request.get("allocationMode") or "", request.get("count") or 0
    if mode not in _MODES:
        errors.append(not_supported(f"{path}.allocationMode", mode, _MODES))
    elif mode == "All" and count:
        detail = "must not be specified when allocationMode is 'All'"
        errors.append(invalid(f"{path}.count", count, detail))
    elif mode == "ExactCount" and count <= 0:
        errors.append(invalid(f"{path}.count", count, "must be greater than zero"))
    return errors


def check_selectors(selectors: Sequence[Json], path: str) -> list[FieldError]:
    """Check expressions that select devices."""
    return check_items(selectors, MAX_ITEMS, _check_selector, path)


def _check_selector(selector: Json, path: str) -> list[FieldError]:
    if (cel := selector.get("cel")) is None:
        return [required(f"{path}.cel")]
    place = f"{path}.cel.expression"
    text = cel.get("expression") or ""
    return [too_long(place, _MAX_TEXT)] if len(text.encode()) > _MAX_TEXT else []


def check_references(owner: Json, known: set[str], path: str) -> list[FieldError]:
    """Check the names of requests that a constraint or setting is for."""

    def check(name: str, where: str) -> list[FieldError]:
        return check_reference(name, known, where)

    place = f"{path}.requests"
    return check_items(owner.get("requests") or [], MAX_ITEMS, check, place, key=str)


def check_reference(name: str, known: set[str], path: str) -> list[FieldError]:
    """Check the name of a request, or of one of its alternatives."""
    parts = name.split("/")
    unknown = [] if name in known else [invalid(path, name, _NOT_A_REQUEST)]
    if len(parts) > len(("request", "alternative")):
        return unknown
    return [error for part in parts for error in _check_request_name(part, path)] + unknown


def check_configuration(config: Json, path: str) -> list[FieldError]:
    """Check settings that are passed on to a driver."""
    if (opaque := config.get("opaque")) is None:
        return [required(f"{path}.opaque")]
    place = f"{path}.opaque"
    errors = validate_driver_name(opaque.get("driver") or "", f"{place}.driver")
    return errors + check_raw(opaque.get("parameters"), f"{place}.parameters")


def check_raw(value: JsonValue, path: str) -> list[FieldError]:
    """Check a JSON object that only a driver understands."""
    if value is None:
        return [required(path)]
    if len(go_json(value).encode()) > _MAX_TEXT:
        return [too_long(path, _MAX_TEXT)]
    if not isinstance(value, dict):
        return [invalid(path, "<value omitted>", "must be a valid JSON object")]
    return []
