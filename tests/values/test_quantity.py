"""Quantities: the grammar, the canonical form, and Go's integers."""

import gzip
import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import InvalidValue
from numakube.values.gotext import INT64_MAX, INT64_MIN
from numakube.values.quantity import Format, Quantity, milli_value, parse_quantity, value

VECTORS = Path(__file__).parents[1] / "vectors" / "values.jsonl.gz"


def recorded() -> list[dict[str, Any]]:
    """Return the recorded rows about quantities."""
    with gzip.open(VECTORS, "rt", encoding="utf-8") as lines:
        return [row for row in map(json.loads, lines) if row["kind"] == "quantity"]


def test_every_recorded_quantity_is_answered_as_kubernetes_does() -> None:
    """Canonical form, Value(), MilliValue() and refusals of all recorded rows are reproduced."""
    answers = []
    rows = recorded()
    for row in rows:
        answer: dict[str, Any] = {"kind": "quantity", "s": row["s"]}
        try:
            parsed = parse_quantity(row["s"])
        except InvalidValue:
            answer["error"] = True
        else:
            answer |= {
                "canonical": str(parsed),
                "value": parsed.value(),
                "milli": parsed.milli_value(),
            }
        answers.append(answer)

    assert len(rows) == 985
    assert answers == rows


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("1.500", "1500m"),
        ("+1", "1"),
        ("1E3", "1e3"),
        ("1000Mi", "1000Mi"),
        ("1023Ki", "1023Ki"),
        ("0.5Ki", "512"),
        ("1e4294967299", "1e3"),  # the exponent keeps its low 32 bits
        ("1000E", "1"),  # there is no suffix for 10**21, and Kubernetes prints none
        ("1e-2000000000", "1e-9"),
        ("1e2000000000", "100e1999999998"),
    ],
)
def test_canonical_form(text: str, canonical: str) -> None:
    """The exponent is as large as possible without a fraction, and a multiple of three."""
    assert str(parse_quantity(text)) == canonical


@pytest.mark.parametrize("text", ["Ei", ".Pi", "-Ei", "1e9223372036854775808", "1-5", "1e 3"])
def test_malformed_texts_are_refused(text: str) -> None:
    """Even where a smaller suffix would be read as zero."""
    with pytest.raises(InvalidValue, match="quantity"):
        parse_quantity(text)


@pytest.mark.parametrize("text", ["9" * 3000, "12345678901234567890e5000"])
def test_numbers_too_long_to_hold_are_refused_at_once(text: str) -> None:
    """A hostile quantity costs neither memory nor time."""
    with pytest.raises(InvalidValue, match="2000"):
        parse_quantity(text)


@pytest.mark.parametrize(
    ("number", "canonical"),
    [(4, "4"), (-2, "-2"), (0.5, "500m"), (1.0, "1"), (1e16, "10P"), (1e-7, "100e-9"), (0.0, "0")],
)
def test_yaml_numbers_are_quantities(number: float, canonical: str) -> None:
    """Integers and floats are read as JSON would write them."""
    assert str(parse_quantity(number)) == canonical


@pytest.mark.parametrize("number", [True, False, float("nan"), float("inf")])
def test_truth_values_and_infinities_are_not_quantities(number: float) -> None:
    """``cpu: true`` is a mistake, not one CPU."""
    with pytest.raises(InvalidValue):
        parse_quantity(number)
    with pytest.raises(InvalidValue):
        value(number)


def test_constructors_write_the_canonical_form() -> None:
    """Integers become bytes, counts or thousandths."""
    assert str(Quantity.of_bytes(3 << 29)) == "1536Mi"
    assert str(Quantity.of_bytes(1025)) == "1025"
    assert str(Quantity.of_count(10_000)) == "10k"
    assert str(Quantity.of_milli(250)) == "250m"
    assert str(Quantity.of_milli(2000)) == "2"


def test_equality_and_hash_are_by_number() -> None:
    """The way of writing does not matter, nor does the internal form."""
    assert parse_quantity("1024Mi") == parse_quantity("1Gi") == Quantity.of_count(1 << 30)
    assert len({parse_quantity(text) for text in ("1", "1000m", "1e0", "1.0000000000000000")}) == 1
    assert parse_quantity("1") != 1


def test_far_apart_exponents_compare_without_expanding() -> None:
    """Comparing is cheap whatever the exponent."""
    assert parse_quantity("1e2000000000") > parse_quantity("9")
    assert parse_quantity("-1e2000000000") < parse_quantity("-9")


def test_module_shortcuts_round_up() -> None:
    """They are what hot paths use."""
    assert value("100m") == 1
    assert milli_value("1.0001") == 1001
    assert milli_value(2) == 2000


def test_sum_takes_the_format_of_the_first_that_is_not_zero() -> None:
    """As the kubelet does when it adds up containers."""
    total = parse_quantity("0") + parse_quantity("1Gi") + parse_quantity("512000Ki")

    assert total.format is Format.BINARY_SI
    assert str(total) == "1524Mi"


amounts = st.builds(
    lambda sign, whole, fraction, suffix: f"{sign}{whole}{fraction}{suffix}",
    st.sampled_from(["", "-", "+"]),
    st.integers(0, 10**20),
    st.sampled_from(["", ".", ".5", ".25", ".123456789", ".0000000001"]),
    st.sampled_from(["", "n", "u", "m", "k", "M", "G", "Ki", "Mi", "Gi", "Ti", "e3", "E-3", "e+6"]),
).map(parse_quantity)


def exact(quantity: Quantity) -> Fraction:
    """Return the number as a fraction."""
    return quantity.unscaled * Fraction(10) ** quantity.exponent


def has_suffix(quantity: Quantity) -> bool:
    """Tell whether a suffix exists for the quantity: Kubernetes prints none above 10**21."""
    return quantity.format is Format.DECIMAL_EXPONENT or abs(exact(quantity)) < 10**21


@given(amounts.filter(has_suffix))
def test_canonical_form_reads_back_as_the_same_number(quantity: Quantity) -> None:
    """Printing loses nothing, and printing again changes nothing.

    Except that a binary amount without a binary suffix (312.5Ki is 320000) reads back as a decimal
    one (320k), in Kubernetes too.
    """
    again = parse_quantity(str(quantity))

    assert again == quantity
    assert str(again) == str(quantity) or again.format is not quantity.format


@given(amounts, amounts)
def test_arithmetic_and_order_are_exact(one: Quantity, other: Quantity) -> None:
    """Sums, differences and comparisons are those of the decimal numbers."""
    assert exact(one + other) == exact(one) + exact(other)
    assert exact(one - other) == exact(one) - exact(other)
    assert (one < other, one <= other, one == other) == (
        exact(one) < exact(other),
        exact(one) <= exact(other),
        exact(one) == exact(other),
    )
    assert (one > other, one >= other) == (exact(one) > exact(other), exact(one) >= exact(other))


@given(st.integers(-INT64_MAX, INT64_MAX))
def test_integers_within_int64_come_back_unchanged(number: int) -> None:
    """Bytes and counts survive the way through text."""
    for quantity in (Quantity.of_bytes(number), Quantity.of_count(number)):
        assert quantity.value() == number
        assert parse_quantity(str(quantity)) == quantity


@given(amounts)
def test_value_and_milli_value_are_int64(quantity: Quantity) -> None:
    """Overflow wraps, it never grows."""
    assert INT64_MIN <= quantity.value() <= INT64_MAX
    assert INT64_MIN <= quantity.milli_value() <= INT64_MAX
