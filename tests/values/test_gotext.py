"""Text as Go writes it."""

import pytest

from numakube.errors import InvalidValue
from numakube.values.gotext import parse_integer, quote, quote_list, sorted_by_text, to_json


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
    assert quote(text) == quoted


def test_quoting_a_list() -> None:
    """As ``%q`` of a slice."""
    assert quote_list(("container", "pod")) == '["container" "pod"]'


def test_integers_are_read_as_atoi_does() -> None:
    """A sign is allowed, anything else is not, and the reason is Go's."""
    assert [parse_integer(text) for text in ("7", "+7", "-7", "007")] == [7, 7, -7, 7]
    for text, problem in (("x", "invalid syntax"), ("9" * 19, "value out of range")):
        with pytest.raises(InvalidValue) as refused:
            parse_integer(text)
        assert refused.value.reason == f'strconv.Atoi: parsing "{text}": {problem}'


def test_json_is_compact_and_escaped_for_html() -> None:
    """As Go's encoder does by default."""
    assert to_json({"a": ["<&>", "é", "\u2028"]}) == r'{"a":["\u003c\u0026\u003e","é","\u2028"]}'


def test_maps_of_numbers_are_sorted_as_text() -> None:
    """Ten comes before two."""
    assert list(sorted_by_text({2: "a", 10: "b", -1: "c"})) == ["-1", "10", "2"]
