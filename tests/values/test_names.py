"""Which names are refused, and in which words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.values import names

_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    r"for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_NAME_PART = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end "
    "with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
    "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


@pytest.mark.parametrize("text", ["a", "a-b", "1.2.3", "example.com", "x" * 63])
def test_good_subdomains_pass(text: str) -> None:
    """Good subdomains pass."""
    assert names.dns_subdomain(text) == []


@pytest.mark.parametrize("text", ["", "A", "a_b", "-a", "a-", "a..b", ".a", "a\n"])
def test_bad_subdomains_are_refused_with_the_pattern(text: str) -> None:
    """Bad subdomains are refused with the pattern."""
    assert names.dns_subdomain(text) == [_SUBDOMAIN]


def test_a_label_with_dots_is_told_so() -> None:
    """The message says so of a label with dots."""
    assert names.dns_label("a.b") == ["must not contain dots"]


def test_length_is_reported_before_the_pattern() -> None:
    """Length is reported before the pattern."""
    assert names.dns_label("a" * 64) == ["must be no more than 63 characters"]
    assert len(names.dns_label("A" * 64)) == 2


def test_the_parts_of_a_qualified_name_are_told_apart() -> None:
    """The parts of a qualified name are told apart."""
    assert names.qualified_name("example.com/name") == []
    assert names.qualified_name("") == ["name part must be non-empty", _NAME_PART]
    assert names.qualified_name("/x") == ["prefix part must be non-empty"]
    assert names.qualified_name("Bad/x") == [f"prefix part {_SUBDOMAIN}"]
    assert names.qualified_name("a/b/c")[0].startswith("a valid label key must consist of")
    assert names.qualified_name("a" * 64) == ["name part must be no more than 63 bytes"]


def test_port_names_collect_every_fault() -> None:
    """Port names collect every fault."""
    assert names.port_name("http") == []
    assert names.port_name("-1--") == [
        "must contain at least one letter (a-z)",
        "must not contain consecutive hyphens",
        "must not begin or end with a hyphen",
    ]


def test_config_keys_may_not_leave_their_directory() -> None:
    """Config keys may not leave their directory."""
    assert names.config_key("..x") == ["must not start with '..'"]
    assert names.config_key("..") == ["must not be '..'"]
    assert names.config_key("key.name") == []


def test_names_must_be_one_path_segment() -> None:
    """Names must be one path segment."""
    assert names.path_segment("system:admin") == []
    assert names.path_segment("a/b%") == ["may not contain '/'", "may not contain '%'"]
    assert names.path_segment("..") == ["may not be '..'"]


@given(st.text(max_size=70))
def test_a_label_is_a_label_value_and_a_qualified_name(text: str) -> None:
    """A label is a label value and a qualified name."""
    if not names.dns_label(text):
        assert not names.label_value(text)
        assert not names.qualified_name(text)
        assert not names.dns_subdomain(text)


@given(st.text(max_size=70))
def test_whatever_ends_in_a_dash_can_be_a_prefix_if_its_head_is_a_name(text: str) -> None:
    """Whatever ends in a dash can be a prefix if its head is a name."""
    if not names.dns_subdomain(text) and len(text) < 250:
        assert not names.dns_subdomain(names.generated_prefix(f"{text}-"))
