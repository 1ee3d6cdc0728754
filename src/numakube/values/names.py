"""Names that Kubernetes accepts, and what it says about those that it does not.

Each function returns the list of problems, empty if the name is good, with the API server's texts
(k8s.io/apimachinery/pkg/api/validate/content, 1.35). Lengths are counted in UTF-8 bytes.
"""

from __future__ import annotations

import re
from typing import Final

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_KEY: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_KEY})?"

_MAX_LABEL_BYTES: Final = 63
_MAX_SUBDOMAIN_BYTES: Final = 253

_LABEL_TEXT: Final = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character"
)
_SUBDOMAIN_TEXT: Final = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character"
)
_KEY_TEXT: Final = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
    "alphanumeric character"
)
_LABEL_VALUE_TEXT: Final = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character"
)
_KEY_EXAMPLES: Final = ("MyName", "my.name", "123-abc")


def dns_label_problems(name: str) -> list[str]:
    """Say why *name* is not a DNS label, the form of a namespace or container name."""
    problems = _too_long(name, _MAX_LABEL_BYTES)
    if not re.fullmatch(_LABEL, name):
        dotted = re.fullmatch(_SUBDOMAIN, name)
        problems.append(
            "must not contain dots"
            if dotted
            else _mismatch(_LABEL_TEXT, _LABEL, "my-name", "123-abc")
        )
    return problems


def dns_subdomain_problems(name: str) -> list[str]:
    """Say why *name* is not a DNS subdomain, the form of most object names."""
    problems = _too_long(name, _MAX_SUBDOMAIN_BYTES)
    if not re.fullmatch(_SUBDOMAIN, name):
        problems.append(_mismatch(_SUBDOMAIN_TEXT, _SUBDOMAIN, "example.com"))
    return problems


def qualified_name_problems(name: str) -> list[str]:
    """Say why *name* is not a qualified name, the form of label keys and resource names."""
    prefix, slash, local = name.rpartition("/")
    mismatch = _mismatch(_KEY_TEXT, _KEY, *_KEY_EXAMPLES)
    if "/" in prefix:
        return [
            f"a valid label key {mismatch} with an optional DNS subdomain prefix and '/' "
            "(e.g. 'example.com/MyName')"
        ]
    problems = []
    if slash and not prefix:
        problems.append("prefix part must be non-empty")
    elif slash:
        problems += [f"prefix part {problem}" for problem in dns_subdomain_problems(prefix)]
    if not local:
        problems.append("name part must be non-empty")
    problems += [f"name part {problem}" for problem in _too_long(local, _MAX_LABEL_BYTES)]
    if not re.fullmatch(_KEY, local):
        problems.append(f"name part {mismatch}")
    return problems


def label_value_problems(value: str) -> list[str]:
    """Say why *value* is not the value of a label."""
    problems = _too_long(value, _MAX_LABEL_BYTES)
    if not re.fullmatch(_LABEL_VALUE, value):
        problems.append(_mismatch(_LABEL_VALUE_TEXT, _LABEL_VALUE, "MyValue", "my_value", "12345"))
    return problems


def _too_long(name: str, limit: int) -> list[str]:
    return [f"must be no more than {limit} bytes"] if len(name.encode()) > limit else []


def _mismatch(text: str, pattern: str, *examples: str) -> str:
    shown = " or ".join(f"'{example}', " for example in examples)
    return f"{text} (e.g. {shown}regex used for validation is '{pattern}')"
