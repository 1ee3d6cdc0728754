"""Text as Go writes it."""

import pytest

from numakube.errors import InvalidValue
from numakube.values.gotext import (
    go_json,
    go_number,
    go_quote,
    go_quote_list,
    go_text,
    parse_integer,
    sorted_by_text,
)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("none", '"none"'),
        ('a"b\\', r'"a\"b\\"'),
        ("\n\t\x01\x7f", r'"\n\t\x01\x7f"'),
        ("é\u200b", '"é\\u200b"'),
        ("\U000e0001", '"\\U000e0001"'),
    ],
)
def test_quoting(text: str, quoted: str) -> None:
    """As ``%q``."""
    assert go_quote(text) == quoted


def test_quoting_a_list() -> None:
    """As ``%q`` of a slice."""
    assert go_quote_list(("container", "pod")) == '["container" "pod"]'


def test_integers_are_read_as_atoi_does() -> None:
    """A sign is allowed, anything else is not, and the reason is Go's."""
    assert [parse_integer(text) for text in ("7", "+7", "-7", "007")] == [7, 7, -7, 7]
    for text, problem in (("x", "invalid syntax"), ("9" * 19, "value out of range")):
        with pytest.raises(InvalidValue) as refused:
            parse_integer(text)
        assert refused.value.reason == f'strconv.Atoi: parsing "{text}": {problem}'


def test_json_is_compact_and_escaped_for_html() -> None:
    """As Go's encoder does by default; the keys of a map are sorted."""
    assert go_json({"b": 1, "a": 2}) == '{"a":2,"b":1}'
    assert (
        go_json({"a": ["<&>", "é", "\u2028"]}, struct=True)
        == r'{"a":["\u003c\u0026\u003e","é","\u2028"]}'
    )


def test_maps_of_numbers_are_sorted_as_text() -> None:
    """Ten comes before two."""
    assert list(sorted_by_text({2: "a", 10: "b", -1: "c"})) == ["-1", "10", "2"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.5, "1.5"),
        (1e300, "1e+300"),
        (1.5e-7, "1.5e-07"),
        (3, "3"),
        (1e20, "100000000000000000000"),
    ],
)
def test_numbers_are_printed_as_go_does(value: float, text: str) -> None:
    """Whole numbers have no fraction and exponents two digits."""
    assert go_number(value) == text


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("a", '"a"'),
        ('a"b', '"a\\"b"'),
        ("a\nb", '"a\\nb"'),
        ("a\x01", '"a\\x01"'),
        ("é", '"é"'),
        ("\u200b", '"\\u200b"'),
    ],
)
def test_strings_are_quoted_as_go_does(text: str, quoted: str) -> None:
    """Printable characters stay; the others are escaped."""
    assert go_quote(text) == quoted


def test_values_are_printed_as_percent_v_does() -> None:
    """Maps are sorted, and nothing is quoted."""
    tree = {"name": "a", "image": "x:1", "ports": [1, 2.5], "on": True, "none": None}
    assert go_text(tree) == "map[image:x:1 name:a none:<nil> on:true ports:[1 2.5]]"
