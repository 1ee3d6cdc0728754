"""Formats of strings that the schemas of custom resources can ask for.

Formats that are not listed here are ignored, as kube-apiserver ignores those that it does not know.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from datetime import date
from email.utils import parseaddr
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from numakube.errors import InvalidValue
from numakube.values.times import canonical_time

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

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
