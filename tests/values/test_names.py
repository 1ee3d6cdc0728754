"""Names: what Kubernetes accepts, and its words when it does not."""

import pytest

from numakube.values.names import (
    dns_label_problems,
    dns_subdomain_problems,
    label_value_problems,
    qualified_name_problems,
)


@pytest.mark.parametrize("name", ["a", "my-name", "123-abc", "a" * 63])
def test_dns_labels_are_accepted(name: str) -> None:
    """Lower case, digits and dashes inside."""
    assert dns_label_problems(name) == []


def test_refused_dns_labels_are_explained() -> None:
    """Dots get a message of their own."""
    assert dns_label_problems("a.b") == ["must not contain dots"]
    assert dns_label_problems("a" * 64) == ["must be no more than 63 bytes"]
    assert dns_label_problems("A") == [
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and "
        "must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex "
        "used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
    ]


def test_dns_subdomains_may_have_dots() -> None:
    """The form of most object names."""
    assert dns_subdomain_problems("node-1.example.com") == []
    assert dns_subdomain_problems("a..b") == [
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
        "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex "
        r"used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
    ]
    assert "must be no more than 253 bytes" in dns_subdomain_problems("a" * 254)


@pytest.mark.parametrize("name", ["cpu", "example.com/GPU_1.x", "a/b"])
def test_qualified_names_are_accepted(name: str) -> None:
    """An optional domain, a slash, a name."""
    assert qualified_name_problems(name) == []


def test_refused_qualified_names_are_explained() -> None:
    """Both parts are checked, and all problems told."""
    pattern = (
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an "
        "alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for "
        "validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
    )

    assert qualified_name_problems("/gpu") == ["prefix part must be non-empty"]
    assert qualified_name_problems("a/") == ["name part must be non-empty", f"name part {pattern}"]
    assert qualified_name_problems("a/b/c") == [
        f"a valid label key {pattern} with an optional DNS subdomain prefix and '/' "
        "(e.g. 'example.com/MyName')"
    ]
    assert qualified_name_problems("x" * 64) == ["name part must be no more than 63 bytes"]
    assert qualified_name_problems("A/b")[0].startswith("prefix part a lowercase RFC 1123")


def test_label_values_may_be_empty() -> None:
    """And are limited to 63 bytes."""
    assert label_value_problems("") == []
    assert label_value_problems("my_value") == []
    assert label_value_problems("é" * 32)[0] == "must be no more than 63 bytes"
    assert label_value_problems("-")[0].endswith(
        "is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
    )
