"""Bodies in YAML."""

from __future__ import annotations

import pytest

from kube_lab_server.wire.negotiation import MalformedYaml, read_yaml


def test_yaml_is_read_as_json() -> None:
    """Keys are text, times stay text, and the short booleans of YAML 1.1 are booleans."""
    text = b"b: 2020-01-01\na: {1: x, true: z}\nc: [y, N, 'y', yes]\n"

    assert read_yaml(text).value == {
        "a": {"1": "x", "true": "z"},
        "b": "2020-01-01",
        "c": [True, False, "y", True],
    }


def test_repeated_keys_are_told_with_their_lines() -> None:
    """The last value counts."""
    document = read_yaml(b"a: 1\nb:\n  c: 1\n  c: 2\na: 3\n")

    assert document.value == {"a": 3, "b": {"c": 2}}
    assert set(document.repeated) == {
        'line 4: key "c" already set in map',
        'line 5: key "a" already set in map',
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"a: b: c\n", "yaml: mapping values are not allowed in this context"),
        (b"a: 1\nb: c: d\n", "yaml: line 2: mapping values are not allowed in this context"),
        (b"a: [1\n", "yaml: line 1: did not find expected ',' or ']'"),
    ],
)
def test_mistakes_are_worded_as_the_real_server_words_them(text: bytes, message: str) -> None:
    """Lines are counted its way, too."""
    with pytest.raises(MalformedYaml) as refused:
        read_yaml(text)
    assert str(refused.value) == message
