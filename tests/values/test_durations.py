"""Durations in Go's notation."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import InvalidValue
from numakube.values.gotext import INT64_MAX
from numakube.values.times import HOUR, MINUTE, SECOND, format_duration, parse_duration


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("10s", 10 * SECOND),
        ("1h2m3.5s", HOUR + 2 * MINUTE + 3_500_000_000),
        ("-1.5h", -3 * HOUR // 2),
        (".5s", SECOND // 2),
        ("1.s", SECOND),
        ("+300ms", 300_000_000),
        ("5us", 5_000),
        ("5\u00b5s", 5_000),
        ("0.3333333333333333333h", 1_199_999_999_999),
    ],
)
def test_durations_are_read(text: str, nanoseconds: int) -> None:
    """Every unit, fractions and signs."""
    assert parse_duration(text) == nanoseconds


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        ("s", 'time: invalid duration "s"'),
        (".s", 'time: invalid duration ".s"'),
        ("10", 'time: missing unit in duration "10"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1 s", 'time: unknown unit " s" in duration "1 s"'),
        ("9223372036854775808ns", 'time: invalid duration "9223372036854775808ns"'),
    ],
)
def test_others_are_refused_in_gos_words(text: str, problem: str) -> None:
    """Go has no days."""
    with pytest.raises(InvalidValue) as refused:
        parse_duration(text)

    assert refused.value.reason == problem


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1_100, "1.1\u00b5s"),
        (2_200_000, "2.2ms"),
        (3_300_000_000, "3.3s"),
        (4 * MINUTE + 5 * SECOND, "4m5s"),
        (5 * HOUR + 6_001_000_000, "5h0m6.001s"),
        (-MINUTE, "-1m0s"),
    ],
)
def test_durations_are_written_as_go_does(nanoseconds: int, text: str) -> None:
    """No leading zero units, no trailing zero digits."""
    assert format_duration(nanoseconds) == text


@given(st.integers(-INT64_MAX, INT64_MAX))
def test_writing_and_reading_are_inverse(nanoseconds: int) -> None:
    """For every duration that Go can hold."""
    assert parse_duration(format_duration(nanoseconds)) == nanoseconds
