"""What a schema says about values: types, ranges, patterns, required fields and combinations.

Order, wording and even what is reported twice follow the validator of kube-apiserver 1.35, because
all of it reaches the user. An update is not blamed for what it leaves unchanged: where the old
value is known and equal, complaints about it are dropped.

Which old value a new one replaces, where that can be told. Fields are matched by their names,
elements of a list by its keys; elements of other lists cannot be.

Formats of strings that the schemas of custom resources can ask for. Formats that are not listed
here are ignored, as kube-apiserver ignores those that it does not know.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from dataclasses import dataclass, field
from datetime import date
from email.utils import parseaddr
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from numakube.api.field_errors import (
    FieldError,
    invalid,
    not_supported,
    required,
    too_long,
    too_many,
    type_invalid,
)
from numakube.cel import compiled
from numakube.errors import InvalidValue
from numakube.values.gotext import go_quote, go_text
from numakube.values.times import canonical_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kube_lab_server.schema.types import JsonValue


class Unknown:
    """Type of `UNKNOWN`."""


UNKNOWN: Final = Unknown()
"""In the place of an old value: there is none, or it cannot be told which it was."""


def old_member(old: JsonValue, name: str) -> JsonValue:
    """Return what stood under *name*."""
    return old.get(name, UNKNOWN) if isinstance(old, dict) else UNKNOWN


def old_item(old: JsonValue, item: JsonValue, keys: Sequence[str]) -> JsonValue:
    """Return the element of *old* with the same *keys* as *item*."""
    if not keys or not isinstance(old, list) or not isinstance(item, dict):
        return UNKNOWN
    wanted = [item.get(key) for key in keys]
    found = (one for one in old if isinstance(one, dict) and [one.get(k) for k in keys] == wanted)
    return next(found, UNKNOWN)


def is_unchanged(old: JsonValue, new: JsonValue) -> bool:
    """Tell whether the old value is known and the new one equals it."""
    return not isinstance(old, Unknown) and bool(old == new)


_HOSTNAME: Final = re.compile(
    r"(?i)(?=.{1,253}$)([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)(\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*\.?"
)
_PATTERNS: Final = {
    "bsonobjectid": r"[0-9a-fA-F]{24}",
    "hexcolor": r"#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})",
    "mac": r"([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2})|([0-9A-Fa-f]{4}\.){2}[0-9A-Fa-f]{4}",
    "rgbcolor": r"rgb\(\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,"
    r"\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*,\s*(0|[1-9]\d?|1\d\d?|2[0-4]\d|25[0-5])\s*\)",
    "ssn": r"\d{3}[- ]?\d{2}[- ]?\d{4}",
    "uuid": r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}",
    "uuid3": r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?3[0-9a-f]{3}-?[0-9a-f]{4}-?[0-9a-f]{12}",
    "uuid4": r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?4[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}",
    "uuid5": r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?5[0-9a-f]{3}-?[89ab][0-9a-f]{3}-?[0-9a-f]{12}",
}
_DURATION: Final = re.compile(
    r"[+-]?(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*|0"
)
_WORDY_DURATION: Final = re.compile(
    r"\s*\d+\s*(ns|nano|us|µs|micro|ms|milli|s|sec|m|min|h|hr|hour|d|day|w|week)s?\s*"
)
_DNS_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_MAX_LABEL: Final = 63
_MAX_SUBDOMAIN: Final = 253


def is_valid(name: str, text: str) -> bool:
    """Tell whether *text* has the format *name*; any text has a format that is not known."""
    check = _CHECKS.get(name.replace("-", ""))
    return check is None or check(text)


def is_known(name: str) -> bool:
    """Tell whether the format is one that is checked."""
    return name.replace("-", "") in _CHECKS


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern, re.ASCII)
    return lambda text: compiled.fullmatch(text) is not None


def _accepted_by(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, InvalidValue, binascii.Error):
            return False
        return True

    return check


def _is_email(text: str) -> bool:
    name, address = parseaddr(text)
    local, at, domain = address.rpartition("@")
    return bool(at and local and domain) and (address in text or bool(name))


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme) or text.startswith("/")


def _is_cidr(text: str) -> bool:
    return "/" in text and _accepted_by(lambda t: ipaddress.ip_network(t, strict=False))(text)


def _is_ipv6(text: str) -> bool:
    return "%" not in text and _accepted_by(ipaddress.IPv6Address)(text)


def _is_date(text: str) -> bool:
    return len(text) == len("2006-01-02") and _accepted_by(date.fromisoformat)(text)


def _is_duration(text: str) -> bool:
    return _DURATION.fullmatch(text) is not None or _WORDY_DURATION.fullmatch(text) is not None


def _is_isbn(text: str) -> bool:
    return _is_isbn10(text) or _is_isbn13(text)


def _is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits):
        return False
    values = [10 if char == "X" else int(char) for char in digits]
    return sum((index + 1) * value for index, value in enumerate(values)) % 11 == 0


def _is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]+", "", text)
    if not re.fullmatch(r"\d{13}", digits):
        return False
    weighted = sum(int(char) * (3 if index % 2 else 1) for index, char in enumerate(digits))
    return weighted % 10 == 0


def _is_credit_card(text: str) -> bool:
    digits = re.sub(r"[^0-9]+", "", text)
    if not 13 <= len(digits) <= 19:
        return False
    doubled = [int(c) * (2 if i % 2 else 1) for i, c in enumerate(reversed(digits))]
    return sum(n - 9 if n > 9 else n for n in doubled) % 10 == 0


def _is_short_name(text: str) -> bool:
    return len(text) <= _MAX_LABEL and _DNS_LABEL.fullmatch(text) is not None


def _is_long_name(text: str) -> bool:
    labels = text.split(".")
    return len(text) <= _MAX_SUBDOMAIN and all(_DNS_LABEL.fullmatch(label) for label in labels)


_CHECKS: Final[Mapping[str, Callable[[str], bool]]] = {
    **{name: _matches(pattern) for name, pattern in _PATTERNS.items()},
    "byte": _accepted_by(lambda text: base64.b64decode(text, validate=True)),
    "cidr": _is_cidr,
    "creditcard": _is_credit_card,
    "date": _is_date,
    "datetime": _accepted_by(canonical_time),
    "duration": _is_duration,
    "email": _is_email,
    "hostname": lambda text: _HOSTNAME.fullmatch(text) is not None,
    "ipv4": _accepted_by(ipaddress.IPv4Address),
    "ipv6": _is_ipv6,
    "isbn": _is_isbn,
    "isbn10": _is_isbn10,
    "isbn13": _is_isbn13,
    "k8slongname": _is_long_name,
    "k8sshortname": _is_short_name,
    "password": lambda _: True,
    "uri": _is_uri,
}


_NO_PATH: Final = "<nil>"


@dataclass(slots=True)
class ValueVerdict:
    """Complaints about a value, and how much of it was in order."""

    errors: list[FieldError] = field(default_factory=list)
    matches: int = 0

    def add(self, other: ValueVerdict) -> None:
        """Take over another verdict."""
        self.errors += other.errors
        self.matches += other.matches


def validate_value(
    schema: Mapping[str, Any], value: JsonValue, *, path: str = "", old: JsonValue = UNKNOWN
) -> list[FieldError]:
    """Return what is wrong with *value*; *old* is what an update replaces."""
    return _validate(schema, value, path, old).errors


def _validate(
    schema: Mapping[str, Any], value: JsonValue, path: str, old: JsonValue
) -> ValueVerdict:
    verdict = _judge(schema, value, path, old)
    return ValueVerdict() if verdict.errors and is_unchanged(old, value) else verdict


def _judge(schema: Mapping[str, Any], value: JsonValue, path: str, old: JsonValue) -> ValueVerdict:
    verdict = ValueVerdict()
    if value is None:
        verdict.add(_check_type(schema, value, path))
        verdict.errors += _check_enum(schema, value, path)
        return verdict
    if _types(schema) or _format(schema):
        verdict.add(_check_type(schema, value, path))
        verdict.matches += 1
    verdict.add(_check_combinations(schema, value, path))
    verdict.matches += 1
    match value:
        case str():
            verdict.errors += _check_string(schema, value, path)
            verdict.errors += _check_format(schema, value, path)
            verdict.matches += 1
        case int() | float() if not isinstance(value, bool):
            verdict.errors += _check_number(schema, value, path)
            verdict.matches += 2
        case list():
            verdict.add(_check_list(schema, value, path, old))
            verdict.matches += 2
        case _:
            pass
    verdict.errors += _check_enum(schema, value, path)
    verdict.matches += 1
    if isinstance(value, dict):
        verdict.add(_check_object(schema, value, path, old))
        verdict.matches += 1
    verdict.matches += 1
    return verdict


def _format(schema: Mapping[str, Any]) -> str:
    """Return the format that is asked for; one that is not known is as good as none."""
    name = str(schema.get("format") or "")
    return name if is_known(name) else ""


def _types(schema: Mapping[str, Any]) -> tuple[str, ...]:
    if schema.get("x-kubernetes-int-or-string"):
        return ("integer", "string")
    kind = schema.get("type")
    return (kind,) if kind else ()


def _type_of(value: JsonValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _check_type(schema: Mapping[str, Any], value: JsonValue, path: str) -> ValueVerdict:
    wanted, found = _types(schema), _type_of(value)
    if value is None:
        allowed = not wanted or bool(schema.get("nullable"))
        return ValueVerdict(matches=1) if allowed else _wrong_type(path, wanted, found)
    if _format(schema) and isinstance(value, str | list) and not _is_numeric(wanted):
        # The server leaves such values to the check of the format, which passes over lists.
        return ValueVerdict(matches=1)
    whole = isinstance(value, float) and value.is_integer() and "integer" in wanted
    if not wanted or found in wanted or whole or (found == "integer" and "number" in wanted):
        return ValueVerdict(matches=1)
    return _wrong_type(path, wanted, found)


def _is_numeric(types: tuple[str, ...]) -> bool:
    return "number" in types or "integer" in types


def _wrong_type(path: str, wanted: tuple[str, ...], found: str) -> ValueVerdict:
    text = f"{_bare(path)} in body must be of type {','.join(wanted)}: {go_quote(found)}"
    return ValueVerdict([type_invalid(_at(path), found, text)])


def _at(path: str) -> str:
    return _bare(path) or _NO_PATH


def _bare(path: str) -> str:
    return path.removeprefix(".")


def _check_enum(schema: Mapping[str, Any], value: JsonValue, path: str) -> Iterator[FieldError]:
    allowed = schema.get("enum")
    if allowed and not any(_is_same(value, one) for one in allowed):
        yield not_supported(_at(path), value, [_enum_text(one) for one in allowed])


def _is_same(value: JsonValue, other: JsonValue) -> bool:
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


def _enum_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else go_text(value)


def _check_string(schema: Mapping[str, Any], value: str, path: str) -> list[FieldError]:
    most, least = schema.get("maxLength"), schema.get("minLength")
    if most is not None and len(value) > most:
        return [too_long(_at(path), most)]
    if least is not None and len(value) < least:
        return [_invalid(path, value, f"should be at least {least} chars long")]
    pattern = schema.get("pattern")
    if pattern and not compiled(pattern).is_in(value):
        return [_invalid(path, value, f"should match '{pattern}'")]
    return []


def pattern_problem(pattern: str) -> str:
    """Return why *pattern* cannot be compiled; empty if it can."""
    try:
        compiled(pattern)
    except InvalidValue as error:
        return str(error)
    return ""


def _check_format(schema: Mapping[str, Any], value: str, path: str) -> list[FieldError]:
    name = _format(schema)
    if not name or is_valid(name, value):
        return []
    text = f"{_bare(path)} in body must be of type {name}: {go_quote(value)}"
    return [type_invalid(_at(path), value, text)]


def _check_number(schema: Mapping[str, Any], value: float, path: str) -> Iterator[FieldError]:
    factor = schema.get("multipleOf")
    if factor and (value / factor) % 1:
        yield _invalid(path, value, f"should be a multiple of {go_text(factor)}")
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None:
        strict = bool(schema.get("exclusiveMinimum"))
        if value < least or (strict and value == least):
            words = "greater than" if strict else "greater than or equal to"
            yield _invalid(path, value, f"should be {words} {go_text(least)}")
    if most is not None:
        strict = bool(schema.get("exclusiveMaximum"))
        if value > most or (strict and value == most):
            words = "less than" if strict else "less than or equal to"
            yield _invalid(path, value, f"should be {words} {go_text(most)}")


def _invalid(path: str, value: JsonValue, text: str) -> FieldError:
    return invalid(_at(path), value, f"{_bare(path)} in body {text}")


def _check_list(
    schema: Mapping[str, Any], value: list[JsonValue], path: str, old: JsonValue
) -> ValueVerdict:
    verdict = ValueVerdict(matches=1)
    items = schema.get("items")
    if isinstance(items, dict):
        keyed = schema.get("x-kubernetes-list-type") == "map"
        keys = schema.get("x-kubernetes-list-map-keys") or () if keyed else ()
        for index, item in enumerate(value):
            before = old_item(old, item, keys)
            verdict.add(_validate(items, item, f"{path}[{index}]", before))
    least, most = schema.get("minItems"), schema.get("maxItems")
    if least is not None and len(value) < least:
        verdict.errors.append(_invalid(path, len(value), f"should have at least {least} items"))
    if most is not None and len(value) > most:
        verdict.errors.append(too_many(_at(path), len(value), most))
    if schema.get("uniqueItems") and _has_repetition(value):
        verdict.errors.append(
            invalid(_at(path), "", f"{_bare(path)} in body shouldn't contain duplicates")
        )
    return verdict


def _has_repetition(value: list[JsonValue]) -> bool:
    return any(_is_same(item, other) for i, item in enumerate(value) for other in value[:i])


def _check_object(
    schema: Mapping[str, Any], value: dict[str, JsonValue], path: str, old: JsonValue
) -> ValueVerdict:
    verdict = ValueVerdict()
    least, most = schema.get("minProperties"), schema.get("maxProperties")
    if least is not None and len(value) < least:
        text = f"should have at least {least} properties"
        verdict.errors.append(_invalid(path, len(value), text))
    if most is not None and len(value) > most:
        verdict.errors.append(too_many(_at(path), len(value), most))
    properties = schema.get("properties") or {}
    additional = schema.get("additionalProperties")
    if isinstance(additional, dict):
        for name in sorted(value.keys() - properties.keys()):
            before = old_member(old, name)
            verdict.add(_validate(additional, value[name], f"{path}.{name}", before))
    for name in sorted(properties):
        if name in value:
            is_type_meta = not path and name in ("kind", "apiVersion")
            before = UNKNOWN if is_type_meta else old_member(old, name)
            verdict.add(_validate(properties[name], value[name], f"{path}.{name}", before))
    missing = (name for name in schema.get("required") or () if name not in value)
    verdict.errors += [required(_at(f"{path}.{name}")) for name in missing]
    return verdict


def _check_combinations(schema: Mapping[str, Any], value: JsonValue, path: str) -> ValueVerdict:
    verdict = ValueVerdict()
    if alternatives := schema.get("anyOf"):
        verdict.add(_check_any(alternatives, value, path))
    if alternatives := schema.get("oneOf"):
        verdict.add(_check_one(alternatives, value, path))
    if parts := schema.get("allOf"):
        verdict.add(_check_all(parts, value, path))
    forbidden = schema.get("not")
    if forbidden and not _judge(forbidden, value, path, UNKNOWN).errors:
        verdict.errors.append(_whole(path, "must not validate the schema (not)"))
    verdict.matches += 1
    return verdict


def _whole(path: str, text: str) -> FieldError:
    return invalid(_NO_PATH, "", f"{go_quote(_bare(path))} {text}")


def _check_any(schemas: list[Mapping[str, Any]], value: JsonValue, path: str) -> ValueVerdict:
    verdicts = []
    for schema in schemas:
        verdicts.append(_judge(schema, value, path, UNKNOWN))
        if not verdicts[-1].errors:
            return verdicts[-1]
    verdict = ValueVerdict([_whole(path, "must validate at least one schema (anyOf)")])
    verdict.add(_best(verdicts))
    return verdict


def _check_one(schemas: list[Mapping[str, Any]], value: JsonValue, path: str) -> ValueVerdict:
    verdicts = [_judge(schema, value, path, UNKNOWN) for schema in schemas]
    valid = [verdict for verdict in verdicts if not verdict.errors]
    if len(valid) == 1:
        return valid[0]
    found = f"Found {len(valid)} valid alternatives" if valid else "Found none valid"
    verdict = ValueVerdict(
        [_whole(path, f"must validate one and only one schema (oneOf). {found}")]
    )
    if not valid:
        verdict.add(_best(verdicts))
    return verdict


def _best(verdicts: list[ValueVerdict]) -> ValueVerdict:
    """Return the first of those failures of which most was in order."""
    return max(verdicts, key=lambda verdict: verdict.matches)


def _check_all(schemas: list[Mapping[str, Any]], value: JsonValue, path: str) -> ValueVerdict:
    verdict = ValueVerdict()
    valid = 0
    for schema in schemas:
        one = _judge(schema, value, path, UNKNOWN)
        valid += not one.errors
        verdict.add(one)
    if valid != len(schemas):
        none = "" if valid else ". None validated"
        verdict.errors.append(_whole(path, f"must validate all the schemas (allOf){none}"))
    return verdict
