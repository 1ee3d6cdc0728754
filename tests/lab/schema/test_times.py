"""Times: one form for each, and the words for what is none."""

from __future__ import annotations

import pytest

from numakube_lab.schema.times import MalformedTime, canonical_micro_time, canonical_time


def test_times_are_written_in_utc() -> None:
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
    with pytest.raises(MalformedTime) as error:
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
    with pytest.raises(MalformedTime, match=f'cannot parse "{rest}" as "{part}"'):
        canonical_micro_time(text)
