"""Formats with a name (``format.dns1123Label().validate(x)``), as Kubernetes' CEL library has."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Final

from numakube.cel.kubernetes_types import is_url
from numakube.cel.values import NONE, Optional, register_type
from numakube.errors import InvalidValue
from numakube.values import names
from numakube.values.gotext import go_quote
from numakube.values.times import parse_time

if TYPE_CHECKING:
    from collections.abc import Callable

_UUID: Final = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format, and the length of the regular expression that its check is reckoned to cost."""

    name: str
    check: Callable[[str], list[str]]
    pattern_size: int


register_type(NamedFormat, "kubernetes.NamedFormat")


def _prefix(check: Callable[[str], list[str]]) -> Callable[[str], list[str]]:
    """Return the check of names that get something behind them: a dash at the end is right."""
    return lambda text: check(f"{text[:-1]}a" if text.endswith("-") else text)


def _uri(text: str) -> list[str]:
    return [] if is_url(text) else [f"parse {go_quote(text)}: invalid URI for request"]


def _uuid(text: str) -> list[str]:
    return [] if _UUID.fullmatch(text) else ["does not match the UUID format"]


def _byte(text: str) -> list[str]:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ["invalid base64"]
    return [] if text else ["invalid base64"]


def _date(text: str) -> list[str]:
    try:
        date.fromisoformat(text)
    except ValueError:
        return ["invalid date"]
    return [] if re.fullmatch(r"\d{4}-\d\d-\d\d", text) else ["invalid date"]


def _datetime(text: str) -> list[str]:
    try:
        parse_time(text.upper())
    except InvalidValue:
        return ["invalid datetime"]
    return []


_ALL: Final = (
    ("dns1123Label", "DNS1123Label", names.dns_label, 30),
    ("dns1123Subdomain", "DNS1123Subdomain", names.dns_subdomain, 60),
    ("dns1035Label", "DNS1035Label", names.dns_1035_label, 30),
    ("qualifiedName", "QualifiedName", names.qualified_name, 60),
    ("dns1123LabelPrefix", "DNS1123LabelPrefix", _prefix(names.dns_label), 30),
    ("dns1123SubdomainPrefix", "DNS1123SubdomainPrefix", _prefix(names.dns_subdomain), 60),
    ("dns1035LabelPrefix", "DNS1035LabelPrefix", _prefix(names.dns_1035_label), 30),
    ("labelValue", "LabelValue", names.label_value, 40),
    ("uri", "URI", _uri, 1103),
    ("uuid", "uuid", _uuid, 70),
    ("byte", "byte", _byte, 84),
    ("date", "date", _date, 71),
    ("datetime", "datetime", _datetime, 71),
)
NAMED_FORMATS: Final = {key: NamedFormat(name, check, size) for key, name, check, size in _ALL}


def named(name: str) -> Optional:
    """``format.named(name)``."""
    found = NAMED_FORMATS.get(name)
    return NONE if found is None else Optional(True, found)


def validate(form: NamedFormat, text: str) -> Optional:
    """Return what is wrong with *text*; nothing if it is right."""
    problems = form.check(text)
    return Optional(True, problems) if problems else NONE
