"""Reading JSON: the words for what is wrong with it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_lab_server.schema.jsontext import MalformedJson, RepeatedKeys, parse_json


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "unexpected end of JSON input"),
        ('{"apiVersion": "v1", ', "unexpected end of JSON input"),
        ("tru", "unexpected end of JSON input"),
        ('{"a":1} trailing', "invalid character 't' after top-level value"),
        ("{b", "invalid character 'b' looking for beginning of object key string"),
        ("[1 2]", "invalid character '2' after array element"),
        ('{"a" 1}', "invalid character '1' after object key"),
        ('{"a":1 "b"}', "invalid character '\"' after object key:value pair"),
        ("nulx", "invalid character 'x' in literal null (expecting 'l')"),
        ("01", "invalid character '1' after top-level value"),
        ("-x", "invalid character 'x' in numeric literal"),
        ("1.x", "invalid character 'x' after decimal point in numeric literal"),
        ("1e+x", "invalid character 'x' in exponent of numeric literal"),
        ('"\\x"', "invalid character 'x' in string escape code"),
        ('"\\u00g0"', "invalid character 'g' in \\u hexadecimal character escape"),
        ('"a\x01"', "invalid character '\\x01' in string literal"),
        ("'a'", "invalid character '\\'' looking for beginning of value"),
        ('{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        ("[1,]", "invalid character ']' looking for beginning of value"),
    ],
)
def test_a_mistake_is_named_as_go_names_it(text: str, message: str) -> None:
    """Clients show this sentence."""
    with pytest.raises(MalformedJson) as error:
        parse_json(text)
    assert str(error.value) == message


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('ab"\\\n', max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner),
    max_leaves=6,
)


@given(_JSON, st.integers(1, 60))
def test_a_text_that_is_cut_off_is_refused(value: object, cut: int) -> None:
    """Whatever was cut off, there is always a sentence for it."""
    text = json.dumps([value])
    assert parse_json(text) == [value]
    with pytest.raises(MalformedJson):
        parse_json(text[: -min(cut, len(text))])


def test_repeated_keys_are_remembered_in_order() -> None:
    """The last value counts."""
    parsed = parse_json('{"a": 1, "b": 2, "a": 3}')
    assert isinstance(parsed, RepeatedKeys)
    assert parsed == {"a": 3, "b": 2}
    assert parsed.pairs == [("a", 1), ("b", 2), ("a", 3)]
