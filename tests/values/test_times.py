"""Times as the API writes them, and durations in Go's notation."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from numakube.errors import InvalidValue
from numakube.values.gotext import INT64_MAX
from numakube.values.times import (
    HOUR,
    MINUTE,
    SECOND,
    canonical_micro_time,
    canonical_time,
    format_duration,
    format_micro_time,
    format_time,
    parse_duration,
    parse_time,
)

MOMENT = datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=UTC)


def test_times_are_written_in_utc() -> None:
    """With whole seconds, or with six digits more."""
    there = MOMENT.astimezone(timezone(timedelta(hours=2)))

    assert format_time(there) == "2026-01-02T03:04:05Z"
    assert format_micro_time(there) == "2026-01-02T03:04:05.000060Z"


@pytest.mark.parametrize(
    "text",
    ["2026-01-02T03:04:05.00006Z", "2026-01-02T05:04:05.000060999+02:00"],
)
def test_times_are_read(text: str) -> None:
    """With any offset and any number of digits."""
    assert parse_time(text) == MOMENT


@pytest.mark.parametrize(
    "text",
    ["", "2026-01-02", "2026-01-02 03:04:05Z", "2026-13-02T03:04:05Z", "2026-01-02T03:04:05"],
)
def test_others_are_refused(text: str) -> None:
    """A time without an offset names no moment."""
    with pytest.raises(InvalidValue, match="time"):
        parse_time(text)


def test_a_moment_without_time_zone_is_not_written() -> None:
    """It would be a guess."""
    with pytest.raises(InvalidValue, match="no time zone"):
        format_time(datetime(2026, 1, 2))


@given(st.datetimes(min_value=datetime(1000, 1, 1), timezones=st.just(UTC)))
def test_micro_times_survive(moment: datetime) -> None:
    """Nothing is lost."""
    assert parse_time(format_micro_time(moment)) == moment


def test_times_of_other_zones_are_rewritten() -> None:
    """Fractions are cut, or padded to microseconds."""
    assert canonical_time("2024-05-01T10:00:00.999+02:00") == "2024-05-01T08:00:00Z"
    micro = canonical_micro_time("2024-05-01T10:00:00.123456-01:30")
    assert micro == "2024-05-01T11:30:00.123456Z"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x", 'as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
        ("2024/05", 'as "2006-01-02T15:04:05Z07:00": cannot parse "/05" as "-"'),
        ("2024-05-01", 'as "2006-01-02T15:04:05Z07:00": cannot parse "" as "T"'),
        ("2024-05-01T10:00:00", 'as "2006-01-02T15:04:05Z07:00": cannot parse "" as "Z07:00"'),
        ("2024-13-01T10:00:00Z", ": month out of range"),
        ("2024-02-30T10:00:00Z", ": day out of range"),
        ("2024-02-20T25:00:00Z", ": hour out of range"),
        ("2024-02-20T10:00:00Zabc", ': extra text: "abc"'),
    ],
)
def test_a_text_that_is_no_time_is_refused(text: str, message: str) -> None:
    """With what is left of it and what was expected there."""
    with pytest.raises(InvalidValue) as error:
        canonical_time(text)
    expected = (
        f'parsing time "{text}" {message}'
        if message[0] != ":"
        else f'parsing time "{text}"{message}'
    )
    assert str(error.value) == expected


@pytest.mark.parametrize(
    ("text", "rest", "part"),
    [
        ("2024-05-01T10:00:00Z", "Z", ".000000"),
        ("2024-05-01T10:00:00.123Z", ".123Z", ".000000"),
        ("2024-05-01T10:00:00.123456789Z", "789Z", "Z07:00"),
    ],
)
def test_microseconds_have_six_digits(text: str, rest: str, part: str) -> None:
    """No fewer and no more."""
    with pytest.raises(InvalidValue, match=f'cannot parse "{rest}" as "{part}"'):
        canonical_micro_time(text)


# Durations in Go's notation.


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
