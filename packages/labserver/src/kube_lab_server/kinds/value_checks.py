"""Checks that kinds of many sorts share: conditions, numbers, IP addresses and selectors."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache, wraps
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar, cast

import msgspec

from kube_lab_server.schema.metadata_checks import validate_labels
from numakube.api.field_errors import (
    FieldError,
    duplicate,
    forbidden,
    invalid,
    invalids,
    not_supported,
    required,
    too_long,
)
from numakube.api.selectors import NOTHING, Requirement, Selector
from numakube.values import names
from numakube.values.gotext import go_quote

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from kube_lab_server.kind_names import Json


_STATUSES: Final = ("False", "True", "Unknown")
_MAX_REASON: Final = 1024
_MAX_MESSAGE: Final = 32 * 1024
_REASON: Final = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?"
_match_reason: Final = re.compile(_REASON).fullmatch
_REASON_WRONG: Final = names.regex_message(
    "a condition reason must start with alphabetic character, optionally followed by a string of "
    "alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
    _REASON,
    "my_name",
    "MY_NAME",
    "MyName",
    "ReasonA,ReasonB",
    "ReasonA:ReasonB",
)


def validate_conditions(conditions: Sequence[Json], path: str) -> list[FieldError]:
    """Check conditions of the kind that all newer statuses have."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, condition in enumerate(conditions):
        place = f"{path}[{index}]"
        kind = condition.get("type") or ""
        if kind in seen:
            errors.append(duplicate(f"{place}.type", kind))
        seen.add(kind)
        errors += _check_condition(condition, place)
    return errors


def _check_condition(condition: Json, path: str) -> list[FieldError]:
    kind, status = condition.get("type") or "", condition.get("status") or ""
    reason, message = condition.get("reason") or "", condition.get("message") or ""
    errors = invalids(f"{path}.type", kind, names.qualified_name(kind))
    if status not in _STATUSES:
        errors.append(not_supported(f"{path}.status", status, _STATUSES))
    if (observed := condition.get("observedGeneration") or 0) < 0:
        detail = "must be greater than or equal to zero"
        errors.append(invalid(f"{path}.observedGeneration", observed, detail))
    if condition.get("lastTransitionTime") is None:
        errors.append(required(f"{path}.lastTransitionTime"))
    if not reason:
        errors.append(required(f"{path}.reason"))
    elif not _match_reason(reason):
        errors.append(invalid(f"{path}.reason", reason, _REASON_WRONG))
    if len(reason.encode()) > _MAX_REASON:
        errors.append(too_long(f"{path}.reason", _MAX_REASON))
    if len(message.encode("utf-8", "surrogatepass")) > _MAX_MESSAGE:
        errors.append(too_long(f"{path}.message", _MAX_MESSAGE))
    return errors


def not_negative(owner: Json, fields: Iterable[str], path: str) -> list[FieldError]:
    """Check that those of *fields* that are there are not below zero."""
    return [
        invalid(f"{path}.{field}" if path else field, owner[field], names.NOT_NEGATIVE)
        for field in fields
        if (owner.get(field) or 0) < 0
    ]


def not_greater(
    owner: Json, fields: Iterable[str], than: str, path: str, detail: str
) -> list[FieldError]:
    """Check that none of *fields* exceeds the field *than*."""
    most = owner.get(than) or 0
    return [
        invalid(f"{path}.{field}", owner.get(field) or 0, detail)
        for field in fields
        if (owner.get(field) or 0) > most
    ]


def not_decremented(new: Json, old: Json, field: str, path: str) -> list[FieldError]:
    """Check that a counter does not go back; one that was never set is not a counter yet."""
    before, after = old.get(field), new.get(field) or 0
    if before is None or after >= before:
        return []
    return [invalid(f"{path}.{field}", after, "cannot be decremented")]


def int_or_percent(value: int | str, path: str) -> list[FieldError]:
    """Check a number that may be a share: ``3`` or ``25%``."""
    if isinstance(value, str):
        return invalids(path, value, names.percent(value))
    return [invalid(path, value, names.NOT_NEGATIVE)] if value < 0 else []


def at_most_all(value: int | str, path: str) -> list[FieldError]:
    """Check that a share is at most 100 %."""
    if isinstance(value, int) or names.percent(value) or int(value[:-1]) <= 100:
        return []
    return [invalid(path, value, "must not be greater than 100%")]


def amount_of(value: int | str | None) -> int:
    """Return the number in *value*, be it a share or not."""
    if isinstance(value, str):
        digits = value.removesuffix("%")
        return int(digits) if digits.isascii() and digits.isdigit() else 0
    return value or 0


Check = TypeVar("Check", bound=Callable[..., list[Any]])


def remembered(check: Check) -> Check:
    """Return *check* with a memory; it must take JSON by position and look at nothing else."""

    @lru_cache(maxsize=1024)
    def answer(arguments: bytes) -> tuple[Any, ...]:
        return tuple(check(*msgspec.json.decode(arguments)))

    @wraps(check)
    def ask(*arguments: Any) -> list[Any]:  # noqa: ANN401 - what the check takes
        return list(answer(msgspec.json.encode(arguments)))

    return cast("Check", ask)


Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_LEADING_ZEROS: Final = re.compile(r"(?<![0-9a-fA-F:])0+(?=[0-9])")
_IP_WRONG: Final = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"
_CIDR_WRONG: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"


def parse_address(text: str) -> Address | None:
    """Return the address that *text* stands for; one written as IPv6 but mapped is IPv4."""
    if "%" in text:
        return None
    plain = _LEADING_ZEROS.sub("", text) if "." in text else text
    try:
        address = ip_address(plain)
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


def parse_network(text: str) -> tuple[Address, Network] | None:
    """Return the address in CIDR *text* and the block it belongs to."""
    head, slash, length = text.partition("/")
    address = parse_address(head)
    if address is None or not slash or not (length.isascii() and length.isdigit()):
        return None
    bits = int(length)
    if isinstance(address, IPv4Address) and ":" in head:
        bits -= 96
    if not 0 <= bits <= address.max_prefixlen:
        return None
    return address, ip_network(f"{address}/{bits}", strict=False)


def is_strict(text: str) -> bool:
    """Tell whether *text* is an address without leading zeros that is not a mapped one."""
    try:
        address = ip_address(text)
    except ValueError:
        return False
    return isinstance(address, IPv4Address) or address.ipv4_mapped is None


def check_address(text: str, path: str, known: Collection[str] = ()) -> list[FieldError]:
    """Check an address in an older field; those in *known* were accepted before."""
    if text in known or parse_address(text) is not None:
        return []
    return [invalid(path, text, _IP_WRONG)]


def check_network(text: str, path: str, known: Collection[str] = ()) -> list[FieldError]:
    """Check a CIDR block in an older field; those in *known* were accepted before."""
    if text in known or parse_network(text) is not None:
        return []
    return [invalid(path, text, _CIDR_WRONG)]


def check_canonical_address(text: str, path: str) -> list[FieldError]:
    """Check an address in a field that wants the canonical form."""
    address = parse_address(text)
    if address is None:
        return [invalid(path, text, _IP_WRONG)]
    errors = []
    if "." in text and _LEADING_ZEROS.search(text):
        errors.append(invalid(path, text, "must not have leading 0s"))
    if isinstance(address, IPv4Address) and ":" in text:
        errors.append(invalid(path, text, "must not be an IPv4-mapped IPv6 address"))
    if not errors and text != str(address):
        detail = f"must be in canonical form ({go_quote(str(address))})"
        errors.append(invalid(path, text, detail))
    return errors


def address_warnings(text: str, path: str) -> list[str]:
    """Warn of an address that an older field takes although it is not written well."""
    address = parse_address(text)
    if address is None:
        return []
    shown, better = go_quote(text), go_quote(str(address))
    if not is_strict(text):
        future = "will be considered invalid in a future Kubernetes release"
        return [f"{path}: non-standard IP address {shown} {future}: use {better}"]
    if isinstance(address, IPv6Address) and str(address) != text:
        return [f"{path}: IPv6 address {shown} should be in RFC 5952 canonical format ({better})"]
    return []


def network_warnings(text: str, path: str) -> list[str]:
    """Warn of a CIDR block that an older field takes although it is not written well."""
    parsed = parse_network(text)
    if parsed is None:
        return []
    address, network = parsed
    head = text.partition("/")[0]
    shown, better = go_quote(text), go_quote(str(network))
    warnings = []
    if address != network.network_address:
        single = go_quote(f"{address}/{address.max_prefixlen}")
        warnings.append(
            f"{path}: CIDR value {shown} is ambiguous in this context "
            f"(should be {better} or {single}?)"
        )
    if not is_strict(head):
        future = "will be considered invalid in a future Kubernetes release"
        warnings.append(f"{path}: non-standard CIDR value {shown} {future}: use {better}")
    if not warnings and isinstance(address, IPv6Address) and str(network) != text:
        warnings.append(
            f"{path}: IPv6 CIDR value {shown} should be in RFC 5952 canonical format ({better})"
        )
    return warnings


NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
NEEDS_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
UNKNOWN_OPERATOR: Final = "not a valid selector operator"


def validate_label_selector(
    selector: Json | None, path: str, *, any_value: bool = False
) -> list[FieldError]:
    """Check a selector; values that are no label values pass if *any_value*."""
    if not selector:
        return []
    errors = validate_labels(selector.get("matchLabels"), f"{path}.matchLabels")
    for index, requirement in enumerate(selector.get("matchExpressions") or []):
        place = f"{path}.matchExpressions[{index}]"
        errors += _validate_requirement(requirement, place, any_value=any_value)
    return errors


def _validate_requirement(requirement: Json, path: str, *, any_value: bool) -> list[FieldError]:
    values = requirement.get("values") or []
    errors = validate_operator_values(requirement.get("operator") or "", values, path)
    key = requirement.get("key") or ""
    errors += invalids(f"{path}.key", key, names.qualified_name(key))
    if not any_value:
        for index, value in enumerate(values):
            errors += invalids(f"{path}.values[{index}]", value, names.label_value(value))
    return errors


def validate_operator_values(operator: str, values: list[str], path: str) -> list[FieldError]:
    """Check that a set-based operator is known and has values if it wants them."""
    if operator in {"In", "NotIn"}:
        return [] if values else [required(f"{path}.values", NEEDS_VALUES)]
    if operator in {"Exists", "DoesNotExist"}:
        return [forbidden(f"{path}.values", NEEDS_NO_VALUES)] if values else []
    return [invalid(f"{path}.operator", operator, UNKNOWN_OPERATOR)]


def is_convertible(selector: Json | None) -> bool:
    """Tell whether *selector* can be evaluated at all."""
    return not validate_label_selector(selector, "")


def is_empty(selector: Json | None) -> bool:
    """Tell whether *selector* has no requirement, so that it matches everything."""
    return not selector or not (selector.get("matchLabels") or selector.get("matchExpressions"))


def selector_of(selector: Json | None) -> Selector:
    """Return what *selector* selects; none at all selects nothing."""
    if selector is None:
        return NOTHING
    exact = (selector.get("matchLabels") or {}).items()
    requirements = [Requirement(key, "=", frozenset((value,))) for key, value in exact]
    for expression in selector.get("matchExpressions") or ():
        values = frozenset(expression.get("values") or ())
        requirements.append(
            Requirement(expression.get("key", ""), expression.get("operator", ""), values)
        )
    return Selector(tuple(sorted(requirements, key=lambda requirement: requirement.key)))


def matches(selector: Json | None, labels: Mapping[str, str] | None) -> bool:
    """Tell whether *labels* satisfy *selector*; no selector at all matches nothing."""
    return selector_of(selector).matches(labels or {})
