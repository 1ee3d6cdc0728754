"""Requests and limits of containers and pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from numakube.api import resource_names as resources
from numakube.api.field_errors import (
    ErrorType,
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalids,
    required,
)
from numakube.values import names
from numakube.values.quantity import Quantity, parse_quantity
from numakube.values.resources import is_hugepages, is_overcommit_allowed, is_whole_hugepages

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


NameRule: TypeAlias = Callable[[str, str], list[FieldError]]
_MILLI: Final = -3


def round_to_milli(amounts: dict[str, Any] | None) -> None:
    """Round quantities finer than a thousandth up, as the server does with every amount."""
    for name, text in (amounts or {}).items():
        if not isinstance(text, str) or text[-1:] in {"n", "u"} or "e-" in text:
            amounts[name] = str(_rounded(parse_quantity(text)))  # type: ignore[index]


def _rounded(amount: Quantity) -> Quantity:
    if amount.exponent >= _MILLI:
        return amount
    divisor = 10 ** (_MILLI - amount.exponent)
    sign = -1 if amount.unscaled < 0 else 1
    # Away from zero, so that something never becomes nothing.
    return Quantity(sign * -(-abs(amount.unscaled) // divisor), _MILLI, amount.format, amount.wide)


def validate_requirements(
    requirements: dict[str, Any] | None,
    path: str,
    *,
    claim_names: Collection[str] = (),
    name_rule: NameRule = resources.validate_container_resource_name,
) -> list[FieldError]:
    """Check requests against limits, and that both name resources that can be asked for."""
    if not requirements:
        return []
    limits = requirements.get("limits") or {}
    requests = requirements.get("requests") or {}
    errors: list[FieldError] = []
    for name, text in sorted(limits.items()):
        errors += _validate_one(name, text, f"{path}.limits[{name}]", name_rule)
    for name, text in sorted(requests.items()):
        place = f"{path}.requests[{name}]"
        errors += name_rule(name, place)
        errors += resources.validate_amount(name, text, place)
        errors += _validate_against_limit(name, text, limits.get(name), path)
        errors += _validate_pages(name, text, place)
    asked = limits.keys() | requests.keys()
    if any(map(is_hugepages, asked)) and not asked & {"cpu", "memory"}:
        errors.append(forbidden(path, "HugePages require cpu or memory"))
    claims = requirements.get("claims") or []
    return errors + _validate_claims(claims, f"{path}.claims", claim_names)


def _validate_one(name: str, text: str, path: str, name_rule: NameRule) -> list[FieldError]:
    errors = name_rule(name, path)
    errors += resources.validate_amount(name, text, path)
    return errors + _validate_pages(name, text, path)


def _validate_pages(name: str, text: str, path: str) -> list[FieldError]:
    if not is_hugepages(name) or is_whole_hugepages(name, text):
        return []
    amount = parse_quantity(text)
    return [invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")]


def _validate_against_limit(name: str, text: str, limit: str | None, path: str) -> list[FieldError]:
    overcommit = is_overcommit_allowed(name)
    if limit is None:
        detail = "Limit must be set for non overcommitable resources"
        return [] if overcommit else [required(f"{path}.limits", detail)]
    asked, most = parse_quantity(text), parse_quantity(limit)
    if asked != most and not overcommit:
        detail = f"must be equal to {name} limit of {most}"
        return [invalid(f"{path}.requests", str(asked), detail)]
    if asked > most:
        detail = f"must be less than or equal to {name} limit of {most}"
        return [invalid(f"{path}.requests", str(asked), detail)]
    return []


def _validate_claims(
    claims: Sequence[dict[str, Any]], path: str, pod_claims: Collection[str]
) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        place = f"{path}[{index}]"
        name = claim.get("name") or ""
        if not name:
            errors.append(required(place))
            continue
        errors += _validate_claim_once(name, claim.get("request") or "", place, seen)
        if name not in pod_claims:
            errors.append(_unknown_claim(name, place, pod_claims))
    return errors


def _validate_claim_once(name: str, request: str, path: str, seen: set[str]) -> list[FieldError]:
    if name in seen:
        return [duplicate(path, name)]
    errors: list[FieldError] = []
    key = name
    if request:
        errors += invalids(f"{path}.request", request, names.dns_label(request))
        key = f"{name}/{request}"
    if key in seen:
        errors.append(duplicate(path, key))
    elif not request:
        errors += [duplicate(path, name) for other in seen if other.partition("/")[0] == name]
    seen.add(key)
    return errors


def _unknown_claim(name: str, path: str, pod_claims: Collection[str]) -> FieldError:
    known = f": {', '.join(sorted(pod_claims))}" if pod_claims else " which is empty"
    detail = f"must be one of the names in pod.spec.resourceClaims{known}"
    return FieldError(ErrorType.NOT_FOUND, path, detail, name)
