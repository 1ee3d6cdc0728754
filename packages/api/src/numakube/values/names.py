"""Which names, labels, keys and ports Kubernetes accepts, and how it words a refusal.

Every check takes a text and returns what is wrong with it, an empty list if nothing is. The
sentences are those of kube-apiserver 1.35 (apimachinery's ``util/validation`` and
``api/validate/content``): clients and people match on them, so they are facts, not style. Lengths
are counted in bytes of UTF-8.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, TypeAlias

TextCheck: TypeAlias = Callable[[str], list[str]]
"""Tells what is wrong with a text."""

MAX_LABEL: Final = 63
MAX_SUBDOMAIN: Final = 253
NOT_NEGATIVE: Final = "must be greater than or equal to 0"
NOT_POSITIVE: Final = "must be greater than zero"
IMMUTABLE: Final = "field is immutable"

_DNS_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN: Final = _DNS_LABEL + r"(\." + _DNS_LABEL + ")*"
_DNS_LABEL_UNDERSCORE: Final = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_DNS_SUBDOMAIN_UNDERSCORE: Final = _DNS_LABEL_UNDERSCORE + r"(\." + _DNS_LABEL_UNDERSCORE + ")*"
_DNS_1035_LABEL: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_WILDCARD_SUBDOMAIN: Final = r"\*\." + _DNS_SUBDOMAIN
_LABEL_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_LABEL_NAME})?"
_CONFIG_KEY: Final = "[-._a-zA-Z0-9]+"
_C_IDENTIFIER: Final = "[A-Za-z_][A-Za-z0-9_]*"
_PERCENT: Final = "[0-9]+%"
_HTTP_HEADER: Final = "[-A-Za-z0-9]+"
_HTTP_PATH: Final = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+"

_match_dns_label: Final = re.compile(_DNS_LABEL).fullmatch
_match_dns_subdomain: Final = re.compile(_DNS_SUBDOMAIN).fullmatch
_match_dns_subdomain_underscore: Final = re.compile(_DNS_SUBDOMAIN_UNDERSCORE).fullmatch
_match_dns_1035_label: Final = re.compile(_DNS_1035_LABEL).fullmatch
_match_wildcard: Final = re.compile(_WILDCARD_SUBDOMAIN).fullmatch
_match_label_name: Final = re.compile(_LABEL_NAME).fullmatch
_match_label_value: Final = re.compile(_LABEL_VALUE).fullmatch
_match_config_key: Final = re.compile(_CONFIG_KEY).fullmatch
_match_c_identifier: Final = re.compile(_C_IDENTIFIER).fullmatch
_match_percent: Final = re.compile(_PERCENT).fullmatch
_match_http_header: Final = re.compile(_HTTP_HEADER).fullmatch
_match_http_path: Final = re.compile(_HTTP_PATH).fullmatch
_match_port_charset: Final = re.compile("[-a-z0-9]+").fullmatch

_ALPHANUMERIC_ENDS: Final = "and must start and end with an alphanumeric character"
_LABEL_CHARACTERS: Final = (
    f"must consist of alphanumeric characters, '-', '_' or '.', {_ALPHANUMERIC_ENDS}"
)


def regex_message(message: str, pattern: str, *examples: str) -> str:
    """Return *message* followed by examples and the pattern that was not matched."""
    if not examples:
        return f"{message} (regex used for validation is '{pattern}')"
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{message} (e.g. {shown}regex used for validation is '{pattern}')"


_LABEL_NAME_MESSAGE: Final = regex_message(
    _LABEL_CHARACTERS, _LABEL_NAME, "MyName", "my.name", "123-abc"
)


def range_message(low: int, high: int) -> str:
    """Return the refusal of a number outside *low* to *high*."""
    return f"must be between {low} and {high}, inclusive"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _too_long(text: str, maximum: int, unit: str = "characters") -> list[str]:
    return [f"must be no more than {maximum} {unit}"] if _size(text) > maximum else []


def dns_label(text: str) -> list[str]:
    """Check an RFC 1123 label: ``my-name``."""
    wrong = _too_long(text, MAX_LABEL)
    if _match_dns_label(text):
        return wrong
    if _match_dns_subdomain(text):
        return [*wrong, "must not contain dots"]
    message = (
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
        + _ALPHANUMERIC_ENDS
    )
    return [*wrong, regex_message(message, _DNS_LABEL, "my-name", "123-abc")]


def dns_subdomain(text: str) -> list[str]:
    """Check an RFC 1123 subdomain: ``example.com``."""
    return _subdomain(text, "characters")


def _subdomain(text: str, unit: str) -> list[str]:
    wrong = _too_long(text, MAX_SUBDOMAIN, unit)
    if _match_dns_subdomain(text):
        return wrong
    message = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'-' or '.', " + _ALPHANUMERIC_ENDS
    )
    return [*wrong, regex_message(message, _DNS_SUBDOMAIN, "example.com")]


def dns_subdomain_with_underscore(text: str) -> list[str]:
    """Check a DNS search path, which may have underscores."""
    wrong = _too_long(text, MAX_SUBDOMAIN)
    if _match_dns_subdomain_underscore(text):
        return wrong
    message = (
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
        "'_', '-' or '.', " + _ALPHANUMERIC_ENDS
    )
    return [*wrong, regex_message(message, _DNS_SUBDOMAIN_UNDERSCORE, "example.com")]


def dns_1035_label(text: str) -> list[str]:
    """Check a label that also starts with a letter, as the name of a Service must."""
    wrong = _too_long(text, MAX_LABEL)
    if _match_dns_1035_label(text):
        return wrong
    message = (
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
        "start with an alphabetic character, and end with an alphanumeric character"
    )
    return [*wrong, regex_message(message, _DNS_1035_LABEL, "my-name", "abc-123")]


def wildcard_subdomain(text: str) -> list[str]:
    """Check ``*.example.com``."""
    wrong = _too_long(text, MAX_SUBDOMAIN)
    if _match_wildcard(text):
        return wrong
    message = (
        "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, "
        "which must consist of lower case alphanumeric characters, '-' or '.' and end with an "
        "alphanumeric character"
    )
    return [*wrong, regex_message(message, _WILDCARD_SUBDOMAIN, "*.example.com")]


def qualified_name(text: str) -> list[str]:
    """Check a label key: a name with an optional DNS prefix, ``example.com/name``."""
    prefix, slash, name = text.rpartition("/")
    if "/" in prefix:
        tail = " with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_LABEL_NAME_MESSAGE}{tail}"]
    wrong = []
    if slash:
        problems = _subdomain(prefix, "bytes") if prefix else ["must be non-empty"]
        wrong = [f"prefix part {problem}" for problem in problems]
    if not name:
        wrong.append("name part must be non-empty")
    wrong += [f"name part {problem}" for problem in _too_long(name, MAX_LABEL, "bytes")]
    if not _match_label_name(name):
        wrong.append(f"name part {_LABEL_NAME_MESSAGE}")
    return wrong


def label_value(text: str) -> list[str]:
    """Check the value of a label."""
    wrong = _too_long(text, MAX_LABEL, "bytes")
    if _match_label_value(text):
        return wrong
    message = (
        "a valid label must be an empty string or consist of alphanumeric characters, "
        f"'-', '_' or '.', {_ALPHANUMERIC_ENDS}"
    )
    return [*wrong, regex_message(message, _LABEL_VALUE, "MyValue", "my_value", "12345")]


def config_key(text: str) -> list[str]:
    """Check a key of a ConfigMap or Secret, which may become a file name."""
    wrong = _too_long(text, MAX_SUBDOMAIN)
    if not _match_config_key(text):
        message = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"
        wrong.append(regex_message(message, _CONFIG_KEY, "key.name", "KEY_NAME", "key-name"))
    return wrong + _directory_change(text)


def _directory_change(text: str) -> list[str]:
    if text in {".", ".."}:
        return [f"must not be '{text}'"]
    return ["must not start with '..'"] if text.startswith("..") else []


def env_var_name(text: str) -> list[str]:
    """Check the name of an environment variable."""
    if not text:
        return ["environment variable name must be non-empty"]
    if text.isascii() and text.isprintable() and "=" not in text:
        return []
    return [
        "a valid environment variable name must consist only of printable ASCII characters "
        "other than '='"
    ]


def c_identifier(text: str) -> list[str]:
    """Check a C identifier."""
    if _match_c_identifier(text):
        return []
    message = (
        "a valid C identifier must start with alphabetic character or '_', followed by a string "
        "of alphanumeric characters or '_'"
    )
    return [regex_message(message, _C_IDENTIFIER, "my_name", "MY_NAME", "MyName")]


def port_name(text: str) -> list[str]:
    """Check an IANA service name."""
    wrong = _too_long(text, 15)
    if not _match_port_charset(text):
        wrong.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not any("a" <= character <= "z" for character in text):
        wrong.append("must contain at least one letter (a-z)")
    if "--" in text:
        wrong.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        wrong.append("must not begin or end with a hyphen")
    return wrong


def port_number(number: int) -> list[str]:
    """Check a TCP or UDP port number."""
    return [] if 1 <= number <= 65535 else [range_message(1, 65535)]


def user_or_group_id(number: int) -> list[str]:
    """Check a Linux user or group id."""
    return [] if 0 <= number < 2**31 else [range_message(0, 2**31 - 1)]


def percent(text: str) -> list[str]:
    """Check a percentage: ``30%``."""
    if _match_percent(text):
        return []
    message = "a valid percent string must be a numeric string followed by an ending '%'"
    return [regex_message(message, _PERCENT, "1%", "93%")]


def http_header_name(text: str) -> list[str]:
    """Check the name of an HTTP header."""
    if _match_http_header(text):
        return []
    message = "a valid HTTP header must consist of alphanumeric characters or '-'"
    return [regex_message(message, _HTTP_HEADER, "X-Header-Name")]


def http_path(text: str) -> list[str]:
    """Check the path part of a domain-prefixed path."""
    return [] if _match_http_path(text) else [regex_message("Invalid path", _HTTP_PATH)]


def path_segment(text: str) -> list[str]:
    """Check that a name can be one segment of a URL path."""
    if text in {".", ".."}:
        return [f"may not be '{text}'"]
    return [f"may not contain '{mark}'" for mark in ("/", "%") if mark in text]


def generated_prefix(text: str) -> str:
    """Return a name that stands for those that ``generateName`` *text* may give.

    A prefix may end in a dash although a name may not.
    """
    return text[:-2] + "a" if len(text) > 1 and text.endswith("-") else text
